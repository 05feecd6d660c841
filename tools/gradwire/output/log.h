// --log-dir: the output of a rank, copied to a file of its own.
//
// The file has the same lines as the launcher's output, standard output and error together, without prefixes.
#ifndef GRADWIRE_LOG_H
#define GRADWIRE_LOG_H

#include <stdbool.h>
#include <stddef.h>

typedef struct log_file {
    int fd;     // -1: none
    int error;  // why no more is written
} log_file;

// Creates the folder if it does not exist. False with errno.
bool log_make_folder(const char *path);

// "rank3.log" in |folder|, emptied; false with errno.
bool log_open(log_file *l, const char *folder, int rank);
void log_close(log_file *l);

void log_put(log_file *l, const char *line, size_t size);  // and an end of line

#endif
