// Text that is put together piece by piece, and cut where there is no more room.
//
// Ownership: |out| is the caller's. Threads: any.
#ifndef COLLECTIVE_SENTENCE_H
#define COLLECTIVE_SENTENCE_H

#include <gradwire/status.h>
#include <stddef.h>
#include <stdint.h>

typedef struct sentence {
    char *out;
    size_t at, size;
} sentence;

void sentence_put(sentence *t, const char *format, ...) GW_PRINTF(2, 3);
void sentence_put_time(sentence *t, int64_t ns);  // "312 us", "4.1 ms", "61 s"

#endif
