#include "trace/wanted.h"

#include "trace/kinds.h"

#include <stdio.h>
#include <string.h>

bool trace_wanted_parse(const char *text, trace_wanted *out, char why[256]) {
    const char *wrong;
    size_t size = text ? strcspn(text, ":") : 0, wrong_size;
    *out = (trace_wanted){ 0 };
    why[0] = '\0';
    if (!text || !*text) return false;
    snprintf(out->level_names, sizeof out->level_names, "%.*s", (int)(size < 64 ? size : 63), text);
    if (!trace_levels_parse(out->level_names, &out->levels, &wrong, &wrong_size)) {
        snprintf(why, 256, "GW_TRACE=%.60s: \"%.*s\" is no level; there are %s", text,
                 (int)(wrong_size < 32 ? wrong_size : 32), wrong, trace_level_names());
        return false;
    }
    if (text[size]) out->file = text + size + 1;
    if (!out->file || *out->file) return true;
    snprintf(why, 256, "GW_TRACE=%.60s: the path of a file is missing", text);
    return false;
}
