// Hellos from strangers.
#include "net/handshake.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    size_t want;
    uint16_t version;
    gw_error error = { 0 };
    // As a line reads it: byte by byte, and never more than was asked for.
    for (size_t have = 1; have <= size && have <= HELLO_PREFACE_BYTES; have++)
        if (hello_size(data, have, &want, &version, &error)) return 0;
    if (size < HELLO_PREFACE_BYTES ||
        hello_size(data, HELLO_PREFACE_BYTES, &want, &version, &error))
        return 0;
    if (want > HELLO_MAX) abort();
    if (size < want) return 0;
    hello h;
    if (hello_decode(data, want, &h, &error)) {
        if (!error.text[0]) abort();
        return 0;
    }
    uint8_t again[HELLO_MAX];
    if (hello_encode(again, &h) != want || memcmp(again, data, want) != 0) abort();
    return 0;
}
