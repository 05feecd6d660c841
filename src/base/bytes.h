// Growing bytes, and a checked reader: all integers on the wire are little-endian and go through
// these two.
//
// A writer that ran out of memory, and a reader that ran past the end, stay failed: check once at
// the end.
#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// All zero: empty.
typedef struct bytes {
    uint8_t *data;
    size_t size, capacity;
    bool failed;
} bytes;

void bytes_fini(bytes *b);
uint8_t *bytes_extend(bytes *b,
                      size_t size);  // appends |size| uninitialised bytes; NULL without memory
void bytes_put(bytes *b, const void *data, size_t size);
void bytes_put_u8(bytes *b, uint8_t x);
void bytes_put_u16(bytes *b, uint16_t x);
void bytes_put_u32(bytes *b, uint32_t x);
void bytes_put_u64(bytes *b, uint64_t x);
void bytes_put_f64(bytes *b, double x);
void bytes_put_text(bytes *b, const char *text);  // u32 length, bytes

typedef struct reader {
    const uint8_t *at, *end;
    bool failed;
} reader;

static inline reader reader_of(const void *data, size_t size) {
    const uint8_t *at = (const uint8_t *)data;
    return (reader){ .at = at, .end = size ? at + size : at };  // |at| may be NULL if |size| is 0
}
static inline size_t reader_left(const reader *r) {
    return (size_t)(r->end - r->at);
}
const uint8_t *reader_take(reader *r, size_t size);  // NULL and failed if fewer are left
uint8_t reader_u8(reader *r);                        // 0 once failed; the others too
uint16_t reader_u16(reader *r);
uint32_t reader_u32(reader *r);
uint64_t reader_u64(reader *r);
double reader_f64(reader *r);

// Copies a text of at most |max| - 1 bytes into |out| and terminates it; fails if it is longer or contains a
// NUL.
bool reader_text(reader *r, char *out, size_t max);

#endif
