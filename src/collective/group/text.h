// Text that is built piece by piece, and cut at the end of the buffer.
//
// Ownership: |out| is the caller's. Threads: any.
#ifndef COLLECTIVE_GROUP_TEXT_H
#define COLLECTIVE_GROUP_TEXT_H

#include <gradwire/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct text_builder {
    char *out;
    size_t at, size;
} text_builder;

void text_put(text_builder *t, const char *format, ...) GW_PRINTF(2, 3);
void text_put_time(text_builder *t, int64_t ns);  // "312 us", "4.1 ms", "61 s"
// Whether error texts may quote a name of the program: UTF-8 without control characters and %.
bool text_may_quote(const char *name);

#endif
