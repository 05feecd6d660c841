// Counts executed basic blocks of the library, in all threads. The library that this program is linked with is compiled
// for it (cmake/growth.cmake), so all of its code is counted.
#ifndef TESTS_GROWTH_STEPS_H
#define TESTS_GROWTH_STEPS_H

#include <stdint.h>

uint64_t steps_so_far(void);

#endif
