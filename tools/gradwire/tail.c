#include "tail.h"

#include <string.h>

enum { BURIED_BY = 10 };

_Static_assert(TAIL_LINE_BYTES <= UINT8_MAX, "a size fits its field");

void tail_add(tail *t, const char *line, size_t size) {
    size_t kept = size < TAIL_LINE_BYTES ? size : TAIL_LINE_BYTES;
    size_t i = t->count++ % TAIL_LINES;
    memcpy(t->lines[i].text, line, kept);
    t->lines[i].size = (uint8_t)kept;
    t->newest = ++*t->total;
}

bool tail_is_buried(const tail *t) {
    return t->count > 0 && *t->total - t->newest >= BURIED_BY;
}

void tail_put(const tail *t, const char *prefix, sink *to) {
    uint64_t first = t->count > TAIL_LINES ? t->count - TAIL_LINES : 0;
    for (uint64_t i = first; i < t->count; i++) {
        sink_put(to, prefix, strlen(prefix));
        sink_put(to, t->lines[i % TAIL_LINES].text, t->lines[i % TAIL_LINES].size);
        sink_put(to, "\n", 1);
    }
}
