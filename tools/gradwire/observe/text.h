// A dump as text.
#ifndef GRADWIRE_TEXT_H
#define GRADWIRE_TEXT_H

#include <stdio.h>

#include "observe/image.h"

// The tables, and the last |record_count| records of each thread.
void text_write(const image *x, int record_count, FILE *out);

#endif
