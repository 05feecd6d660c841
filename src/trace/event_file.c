#include "trace/event_file.h"

#include "base/crc32c.h"

#include <string.h>

// Fields of Event, Summary and Summary.Value, and their forms on the wire.
enum { EVENT_WALL_TIME = 1, EVENT_STEP = 2, EVENT_FILE_VERSION = 3, EVENT_SUMMARY = 5 };
enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_SIMPLE_VALUE = 2 };
enum { FORM_VARINT = 0, FORM_FIXED64 = 1, FORM_BYTES = 2, FORM_FIXED32 = 5 };

// ---- Fields -------------------------------------------------------------------------------------

static void put_varint(bytes *out, uint64_t x) {
    for (; x >= 0x80; x >>= 7) bytes_put_u8(out, (uint8_t)(x | 0x80));
    bytes_put_u8(out, (uint8_t)x);
}

static size_t varint_bytes(uint64_t x) {
    size_t size = 1;
    while (x >>= 7) size++;
    return size;
}

static void put_key(bytes *out, int field, int form) {
    bytes_put_u8(out, (uint8_t)(field << 3 | form));
}

static void put_text(bytes *out, int field, const char *text) {
    size_t size = strlen(text);
    put_key(out, field, FORM_BYTES);
    put_varint(out, size);
    bytes_put(out, text, size);
}

static void put_wall_time(bytes *out, double wall_s) {
    put_key(out, EVENT_WALL_TIME, FORM_FIXED64);
    bytes_put_f64(out, wall_s);
}

// ---- Records ------------------------------------------------------------------------------------

// TFRecord masks sums, since a sum over bytes that have their own sum says little.
static uint32_t masked_sum(const void *data, size_t size) {
    uint32_t sum = crc32c(0, data, size);
    return (sum >> 15 | sum << 17) + 0xa282ead8u;
}

enum { SIZE_AND_SUM_BYTES = 12 };

static size_t begin_record(bytes *out) {
    size_t at = out->size;
    bytes_extend(out, SIZE_AND_SUM_BYTES);
    return at;
}

static void end_record(bytes *out, size_t at) {
    if (out->failed) return;
    uint8_t *start = out->data + at;
    uint64_t size = out->size - at - SIZE_AND_SUM_BYTES;
    for (int i = 0; i < 8; i++) start[i] = (uint8_t)(size >> 8 * i);
    uint32_t sum = masked_sum(start, 8);
    for (int i = 0; i < 4; i++) start[8 + i] = (uint8_t)(sum >> 8 * i);
    bytes_put_u32(out, masked_sum(start + SIZE_AND_SUM_BYTES, size));
}

void event_file_put_version(bytes *out, double wall_s) {
    size_t at = begin_record(out);
    put_wall_time(out, wall_s);
    put_text(out, EVENT_FILE_VERSION, "brain.Event:2");
    end_record(out, at);
}

void event_file_put_scalar(bytes *out, double wall_s, const char *tag, float value, int64_t step) {
    size_t tag_bytes = strlen(tag), at = begin_record(out);
    size_t value_bytes = 1 + varint_bytes(tag_bytes) + tag_bytes + 1 + sizeof value;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_wall_time(out, wall_s);
    put_key(out, EVENT_STEP, FORM_VARINT);
    put_varint(out, (uint64_t)step);
    put_key(out, EVENT_SUMMARY, FORM_BYTES);
    put_varint(out, 1 + varint_bytes(value_bytes) + value_bytes);
    put_key(out, SUMMARY_VALUE, FORM_BYTES);
    put_varint(out, value_bytes);
    put_text(out, VALUE_TAG, tag);
    put_key(out, VALUE_SIMPLE_VALUE, FORM_FIXED32);
    bytes_put_u32(out, bits);
    end_record(out, at);
}
