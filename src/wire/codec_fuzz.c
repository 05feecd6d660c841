// Values from any peer: decoding any bytes ends in a value or in one error text.
#include "wire/codec.h"

#include "base/error_value.h"
#include "base/mem.h"
#include "wire/error_value.h"

#include <gradwire/binding.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static gw_status take_attachment(void *user, decoder *d, gw_kind kind, gw_value *out,
                                 gw_error *error) {
    (void)user, (void)kind;
    reader_u32(&d->in);
    *out = gw_none();
    return d->in.failed ? error_set(error, GW_PROTOCOL, "special: it ends early") : GW_OK;
}

// The first byte determines the size of the one segment, 0: there is none; the rest is the head.
static message *received(const uint8_t *data, size_t size) {
    message *m = message_open(1);
    if (!m) return NULL;
    m->received = true;
    size_t segment_size = size ? data[0] * (size_t)64 : 0;
    if (size > 1) bytes_put(&m->head, data + 1, size - 1);
    if (segment_size == 0) return m;
    m->segments = mem_calloc(sizeof *m->segments);
    m->segments[0] = (segment){ .block = block_take(segment_size), .size = segment_size };
    memset(m->segments[0].block->bytes, 1, segment_size);
    m->segment_count = m->segment_capacity = 1;
    return m;
}

// The same bytes as the value of an error, which any scope of the program may read.
static void read_value_of_error(const uint8_t *data, size_t size) {
    reader r = reader_of(data, size);
    gw_error e = { .status = GW_REMOTE }, error = { 0 };
    gw_status status = decode_value_of_error(&r, &e, &error);
    if (status && (!error.text[0] || e.value)) abort();
    gw_scope *s = gw_scope_open(NULL);
    gw_error_value(s, &e);
    error_value_release(e.value);
    gw_error closed = gw_scope_close(s);
    if (closed.status) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    read_value_of_error(data, size);
    message *m = received(data, size);
    gw_status results[2];
    for (int pass = 0; pass < 2; pass++) {
        gw_scope *s = pass ? gw_scope_open(NULL) : NULL;
        decoder d = { .message = m,
                      .in = reader_of(m->head.data, m->head.size),
                      .scope = s,
                      .attachment = take_attachment };
        gw_value v;
        gw_error error = { 0 };
        results[pass] = decode_value(&d, &v, &error);
        if (results[pass] && !error.text[0]) abort();
        // A decoded value can be encoded again, with the same bytes.
        if (s && !results[pass]) {
            encoder e = { .message = message_open(1) };
            encode_value(&e, v, &error);
            message_release(e.message);
        }
        if (s) {
            gw_error closed = gw_scope_close(s);
            (void)closed;
        }
    }
    // A repeated key is detected only when a map is made.
    if (!results[1] && results[0]) abort();
    message_release(m);
    return 0;
}
