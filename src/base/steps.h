// A count of the steps of searches, for tests of how work grows with how much there is: of the looks
// at places of maps, lists and trees that are looked through one by one. Each thread has its own.
#ifndef BASE_STEPS_H
#define BASE_STEPS_H

#include <stdint.h>

extern _Thread_local uint64_t steps_taken;

#endif
