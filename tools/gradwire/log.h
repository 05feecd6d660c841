// --log-dir: what a rank prints, once more in a file of its own.
//
// Lines as they are shown, standard output and error together, without prefixes.
#ifndef GRADWIRE_LOG_H
#define GRADWIRE_LOG_H

#include <stdbool.h>
#include <stddef.h>

typedef struct log_file {
    int fd;     // -1: none
    int error;  // why no more is written
} log_file;

// A folder that is not there is made. False with errno.
bool log_make_folder(const char *path);

// "rank3.log" in |folder|, emptied; false with errno.
bool log_open(log_file *l, const char *folder, int rank);
void log_close(log_file *l);

void log_put(log_file *l, const char *line, size_t size);  // and an end of line

#endif
