// Counts what the library does: basic blocks of its code, in all threads. The library that this
// program is linked with is compiled for it (cmake/growth.cmake), so nothing that it does is left out.
#ifndef TESTS_GROWTH_STEPS_H
#define TESTS_GROWTH_STEPS_H

#include <stdint.h>

uint64_t steps_so_far(void);

#endif
