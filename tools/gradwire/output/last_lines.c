#include "output/last_lines.h"

#include <string.h>

enum { BURIED_BY = 10 };

_Static_assert(LAST_LINE_BYTES <= UINT8_MAX, "a size fits its field");

void last_lines_add(last_lines *t, const char *line, size_t size) {
    size_t kept = size < LAST_LINE_BYTES ? size : LAST_LINE_BYTES;
    size_t i = t->count++ % LAST_LINES_MAX;
    memcpy(t->lines[i].text, line, kept);
    t->lines[i].size = (uint8_t)kept;
    t->newest = ++*t->total;
}

bool last_lines_are_buried(const last_lines *t) {
    return t->count > 0 && *t->total - t->newest >= BURIED_BY;
}

void last_lines_put(const last_lines *t, const char *prefix, sink *to) {
    uint64_t first = t->count > LAST_LINES_MAX ? t->count - LAST_LINES_MAX : 0;
    for (uint64_t i = first; i < t->count; i++) {
        sink_put(to, prefix, strlen(prefix));
        sink_put(to, t->lines[i % LAST_LINES_MAX].text, t->lines[i % LAST_LINES_MAX].size);
        sink_put(to, "\n", 1);
    }
}
