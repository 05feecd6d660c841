// Frame headers: any 40 bytes are a frame that can be encoded again, or one error text.
#include "wire/frame.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void decode(const uint8_t raw[FRAME_HEADER_BYTES]) {
    frame f;
    gw_error error = { 0 };
    if (frame_decode(raw, &f, &error)) {
        if (!error.text[0]) abort();
        return;
    }
    uint8_t again[FRAME_HEADER_BYTES];
    frame_encode(again, &f);
    if (memcmp(again, raw, sizeof again) != 0) abort();
}

// With their own check, and with a valid one, which the fuzzer would not find.
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    for (; size >= FRAME_HEADER_BYTES; data += FRAME_HEADER_BYTES, size -= FRAME_HEADER_BYTES) {
        uint8_t raw[FRAME_HEADER_BYTES];
        memcpy(raw, data, sizeof raw);
        decode(raw);
        frame_seal(raw);
        decode(raw);
    }
    return 0;
}
