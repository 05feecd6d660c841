// Inputs that fuzz targets make of their bytes: numbers, tensors and values as any peer may send them.
#ifndef TESTING_FUZZ_INPUT_H
#define TESTING_FUZZ_INPUT_H

#include "base/value.h"

#include <stddef.h>
#include <stdint.h>

typedef struct fuzz_input {
    const uint8_t *at, *end;
    gw_scope *scope;  // of the results
} fuzz_input;

// As much as a peer may have made for it, but so little that a run is short.
enum { FUZZ_TENSOR_BYTES_MAX = 1 << 16 };

typedef enum fuzz_kind {
    FUZZ_TENSOR,
    FUZZ_INT,
    FUZZ_REAL,
    FUZZ_BOOL,
    FUZZ_INTS,
    FUZZ_TENSORS,
    FUZZ_DTYPE,
    FUZZ_DTYPE_NAME,
    FUZZ_ROWS,
    FUZZ_REALS,
    FUZZ_NONE,
    FUZZ_KIND_COUNT
} fuzz_kind;

// A number from 0 on; 0 when there are no bytes left.
unsigned fuzz_take(fuzz_input *in, unsigned below);

// Small ones mostly, and those at the ends of the range.
int64_t fuzz_take_int(fuzz_input *in);
double fuzz_take_real(fuzz_input *in);

gw_value fuzz_take_tensor(fuzz_input *in);
gw_value fuzz_take_value(fuzz_input *in, fuzz_kind kind);

#endif
