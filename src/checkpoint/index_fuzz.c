// Indexes with any text and the right checksum; and any text.
#include "checkpoint/index.h"

#include "base/bytes.h"
#include "base/crc32c.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void decode(const uint8_t *data, size_t size) {
    gw_scope *s = gw_scope_open(NULL);
    checkpoint_index x;
    part_facts facts;
    bool is_valid = checkpoint_index_decode(s, (const char *)data, size, &x);
    if (is_valid != gw_ok(s)) abort();
    if (is_valid) checkpoint_index_find_file(s, &x, "part-1-of-1.safetensors", &facts);
    checkpoint_index_fini(&x);
    gw_error e = gw_scope_close(s);
    if (e.status && !e.text[0]) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    bytes all = { 0 };
    char sum[9];
    decode(data, size);
    bytes_put(&all, data, size);
    bytes_put(&all, ",\"crc32c\":\"", 11);
    snprintf(sum, sizeof sum, "%08x", crc32c(0, all.data, all.size));
    bytes_put(&all, sum, 8);
    bytes_put(&all, "\"}", 2);
    decode(all.data, all.size);
    bytes_fini(&all);
    return 0;
}
