// Handshakes from unauthenticated peers.
#include "net/handshake.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    size_t want;
    uint16_t version;
    gw_error error = { 0 };
    // As a connection reads it: byte by byte, and never more than handshake_size returned.
    for (size_t have = 1; have <= size && have <= HANDSHAKE_PREFACE_BYTES; have++)
        if (handshake_size(data, have, &want, &version, &error)) return 0;
    if (size < HANDSHAKE_PREFACE_BYTES ||
        handshake_size(data, HANDSHAKE_PREFACE_BYTES, &want, &version, &error))
        return 0;
    if (want > HANDSHAKE_MAX) abort();
    if (size < want) return 0;
    handshake h;
    if (handshake_decode(data, want, &h, &error)) {
        if (!error.text[0]) abort();
        return 0;
    }
    // Capabilities are skipped, and none are sent.
    uint8_t again[HANDSHAKE_MAX];
    size_t size_again = handshake_encode(again, &h);
    if (size_again > want || (size_again == want && memcmp(again, data, want) != 0)) abort();
    return 0;
}
