// A terminal's input for rank 0, through a pipe.
//
// Ranks are in process groups of their own, in the background of the terminal, where reading from
// it would stop them.
// Input that is not a terminal is not relayed: rank 0 reads it itself.
#ifndef GRADWIRE_INPUT_H
#define GRADWIRE_INPUT_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

enum { INPUT_POLL_COUNT = 2 };

typedef struct input {
    int terminal_fd;  // -1: closed, or never opened
    int pipe_fd;
    char data[4096];
    size_t begin, end;  // what rank 0 has not taken yet
} input;

// Returns the end of the pipe for rank 0, -1 with errno.
int input_open(input *in, int terminal_fd);
void input_close(input *in);

void input_poll(const input *in, struct pollfd out[INPUT_POLL_COUNT]);
void input_relay(input *in, const struct pollfd ready[INPUT_POLL_COUNT]);

#endif
