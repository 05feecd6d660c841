// The current line of the program, for error traces.
#ifndef BASE_ERROR_PLACE_H
#define BASE_ERROR_PLACE_H

#include <stdbool.h>
#include <stddef.h>

// Writes the current line of this thread, "train.c:12": the innermost call outside the library's own sources. False
// if it is unknown: without line numbers in the program, or without addr2line on this machine. Slow.
bool error_place(char *out, size_t size);

#endif
