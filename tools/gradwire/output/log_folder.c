#include "output/log_folder.h"

#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static bool make_folder(const char *path) {
    struct stat about;
    if (mkdir(path, 0777) == 0) return true;
    if (errno != EEXIST || stat(path, &about) != 0) return false;
    if (!S_ISDIR(about.st_mode)) errno = ENOTDIR;
    return S_ISDIR(about.st_mode) && access(path, W_OK) == 0;
}

static bool fits(int size) {
    if (size < LOG_PATH_BYTES) return true;
    errno = ENAMETOOLONG;
    return false;
}

// Ranks may change their folder.
static bool find_absolute(const char *path, char out[LOG_PATH_BYTES]) {
    char *absolute = realpath(path, NULL);
    bool ok = absolute && fits(snprintf(out, LOG_PATH_BYTES, "%s", absolute));
    int error = errno;
    free(absolute);
    errno = error;
    return ok;
}

// Replaces |name| in F at once: a reader finds the old one or the new one.
static bool replace_link(const log_folder *f, const char *to, const char *name) {
    char path[LOG_PATH_BYTES], other[LOG_PATH_BYTES];
    if (!fits(snprintf(path, sizeof path, "%s/%s", f->path, name)) ||
        !fits(snprintf(other, sizeof other, "%s/.%s.%s", f->path, name, f->job)))
        return false;
    if (symlink(to, other) != 0) return false;
    if (rename(other, path) == 0) return true;
    int error = errno;
    unlink(other);
    errno = error;
    return false;
}

bool log_folder_open(log_folder *f, const char *path, const char *job) {
    char folder[LOG_PATH_BYTES], events[LOG_PATH_BYTES];
    *f = (log_folder){ .events.fd = -1 };
    if (!make_folder(path) || !find_absolute(path, f->path)) return false;
    snprintf(f->job, sizeof f->job, "%s", job);
    return fits(snprintf(folder, sizeof folder, "%s/%s", f->path, f->job)) && make_folder(folder) &&
           fits(snprintf(events, sizeof events, "%s/events.jsonl", folder)) &&
           log_open(&f->events, events) && replace_link(f, f->job, "latest");
}

void log_folder_close(log_folder *f) {
    log_close(&f->events);
}

bool log_folder_add_attempt(const log_folder *f, int rank, int attempt) {
    char path[LOG_PATH_BYTES];
    return fits(snprintf(path, sizeof path, "%s/%s/slot%d", f->path, f->job, rank)) &&
           make_folder(path) && log_folder_path(f, rank, attempt, "", path) && make_folder(path);
}

bool log_folder_path(const log_folder *f, int rank, int attempt, const char *file,
                     char out[LOG_PATH_BYTES]) {
    return fits(snprintf(out, LOG_PATH_BYTES, "%s/%s/slot%d/attempt%d/%s", f->path, f->job, rank,
                         attempt, file));
}

bool log_folder_link(const log_folder *f, int rank, int attempt) {
    char to[128], name[32];
    snprintf(to, sizeof to, "%s/slot%d/attempt%d/output.log", f->job, rank, attempt);
    snprintf(name, sizeof name, "rank%d.log", rank);
    return replace_link(f, to, name);
}

void log_folder_event(log_folder *f, const char *event, const char *format, ...) {
    if (f->events.fd < 0) return;
    struct timespec now;
    char fields[128];
    va_list arguments;
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(fields, sizeof fields, "{%s}", format);
    json_t *line = json_pack("{s:f, s:s}", "time", (double)now.tv_sec + (double)now.tv_nsec * 1e-9,
                             "event", event);
    va_start(arguments, format);
    json_t *rest = json_vpack_ex(NULL, 0, fields, arguments);
    va_end(arguments);
    if (line && rest) json_object_update(line, rest);  // a text that is not UTF-8 is left out
    char *text = line ? json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(13)) : NULL;
    if (text) log_put(&f->events, text, strlen(text));
    free(text);
    json_decref(line);
    json_decref(rest);
}
