#include "options/trace_option.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options/parse.h"
#include "trace/kinds.h"

enum { ITEM_MAX = 64, STEPS_MAX = 1000000000 };

bool parse_steps(const char *name, const char *text, int *out_first, int *out_last) {
    char *end;
    long first = strtol(text, &end, 10);
    long last = *end == '-' ? strtol(end + 1, &end, 10) : first;
    if (*end || first < 1 || last < first || last > STEPS_MAX)
        return parse_complain("%s=%s is no range of steps, such as steps=100-110", name, text);
    *out_first = (int)first;
    *out_last = (int)last;
    return true;
}

static bool parse_time(const char *name, const char *text, trace_option *out) {
    char shown[ITEM_MAX + 16];
    snprintf(shown, sizeof shown, "%s: seconds", name);
    if (!parse_seconds(shown, text, &out->seconds_ms)) return false;
    return out->seconds_ms || parse_complain("%s: seconds=%s is no time to trace", name, text);
}

static bool parse_item_steps(const char *name, const char *text, trace_option *out) {
    char shown[ITEM_MAX + 16];
    snprintf(shown, sizeof shown, "%s: steps", name);
    return parse_steps(shown, text, &out->first_step, &out->last_step);
}

static bool parse_item(const char *name, const char *item, trace_option *out) {
    uint32_t level = trace_level_of(item, strlen(item));
    if (strncmp(item, "seconds=", 8) == 0) return parse_time(name, item + 8, out);
    if (strncmp(item, "steps=", 6) == 0) return parse_item_steps(name, item + 6, out);
    out->levels |= level;
    return level || parse_complain("%s: %s is no level; there are %s; or seconds=S, steps=A-B",
                                   name, item, trace_level_names());
}

bool trace_option_parse(const char *name, const char *text, trace_option *out) {
    size_t size = strcspn(text, ",");
    *out = (trace_option){ 0 };
    if (!size || size >= sizeof out->file)
        return parse_complain("%s needs the path of a file, of at most %d bytes", name,
                              TRACE_FILE_MAX - 1);
    memcpy(out->file, text, size);
    for (const char *at = text + size; *at;) {
        char item[ITEM_MAX];
        size = strcspn(++at, ",");
        snprintf(item, sizeof item, "%.*s", (int)(size < ITEM_MAX ? size : ITEM_MAX - 1), at);
        if (!parse_item(name, item, out)) return false;
        at += size;
    }
    if (!out->levels) out->levels = TRACE_USUAL;
    return !(out->seconds_ms && out->last_step) ||
           parse_complain("%s: seconds and steps exclude each other", name);
}
