#include "collective/group/text.h"

#include "base/utf8.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void text_put(text_builder *t, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int size = t->at < t->size ? vsnprintf(t->out + t->at, t->size - t->at, format, args) : 0;
    va_end(args);
    if (size > 0) t->at += (size_t)size;
}

bool text_may_quote(const char *name) {
    return utf8_is_printable(name) && !strchr(name, '%');
}

void text_put_time(text_builder *t, int64_t ns) {
    if (ns < 1000000)
        text_put(t, "%" PRId64 " us", ns / 1000);
    else if (ns < INT64_C(10000000000))
        text_put(t, ns < 1000000000 ? "%.1f ms" : "%.1f s",
                 ns < 1000000000 ? (double)ns / 1e6 : (double)ns / 1e9);
    else
        text_put(t, "%" PRId64 " s", ns / 1000000000);
}
