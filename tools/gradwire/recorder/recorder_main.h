// The process that a recorder is.
#ifndef GRADWIRE_RECORDER_MAIN_H
#define GRADWIRE_RECORDER_MAIN_H

#include "options/trace_option.h"

enum { RECORDER_TEXT_SIZE = 2048 };

// What the launcher sends: with a descriptor, the memory of a rank; else the path of the trace, which is to be written. The
// answer to that is a text.
typedef struct recorder_message {
    char path[TRACE_FILE_MAX];
} recorder_message;

_Noreturn void recorder_main(int fd, const trace_option *o);

#endif
