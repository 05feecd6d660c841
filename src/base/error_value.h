// Values that errors carry: bytes, which gw_error names by a number.
//
// A gw_error is copied freely, and its number with it. A scope or a result that has an error holds a count on the value;
// all other copies name a value that may be gone by then. The value stays for some time after its last count: until so
// many others (ERROR_VALUES_RECENT) have lost theirs. So the error of a scope that has closed can be passed on. No number
// is used twice.
//
// Threads: any.
#ifndef BASE_ERROR_VALUE_H
#define BASE_ERROR_VALUE_H

#include <stddef.h>
#include <stdint.h>

enum { ERROR_VALUES_RECENT = 16 };

typedef struct error_value {
    size_t size;
    uint8_t *data;
    // of the table
    uint64_t number;
    uint32_t count;
} error_value;

// Copies |data|. Returns the number, with one count; 0 without memory.
uint64_t error_value_make(const void *data, size_t size);

// Takes a count on the value |number|. Returns |number|; 0 if it is gone, or if |number| is 0.
uint64_t error_value_retain(uint64_t number);
void error_value_release(uint64_t number);  // 0 is fine

// The value |number| with one count, which error_value_release returns; NULL if it is gone.
const error_value *error_value_get(uint64_t number);

#endif
