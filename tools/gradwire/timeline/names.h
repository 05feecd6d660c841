// The names of a timeline, each given to the visitor once.
#ifndef GRADWIRE_TIMELINE_NAMES_H
#define GRADWIRE_TIMELINE_NAMES_H

#include "observe/image.h"
#include "timeline/table.h"
#include "timeline/visit.h"

enum { NAMES_SIZE = 1024 };  // longer ones are cut

typedef struct names {
    const visitor *to;
    const image *images;
    int image_count;
    uint32_t **by_offset;  // by image and offset in its strings; 0: not given yet
    table by_hash;         // by two hashes of the text
    uint32_t count;
    bool failed;  // without memory
} names;

bool names_open(const image *images, int count, const visitor *to, names *out);
void names_close(names *n);

uint32_t names_of_text(names *n, const char *text);

// Of the string that the record has, or, if that is "", of its kind.
uint32_t names_of_record(names *n, int image_index, const image_record *r);

#endif
