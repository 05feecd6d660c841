// Shared by the files of checkpoints: nested values, entries under flat names, bytes.
//
//     saving    values -> checkpoint_flatten -> entries -> checkpoint_encode -> a sink
//     loading   a source -> checkpoint_decode -> entries -> checkpoint_nest -> values
//
// Ownership: texts and tensors belong to the scope. Every error is an error of the scope.
#ifndef CHECKPOINT_CHECKPOINT_H
#define CHECKPOINT_CHECKPOINT_H

#include "base/bytes.h"
#include "base/scope.h"
#include <gradwire/checkpoint.h>
#include <gradwire/tensor.h>
#include <jansson.h>

typedef struct checkpoint_entry {
    const char *name;
    gw_tensor *x;  // contiguous

    // in the file
    gw_dtype dtype;
    gw_shape shape;
    uint64_t begin, end;  // behind the header
} checkpoint_entry;

typedef struct checkpoint {
    gw_scope *scope;
    checkpoint_entry *items;
    int count;
    uint32_t capacity;
    json_t *texts;     // of __metadata__: an object of strings, or NULL without memory
    bool has_nesting;  // also of values that are all tensors
} checkpoint;

void checkpoint_init(checkpoint *c, gw_scope *s);
void checkpoint_fini(checkpoint *c);
checkpoint_entry *checkpoint_add(checkpoint *c, const char *name);  // NULL with the scope failed

// checkpoint_tree.c
void checkpoint_flatten(checkpoint *c, gw_map *values);
gw_map *checkpoint_nest(checkpoint *c, gw_scope *out);                          // in |out|
void checkpoint_put_text(checkpoint *c, const char *name, const json_t *tree);  // as JSON

// checkpoint_header.c: reads JSON that is nested no deeper than the saved values; NULL with |error| of
// the parser's, whose walk takes stack for each level.
json_t *checkpoint_parse(const char *text, size_t size, json_error_t *error);
// Writes the header, padded so that the numbers behind it are aligned; and
// reads one, checking all of it against |data_size|, the count of bytes behind it.
void checkpoint_lay_out(checkpoint *c);  // decides in which order the tensors stand
json_t *checkpoint_describe(const checkpoint *c);
void checkpoint_read_header(checkpoint *c, const char *text, size_t size, uint64_t data_size);

const char *checkpoint_dtype_name(gw_dtype dtype);  // in files: "F32"
// Dtype and shape of |e| from an object with these fields, and the size of the tensor in bytes.
bool checkpoint_read_tensor(checkpoint *c, checkpoint_entry *e, const json_t *j, uint64_t *out);

// checkpoint_check.c: |checks| of a file that has none are NULL. |at| is where numbers stand in it.
void checkpoint_keep_checks(checkpoint *c);  // among the texts, once it is laid out
void checkpoint_put_checks(checkpoint *c,
                           const uint32_t *sums);  // the same with known ones; NULL: all 0
json_t *checkpoint_read_checks(checkpoint *c);
void checkpoint_compare(checkpoint *c, const json_t *checks, const checkpoint_entry *e,
                        const void *numbers, uint64_t at);

// A whole checkpoint, in memory or in a file.
typedef struct checkpoint_sink {
    bool (*write)(void *context, const void *bytes, size_t size);  // false with the scope failed
    void *context;
} checkpoint_sink;

typedef struct checkpoint_source {
    bool (*read)(void *context, void *out, size_t size, uint64_t at);  // false: likewise
    void *context;
    uint64_t size;
} checkpoint_source;

// All bytes of a file before the numbers.
void checkpoint_encode_header(const checkpoint *c, bytes *out);
// Reads the header; returns where the numbers begin.
uint64_t checkpoint_decode_header(checkpoint *c, const checkpoint_source *from);
// Reads the numbers of all entries into new tensors; of one entry to |out|. |start| is where they begin.
void checkpoint_decode_numbers(checkpoint *c, const checkpoint_source *from, uint64_t start);
bool checkpoint_decode_entry(checkpoint *c, const checkpoint_source *from, uint64_t start,
                             const json_t *checks, const checkpoint_entry *e, uint8_t *out);

void checkpoint_encode(gw_scope *s, gw_map *values, checkpoint_sink to);
void checkpoint_decode(gw_scope *s, gw_map **out, gw_scope *out_scope, checkpoint_source from);

#endif
