#include "agent/settings/error_file.h"

#include "agent/settings/environment.h"

#include <errno.h>
#include <jansson.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PATH_BYTES = 1400, TEXT_BYTES = GW_ERROR_TEXT_MAX + 256 };

// A text that is not UTF-8 keeps its ASCII characters.
static json_t *text_of(const char *text) {
    char plain[TEXT_BYTES];
    json_t *value = json_string(text);
    if (value) return value;
    snprintf(plain, sizeof plain, "%s", text);
    for (char *c = plain; *c; c++)
        if ((unsigned char)*c >= 0x80) *c = '?';
    return json_string(plain);
}

static json_t *describe(const error_report *r) {
    char timestamp[32];
    snprintf(timestamp, sizeof timestamp, "%lld", (long long)time(NULL));
    const gw_error *e = r->error;
    json_t *gradwire =
        json_pack("{s:o, s:o, s:i, s:i, s:o, s:o}", "status", text_of(r->status), "worker",
                  text_of(r->worker), "slot", r->slot, "attempt", r->attempt, "made_by",
                  text_of(e && e->worker[0] ? e->worker : r->worker), "function",
                  text_of(e ? e->function : ""));
    return json_pack("{s:{s:o, s:{s:s, s:s}}, s:o}", "message", "message", text_of(r->message),
                     "extraInfo", "timestamp", timestamp, "py_callstack", "", "gradwire", gradwire);
}

bool error_file_write(const char *path, const error_report *r) {
    char other[PATH_BYTES];
    int size = snprintf(other, sizeof other, "%s.%d", path, (int)getpid());
    if (size >= (int)sizeof other) return errno = ENAMETOOLONG, false;
    json_t *report = describe(r);
    bool ok =
        report && json_dump_file(report, other, JSON_INDENT(2)) == 0 && rename(other, path) == 0;
    int error = errno;
    if (!ok) unlink(other);
    json_decref(report);
    errno = error;
    return ok;
}

bool error_file_read(const char *path, char *out, size_t size) {
    json_t *report = json_load_file(path, 0, NULL);
    const char *text =
        json_string_value(json_object_get(json_object_get(report, "message"), "message"));
    if (text) snprintf(out, size, "%s", text);
    json_decref(report);
    return text;
}

static _Atomic bool has_reported;

void error_file_withdraw(void) {
    const char *path = getenv("TORCHELASTIC_ERROR_FILE");
    if (atomic_exchange(&has_reported, false) && path) unlink(path);
}

void error_file_report(const char *worker, const gw_error *error) {
    const char *path = getenv("TORCHELASTIC_ERROR_FILE");
    if (!path || !*path) return;
    gw_launch place = environment_launch(getenv);
    error_report r = { .message = error->text,
                       .status = gw_status_name(error->status),
                       .worker = worker,
                       .slot = place.rank,
                       .attempt = place.attempt,
                       .error = error };
    if (error_file_write(path, &r)) has_reported = true;
}
