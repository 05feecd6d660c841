// Bytes on their way to a file, in large pieces.
#ifndef GRADWIRE_TIMELINE_WRITER_H
#define GRADWIRE_TIMELINE_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

// |to| is set, the rest is zero.
typedef struct writer {
    FILE *to;
    uint8_t *data;  // not written yet
    size_t size, capacity;
    bool failed;
    int error;  // the first errno
} writer;

void writer_fail(writer *w, int error);

// |size| more bytes, which the caller fills; NULL if there is no memory.
uint8_t *writer_extend(writer *w, size_t size);
void writer_put(writer *w, const void *data, size_t size);
void writer_put_text(writer *w, const char *text);  // without its zero

// Writes what there is, if that is much. Between two things that are whole.
void writer_flush(writer *w);

// Writes all. Returns false, with errno, if anything has failed.
bool writer_close(writer *w);

#endif
