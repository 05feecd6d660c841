// The output of ranks, line by line: from a pipe into a sink, each line whole and with its rank in front.
//
// A line longer than LINE_MAX_BYTES is cut, and ends with the number of bytes left out; so memory is bounded for any output.
// Bytes are bytes: only '\n' means anything.
#ifndef GRADWIRE_OUTPUT_H
#define GRADWIRE_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "output/log.h"
#include "output/sink.h"
#include "output/last_lines.h"

enum { LINE_MAX_BYTES = 64 * 1024, OUTPUT_LOGS = 2 };

typedef struct output {
    // arguments
    int fd;  // the pipe's end, not blocking; -1 once it is at its end
    sink *to;
    last_lines *last;             // what the rank printed last; shared by its two outputs
    log_file *logs[OUTPUT_LOGS];  // of this output, and of both together; NULL: none
    bool is_hidden;               // lines go to the logs only
    char prefix[16];
    // the beginning of a line whose end has not been read
    char *line;  // room for LINE_MAX_BYTES, of which |size| are used
    size_t size;
    uint64_t left_out;  // more bytes of that line
} output;

// Sets the beginning: |o| has its arguments but for the prefix.
void output_init(output *o, int rank);

// Reads and passes on one read's worth, if there is any. Returns whether there was.
bool output_read(output *o);

// The same until there is no more, or the sink is full, or a limit is reached that only a flood
// reaches.
void output_drain(output *o);

// Whether bytes can be read now.
bool output_has_more(const output *o);

// Closes the pipe; a line without an end gets one.
void output_finish(output *o);

#endif
