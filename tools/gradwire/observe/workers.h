// The workers of images: a line each, or JSON.
#ifndef GRADWIRE_WORKERS_H
#define GRADWIRE_WORKERS_H

#include <stdio.h>

#include "observe/image.h"

void workers_write(const image *images, int count, FILE *out);
void workers_write_json(const image *images, int count, FILE *out);

#endif
