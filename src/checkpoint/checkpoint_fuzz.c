// Files with any bytes. A checkpoint that can be read can be written, and reads as the same again.
#include "checkpoint/checkpoint.h"

#include "base/bytes.h"
#include "base/scope.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct memory {
    const uint8_t *data;
    size_t size;
} memory;

static bool read_memory(void *context, void *out, size_t size, uint64_t at) {
    const memory *m = context;
    if (at > m->size || size > m->size - at) abort();
    memcpy(out, m->data + at, size);
    return true;
}

static bool write_memory(void *context, const void *data, size_t size) {
    bytes_put(context, data, size);
    return true;
}

static gw_map *decode(gw_scope *s, const uint8_t *data, size_t size) {
    memory m = { data, size };
    gw_map *out = NULL;
    checkpoint_decode(s, &out, s, (checkpoint_source){ read_memory, &m, size });
    if (gw_ok(s) != (out != NULL)) abort();
    return out;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    gw_scope *s = gw_scope_open(NULL);
    gw_map *values = decode(s, data, size);
    if (values) {
        bytes first = { 0 }, second = { 0 };
        checkpoint_encode(s, values, (checkpoint_sink){ write_memory, &first });
        gw_map *again = gw_ok(s) ? decode(s, first.data, first.size) : NULL;
        if (!again) abort();
        checkpoint_encode(s, again, (checkpoint_sink){ write_memory, &second });
        if (!gw_ok(s) || first.size != second.size ||
            memcmp(first.data, second.data, first.size) != 0)
            abort();
        bytes_fini(&first);
        bytes_fini(&second);
    }
    gw_error e = gw_scope_close(s);
    if (e.status && !e.text[0]) abort();
    return 0;
}
