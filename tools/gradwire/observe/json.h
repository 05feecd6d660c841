// Activities and records as JSON.
#ifndef GRADWIRE_JSON_H
#define GRADWIRE_JSON_H

#include <jansson.h>
#include <stdio.h>

#include "observe/image.h"

json_t *json_of_activity(const image *x, const trace_activity *a);
json_t *json_of_record(const image *x, const image_record *r);

// Writes it with an end of line, and frees it. NULL (without memory): "null".
void json_write(json_t *all, FILE *out);

#endif
