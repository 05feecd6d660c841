#include "base/utf8.h"

// The size of the character that begins with |lead|, its smallest code, and the code bits in |lead|.
static int begin_character(unsigned char lead, uint32_t *least, uint32_t *code) {
    int size = lead < 0x80 ? 1 : lead >> 5 == 6 ? 2 : lead >> 4 == 14 ? 3 : lead >> 3 == 30 ? 4 : 0;
    static const uint32_t leasts[] = { 0, 0, 0x80, 0x800, 0x10000 };
    *least = leasts[size];
    *code = size < 2 ? lead : lead & (0x7fu >> size);
    return size;
}

bool utf8_take(const char **at, uint32_t *out_code) {
    uint32_t least, code;
    int size = begin_character((unsigned char)*(*at)++, &least, &code);
    for (int i = 1; i < size; i++, (*at)++) {
        unsigned char next = (unsigned char)**at;
        if (next >> 6 != 2) return false;
        code = code << 6 | (next & 0x3f);
    }
    *out_code = code;
    return size && code >= least && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
}

size_t utf8_printable_size(const char *text) {
    const char *end = text;
    uint32_t code;
    bool is_control = !utf8_take(&end, &code) || code < ' ' || (code >= 0x7f && code < 0xa0);
    return is_control ? 0 : (size_t)(end - text);
}

bool utf8_is_printable(const char *text) {
    while (*text) {
        size_t size = utf8_printable_size(text);
        if (!size) return false;
        text += size;
    }
    return true;
}
