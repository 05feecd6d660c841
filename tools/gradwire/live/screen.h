// The terminal while gradwire top shows its table there.
#ifndef GRADWIRE_SCREEN_H
#define GRADWIRE_SCREEN_H

#include <stdbool.h>
#include <stdint.h>

// Whether a signal to end has arrived (SIGINT, SIGTERM, SIGHUP), since screen_open.
bool screen_is_ended(void);

// Catches these signals. If standard output is a terminal, it gets a second page without a cursor; if standard input is
// one, keys arrive at once. Returns whether standard output is a terminal.
bool screen_open(void);

// As it was before.
void screen_close(void);

void screen_size(int *out_width, int *out_height);

// Waits for a key, at most |wait_ms|. 0: none, or a signal has arrived.
int screen_key(int64_t wait_ms);

#endif
