#include "collective/sentence.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

void sentence_put(sentence *t, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int size = t->at < t->size ? vsnprintf(t->out + t->at, t->size - t->at, format, args) : 0;
    va_end(args);
    if (size > 0) t->at += (size_t)size;
}

void sentence_put_time(sentence *t, int64_t ns) {
    if (ns < 1000000)
        sentence_put(t, "%" PRId64 " us", ns / 1000);
    else if (ns < INT64_C(10000000000))
        sentence_put(t, ns < 1000000000 ? "%.1f ms" : "%.1f s",
                     ns < 1000000000 ? (double)ns / 1e6 : (double)ns / 1e9);
    else
        sentence_put(t, "%" PRId64 " s", ns / 1000000000);
}
