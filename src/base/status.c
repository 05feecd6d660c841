#include "base/status.h"

#include "base/error_place.h"
#include "base/log.h"
#include "base/map.h"
#include "base/limits.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[GW_STATUS_COUNT] = {
    [GW_OK] = "ok",
    [GW_INVALID] = "invalid",
    [GW_NOT_FOUND] = "not found",
    [GW_DUPLICATE] = "duplicate",
    [GW_MISMATCH] = "mismatch",
    [GW_WRONG_STATE] = "wrong state",
    [GW_WOULD_BLOCK] = "would block",
    [GW_UNSUPPORTED] = "unsupported",
    [GW_LIMIT] = "limit",
    [GW_TIMEOUT] = "timeout",
    [GW_CANCELLED] = "cancelled",
    [GW_OVERLOADED] = "overloaded",
    [GW_DISCONNECTED] = "disconnected",
    [GW_REF_LOST] = "reference lost",
    [GW_FENCED] = "fenced",
    [GW_REMOTE] = "remote",
    [GW_PROTOCOL] = "protocol",
    [GW_NO_MEMORY] = "no memory",
    [GW_ADDRESS_IN_USE] = "address in use",
    [GW_SYSTEM] = "system",
};

const char *gw_status_name(gw_status status) {
    return (unsigned)status < GW_STATUS_COUNT ? names[status] : "unknown status";
}

const char *gw_outcome_name(gw_outcome outcome) {
    switch (outcome) {
    case GW_OUTCOME_NONE: return "";
    case GW_NOT_DELIVERED: return "not delivered";
    case GW_MAY_HAVE_RUN: return "may have run";
    case GW_RAN_AND_FAILED: return "ran and failed";
    }
    return "unknown outcome";
}

int gw_exit_code(gw_error error) {
    if (error.status == GW_OK) return 0;
    if (!error.is_printed) fprintf(stderr, "gradwire: %s\n", error.text);
    return 1;
}

// ---- The funnel ---------------------------------------------------------------------------------
_Thread_local const char *error_origin;

static bool is_set(const char *variable) {
    const char *text = getenv(variable);
    return text && *text && strcmp(text, "0") != 0;
}

void error_reached_scope(const gw_error *error) {
    bool aborts = is_set("GW_ABORT_ON_ERROR");
    if (!aborts && !is_set("GW_TRACE_ERRORS")) return;
    char place[256];
    const char *at = error_origin ? error_origin : error_place(place, sizeof place) ? place : NULL;
    log_error("%s: %s: %s%s%s%s",
              aborts ? "aborting at the first error, because GW_ABORT_ON_ERROR is set" : "error",
              gw_status_name(error->status), error->text, at ? " (" : "", at ? at : "",
              at ? ")" : "");
    if (aborts) abort();
}

// An error text stays one line, also with control characters in a name.
static void hide_control_characters(char *text) {
    for (unsigned char *c = (unsigned char *)text; *c; c++)
        if (*c < ' ' || *c == 0x7f) *c = '?';
}

void error_init(gw_error *error, gw_status status) {
    error->status = status;
    error->outcome = GW_OUTCOME_NONE;
    error->worker[0] = error->function[0] = error->text[0] = '\0';
    memset(error->aborts, 0, sizeof *error - offsetof(gw_error, aborts));
}

gw_status error_setv(gw_error *error, gw_status status, const char *format, va_list args) {
    gw_error local;
    gw_error *e = error ? error : &local;
    error_init(e, status);
    vsnprintf(e->text, sizeof e->text, format ? format : "", args);
    hide_control_characters(e->text);
    return status;
}

gw_status error_copy(gw_error *error, const gw_error *from) {
    if (error) *error = *from;
    return from->status;
}

bool status_is_of_error(gw_status status) {
    return status > GW_OK && status < GW_STATUS_COUNT;
}

