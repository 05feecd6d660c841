// The present speed of this machine. Users run other programs on the machine during the tests. So limits are not
// counted in seconds of the wall clock, but in seconds of a machine that has nothing else to do: while each piece of
// work takes seven times its shortest time, the clock of limits runs at a seventh of its speed.
//
// A separate process does a fixed piece of work every second, until the process that has opened it ends. Processes that
// are forked later read the same clock.
#ifndef TESTING_PACE_H
#define TESTING_PACE_H

#include <stdint.h>

void pace_open(void);
int64_t pace_now_ms(void);  // never faster than CLOCK_MONOTONIC

// How many times longer than it could take work takes at present, and took at worst since pace_open: 1 to PACE_MAX.
double pace_slowness(void);
double pace_slowness_max(void);

// Anything slower is no busy machine.
#define PACE_MAX 60.0

// The arithmetic, for its test: a clock that is fed with pieces of work.
typedef struct pace_clock {
    int64_t at_ms, pace_ms;  // both clocks at the end of the last piece
    double slowness, slowness_max;
    int64_t least_ns;  // that a piece has needed of a processor
} pace_clock;

void pace_clock_feed(pace_clock *c, int64_t at_ms, int64_t took_ns, int64_t computed_ns);
int64_t pace_clock_read(const pace_clock *c, int64_t at_ms);

#endif
