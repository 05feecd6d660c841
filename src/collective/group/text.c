#include "collective/group/text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

void text_put(text_builder *t, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int size = t->at < t->size ? vsnprintf(t->out + t->at, t->size - t->at, format, args) : 0;
    va_end(args);
    if (size > 0) t->at += (size_t)size;
}

// The size of the character that begins with |lead|, its smallest code, and the code bits in |lead|.
static int begin_character(unsigned char lead, uint32_t *least, uint32_t *code) {
    int size = lead < 0x80 ? 1 : lead >> 5 == 6 ? 2 : lead >> 4 == 14 ? 3 : lead >> 3 == 30 ? 4 : 0;
    static const uint32_t leasts[] = { 0, 0, 0x80, 0x800, 0x10000 };
    *least = leasts[size];
    *code = size < 2 ? lead : lead & (0x7fu >> size);
    return size;
}

bool text_may_quote(const char *name) {
    const unsigned char *c = (const unsigned char *)name;
    while (*c) {
        uint32_t least, code;
        int size = begin_character(*c++, &least, &code);
        for (int i = 1; i < size; i++, c++) {
            if (*c >> 6 != 2) return false;
            code = code << 6 | (*c & 0x3f);
        }
        bool is_text =
            size && code >= least && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
        if (!is_text || code < ' ' || (code >= 0x7f && code < 0xa0) || code == '%') return false;
    }
    return true;
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
