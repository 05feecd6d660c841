#include "call/error_trace.h"

#include "agent/options.h"
#include "base/status.h"

#include <stdio.h>
#include <string.h>

enum { SAME_MAX = 3 };  // calls of one function by itself that are all named

// What does not fit is cut out of the middle of the trace: who asked, and what went wrong in the
// end, matter most.
static void prefix(gw_error *error, const char *name) {
    static const char cut[] = "...: ";
    size_t needed = strlen(name) + 2 + strlen(error->text), room = sizeof error->text - 1;
    if (needed > room) {
        const char *rest = strstr(error->text + (needed - room) + sizeof cut, ": ");
        if (rest) {
            char text[sizeof error->text];
            snprintf(text, sizeof text, "%s%s", cut, rest + 2);
            memcpy(error->text, text, sizeof text);
        }
    }
    error_prefix(error, name);
}

// The length of "worker: function: " at |at|, 0 if it says something else.
static size_t hop_size(const char *at, const char *function) {
    char worker[LIMIT_NAME_BYTES + 1];
    const char *end = strstr(at, ": ");
    size_t size = end ? (size_t)(end - at) : 0, function_size = strlen(function);
    if (!size || size >= sizeof worker) return 0;
    memcpy(worker, at, size);
    worker[size] = '\0';
    end += 2;
    if (!options_is_name(worker) || strncmp(end, function, function_size) ||
        strncmp(end + function_size, ": ", 2))
        return 0;
    return size + 2 + function_size + 2;
}

static void replace(gw_error *error, size_t kept, unsigned more, const char *rest) {
    char text[sizeof error->text];
    // What is too long is cut.
    if (snprintf(text, sizeof text, "%.*s... (%u more): %s", (int)kept, error->text, more, rest) <
        0)
        return;
    memcpy(error->text, text, sizeof text);
}

// A function that calls itself, here or there, is named at the beginning and at the end.
static void fold(gw_error *error, const char *function) {
    size_t first = hop_size(error->text, function), size;
    const char *at = error->text + first, *last = error->text;
    unsigned count = 1, more;
    int marker = 0;
    if (!first) return;
    for (; (size = hop_size(at, function)); at += size, count++) last = at;
    if (sscanf(at, "... (%u more): %n", &more, &marker) == 1 && marker) {
        if (count > 1) replace(error, first, more + count - 1, at + marker);
    } else if (count > SAME_MAX) {
        replace(error, first, count - 2, last);
    }
}

void error_add_trace(gw_error *error, const char *worker, const char *function) {
    if (!error->worker[0]) snprintf(error->worker, sizeof error->worker, "%s", worker);
    if (!error->function[0]) snprintf(error->function, sizeof error->function, "%.127s", function);
    // Operators and accessors say their own name already.
    size_t size = strlen(function);
    bool said = !strncmp(error->text, function, size) && !strncmp(error->text + size, ": ", 2);
    char hop[3 * LIMIT_NAME_BYTES + 5];  // of a method, with its class
    if (size) fold(error, function);
    snprintf(hop, sizeof hop, "%s%s%s", worker, size && !said ? ": " : "",
             size && !said ? function : "");
    prefix(error, hop);
}
