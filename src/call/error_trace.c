#include "call/error_trace.h"

#include "base/limits.h"
#include "base/status.h"

#include <stdio.h>
#include <string.h>

enum { SAME_MAX = 3 };  // calls of one function by itself that are all named

// Puts |hop| in front. A trace that does not fit is cut behind it: the reason, at the end, matters most.
static void prefix(gw_error *error, const char *hop) {
    char text[sizeof error->text];
    size_t size = strlen(error->text), hop_size = strlen(hop), room = sizeof text - 1 - hop_size;
    bool fits = size <= room;
    memcpy(text, hop, hop_size);
    if (fits) {
        memcpy(text + hop_size, error->text, size + 1);
    } else {
        memcpy(text + hop_size, "...", 3);
        memcpy(text + hop_size + 3, error->text + size + 3 - room, room - 2);
        error->trace = (gw_trace){ 0 };
    }
    memcpy(error->text, text, sizeof text);
}

// A function that calls itself, here or there, is named at the beginning and at the end.
static void fold(gw_error *error) {
    gw_trace *t = &error->trace;
    if (t->calls <= SAME_MAX) return;
    char text[sizeof error->text], left_out[32];
    int size = snprintf(left_out, sizeof left_out, "... (%u more): ", t->calls - 2);
    // A long trace is cut.
    if (snprintf(text, sizeof text, "%.*s%s%s", (int)t->first, error->text, left_out,
                 error->text + t->last) < 0)
        return;
    memcpy(error->text, text, sizeof text);
    t->last = (uint16_t)(t->first + size);
}

static void add_hop(gw_error *error, const char *hop, uint64_t function) {
    gw_trace *t = &error->trace;
    size_t size = strlen(hop);
    bool continues = function && t->calls && t->function == function && t->calls < UINT32_MAX;
    if (continues) fold(error);
    *t = (gw_trace){ .function = function,
                     .calls = function ? (continues ? t->calls : 0) + 1 : 0,
                     .first = (uint16_t)size,
                     .last = (uint16_t)(continues ? t->last + size : 0) };
    prefix(error, hop);
}

void error_add_trace(gw_error *error, const char *worker, const char *function) {
    if (!error->worker[0]) snprintf(error->worker, sizeof error->worker, "%s", worker);
    if (!error->function[0]) snprintf(error->function, sizeof error->function, "%.127s", function);
    char hop[3 * LIMIT_NAME_BYTES + 8];  // of a method, with its class
    uint64_t own = *function ? error_trace_function(function) : 0;
    bool is_named = own && !error->trace.calls && error->trace.function == own;
    snprintf(hop, sizeof hop, "%s: %s%s", worker, is_named ? "" : function,
             own && !is_named ? ": " : "");
    add_hop(error, hop, own);
    if (is_named) error->trace.first = (uint16_t)(strlen(hop) + strlen(function) + 2);
}
