// Where a program is, for lines about its errors.
#ifndef BASE_ERROR_PLACE_H
#define BASE_ERROR_PLACE_H

#include <stdbool.h>
#include <stddef.h>

// Writes where this thread is in the program, "train.c:12": the innermost call that is not of the library's own sources. False
// if that is not known: without line numbers in the program, or without addr2line on this machine. Slow.
bool error_place(char *out, size_t size);

#endif
