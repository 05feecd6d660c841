// A stream that the launcher writes to: it buffers whole lines, and writes them as fast as the reader reads.
//
// Writing never blocks the launcher, so that signals and deadlines are handled while a reader is slow. Memory is bounded:
// a caller checks sink_has_room first, and then may add the lines of one read.
#ifndef GRADWIRE_SINK_H
#define GRADWIRE_SINK_H

#include <stdbool.h>
#include <stddef.h>

typedef struct sink {
    int fd;
    bool own_fd;  // opened again by the sink, to be non-blocking
    bool is_socket;
    bool is_broken;  // its reader has closed it; lines are dropped
    int error;       // errno of the first failed write
    char *data;
    size_t begin, end;  // what is not written yet
} sink;

bool sink_open(sink *s, int fd);  // false: no memory
void sink_close(sink *s);

bool sink_has_room(const sink *s);
bool sink_is_empty(const sink *s);
void sink_put(sink *s, const void *data,
              size_t size);  // kept whole or, beyond every bound, dropped whole
void sink_flush(sink *s);    // writes what can be written now

// Adds "gradwire: ", the text and an end of line.
__attribute__((format(printf, 2, 3))) void sink_print(sink *s, const char *format, ...);

// True if both lead to the same file, pipe or terminal.
bool sink_is_same_file(int fd, int other_fd);

#endif
