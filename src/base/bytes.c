#include "base/bytes.h"

#include "base/mem.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "the wire is little-endian and read in place");

void bytes_fini(bytes *b) {
    mem_free(b->data);
    *b = (bytes){ 0 };
}

uint8_t *bytes_extend(bytes *b, size_t size) {
    size_t needed;
    if (b->failed || __builtin_add_overflow(b->size, size, &needed)) {
        b->failed = true;
        return NULL;
    }
    if (needed > b->capacity) {
        size_t capacity = b->capacity ? b->capacity * 2 : 256;
        if (capacity < needed) capacity = needed;
        uint8_t *data = mem_realloc(b->data, capacity);
        if (!data) {
            b->failed = true;
            return NULL;
        }
        b->data = data;
        b->capacity = capacity;
    }
    uint8_t *at = b->data + b->size;
    b->size = needed;
    return at;
}

void bytes_put(bytes *b, const void *data, size_t size) {
    uint8_t *at = size ? bytes_extend(b, size) : NULL;
    if (at) memcpy(at, data, size);
}

void bytes_put_u8(bytes *b, uint8_t x) {
    bytes_put(b, &x, sizeof x);
}
void bytes_put_u16(bytes *b, uint16_t x) {
    bytes_put(b, &x, sizeof x);
}
void bytes_put_u32(bytes *b, uint32_t x) {
    bytes_put(b, &x, sizeof x);
}
void bytes_put_u64(bytes *b, uint64_t x) {
    bytes_put(b, &x, sizeof x);
}
void bytes_put_f64(bytes *b, double x) {
    bytes_put(b, &x, sizeof x);
}

void bytes_put_text(bytes *b, const char *text) {
    size_t size = strlen(text);
    bytes_put_u32(b, (uint32_t)size);
    bytes_put(b, text, size);
}

const uint8_t *reader_take(reader *r, size_t size) {
    if (r->failed || reader_left(r) < size) {
        r->failed = true;
        return NULL;
    }
    const uint8_t *at = r->at;
    r->at += size;
    return at;
}

static void take_into(reader *r, void *out, size_t size) {
    const uint8_t *at = reader_take(r, size);
    if (at) memcpy(out, at, size);
}

uint8_t reader_u8(reader *r) {
    uint8_t x = 0;
    take_into(r, &x, sizeof x);
    return x;
}

uint16_t reader_u16(reader *r) {
    uint16_t x = 0;
    take_into(r, &x, sizeof x);
    return x;
}

uint32_t reader_u32(reader *r) {
    uint32_t x = 0;
    take_into(r, &x, sizeof x);
    return x;
}

uint64_t reader_u64(reader *r) {
    uint64_t x = 0;
    take_into(r, &x, sizeof x);
    return x;
}

double reader_f64(reader *r) {
    double x = 0;
    take_into(r, &x, sizeof x);
    return x;
}

bool reader_text(reader *r, char *out, size_t max) {
    uint32_t size = reader_u32(r);
    const uint8_t *at = size < max ? reader_take(r, size) : NULL;
    if (!at || memchr(at, 0, size)) {
        r->failed = true;
        out[0] = '\0';
        return false;
    }
    memcpy(out, at, size);
    out[size] = '\0';
    return true;
}
