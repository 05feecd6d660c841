// Reading the bytes of the memory of a process (src/trace/layout.h), none of which is trusted.
#ifndef GRADWIRE_MEMORY_H
#define GRADWIRE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// |why|: gets the reason of an error.
typedef struct memory_reader {
    int fd;
    char *why;
    size_t why_size;
} memory_reader;

// Writes the reason. Returns false.
__attribute__((format(printf, 2, 3))) bool memory_refuse(const memory_reader *m, const char *format,
                                                         ...);

// Reads |size| bytes at |offset|; false if there are not as many.
bool memory_copy(const memory_reader *m, void *out, size_t size, uint64_t offset);

#endif
