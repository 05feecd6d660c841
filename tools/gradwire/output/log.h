// --log-dir: the output of a rank, copied to files.
//
// A file has the same lines as the launcher's output, without prefixes.
#ifndef GRADWIRE_LOG_H
#define GRADWIRE_LOG_H

#include <stdbool.h>
#include <stddef.h>

typedef struct log_file {
    int fd;     // -1: none
    int error;  // why no more is written
} log_file;

// Creates or empties the file |path|; false with errno.
bool log_open(log_file *l, const char *path);
void log_close(log_file *l);

void log_put(log_file *l, const char *line, size_t size);  // and an end of line

#endif