void error_set_by_programv(gw_error *error, gw_status status, const char *format, va_list args) {
    bool is_known = status == GW_OK || status_is_of_error(status);
    error_setv(error, status == GW_OK ? GW_REMOTE : is_known ? status : GW_INVALID, format, args);
    char prefix[64];
    snprintf(prefix, sizeof prefix, "%d is not the status of an error", (int)status);
    if (!is_known) error_prefix(error, prefix);
}

gw_error error_of_program(const gw_error *error) {
    gw_error e = *error;
    e.worker[sizeof e.worker - 1] = e.function[sizeof e.function - 1] = '\0';
    e.text[sizeof e.text - 1] = e.lost.name[sizeof e.lost.name - 1] = '\0';
    hide_control_characters(e.text);
    if (!status_is_of_error(e.status)) e.status = GW_INVALID;
    if ((unsigned)e.outcome > GW_RAN_AND_FAILED) e.outcome = GW_OUTCOME_NONE;
    for (int i = error_abort_count(&e); i < GW_ERROR_ABORTS_MAX; i++) e.aborts[i] = (gw_abort){ 0 };
    bool is_lost = (unsigned)e.lost.how < GW_LOSS_COUNT && (unsigned)e.lost.rank < LIMIT_WORKERS;
    if (!e.lost.how || !is_lost) e.lost = (gw_lost_worker){ 0 };
    size_t size = strlen(e.text);
    if (e.trace.first > size || e.trace.last > size) e.trace = (gw_trace){ 0 };
    return e;
}

gw_status error_set(gw_error *error, gw_status status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    error_setv(error, status, format, args);
    va_end(args);
    return status;
}

void error_prefix(gw_error *error, const char *prefix) {
    char text[GW_ERROR_TEXT_MAX];
    int size = snprintf(text, sizeof text, "%s: %s", prefix, error->text);
    if (size < 0) return;
    if ((size_t)size >= sizeof text) memcpy(text + sizeof text - 4, "...", 4);
    memcpy(error->text, text, sizeof text);
    error->trace = (gw_trace){ 0 };  // its functions are no longer in front
    error->is_printed = false;
}

void error_prefix_worker(gw_error *error, const char *name) {
    if (!error->lost.how || strcmp(error->lost.name, name) != 0) error_prefix(error, name);
}

void error_prefix_function(gw_error *error, const char *function) {
    error_prefix(error, function);
    error->trace.function = error_trace_function(function);
}

uint64_t error_trace_function(const char *function) {
    return hash_bytes(function, strlen(function));
}

void error_set_lost(gw_error *error, gw_loss how, int rank, uint64_t incarnation,
                    const char *name) {
    error->lost = (gw_lost_worker){ .how = how };
    if (!how) return;
    error->lost.rank = rank;
    error->lost.incarnation = incarnation;
    snprintf(error->lost.name, sizeof error->lost.name, "%s", name);
}

void error_add_abort(gw_error *error, gw_abort abort) {
    memmove(&error->aborts[1], &error->aborts[0], sizeof error->aborts - sizeof abort);
    error->aborts[0] = abort;
}

int error_abort_count(const gw_error *error) {
    int count = 0;
    while (count < GW_ERROR_ABORTS_MAX && error->aborts[count].group) count++;
    return count;
}

// ---- Errors that are kept -----------------------------------------------------------------------
// Without memory a fenced worker still reports that it is fenced.
static gw_error wordless[] = {
    { .status = GW_DISCONNECTED, .text = "no memory for the error's text" },
    { .status = GW_FENCED, .text = "no memory for the error's text" },
};
static const gw_error none;

static bool is_wordless(const gw_error *e) {
    return e == &wordless[0] || e == &wordless[1];
}

void error_keep(gw_error **to, const gw_error *error) {
    if (!*to || is_wordless(*to)) *to = mem_alloc(sizeof **to);
    if (*to)
        **to = *error;
    else
        *to = &wordless[error->status == GW_FENCED];
}

void error_forget(gw_error **to) {
    if (!is_wordless(*to)) mem_free(*to);
    *to = NULL;
}

const gw_error *error_kept(const gw_error *e) {
    return e ? e : &none;
}
