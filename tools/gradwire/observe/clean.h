// Texts from the memory of other processes, made fit for terminals and JSON.
#ifndef GRADWIRE_CLEAN_H
#define GRADWIRE_CLEAN_H

#include <stddef.h>

#include "trace/table.h"

// Replaces control characters and bytes that are not UTF-8 by '?', up to the NUL. The length stays the same.
void clean_text(char *text);

// The same for a text of at most |size| - 1 bytes, which it terminates.
void clean_array(char *text, size_t size);

// Texts one after the other, of which the last ends at |size|.
void clean_strings(char *strings, size_t size);

void clean_table(trace_table *table);

#endif
