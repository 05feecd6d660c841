// Tensors from any peer: a header with wrong sizes, dtype or place ends in one error text,
// before memory is allocated.
#include "wire/codec.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SEGMENTS_MAX = 3 };

static size_t largest_allowed;

// At most as much as has been received is allocated, and a little for handles.
static int fail_if_claimed(size_t size) {
    if (size > largest_allowed) abort();
    return 0;
}

// Up to three segments, whose sizes the first bytes choose: those of real tensors, or 0 to
// 255 bytes.
static void add_segments(message *m, const uint8_t *sizes) {
    for (int i = 0; i < SEGMENTS_MAX; i++) {
        size_t size = sizes[i] < 200 ? sizes[i] : (size_t)8 << (sizes[i] - 200) % 12;
        if (size == 0) break;
        block *b = block_take(size);
        memset(b->bytes, sizes[i] & 1, size);
        message_add_segment(m, b, 0, size);
        block_release(b);
    }
}

static void decode_all(message *m, gw_scope *s) {
    decoder d = { .message = m, .in = reader_of(m->head.data, m->head.size), .scope = s };
    while (reader_left(&d.in) > 0) {
        gw_value v;
        gw_error error = { 0 };
        if (decode_tensor(&d, &v, &error)) {
            if (!error.text[0]) abort();
            return;
        }
        if (!s) continue;
        encoder e = { .message = message_open(1) };
        if (encode_tensor(&e, v.as.tensor, &error)) abort();
        message_release(e.message);
        if (gw_layout_of(v.as.tensor) == GW_ROWS) gw_coalesce(s, v.as.tensor);
        if (!gw_ok(s)) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < SEGMENTS_MAX) return 0;
    message *m = message_open(1);
    add_segments(m, data);
    bytes_put(&m->head, data + SEGMENTS_MAX, size - SEGMENTS_MAX);
    decode_all(m, NULL);
    gw_scope *s = gw_scope_open(NULL);
    largest_allowed = 64 * 1024 + 2 * size;
    mem_fail_hook = fail_if_claimed;
    decode_all(m, s);
    mem_fail_hook = NULL;
    gw_error closed = gw_scope_close(s);
    (void)closed;
    message_release(m);
    return 0;
}
