// The option --trace=FILE[,level...][,seconds=S][,steps=A-B] of gradwire run.
#ifndef GRADWIRE_TRACE_OPTION_H
#define GRADWIRE_TRACE_OPTION_H

#include <stdbool.h>
#include <stdint.h>

enum { TRACE_FILE_MAX = 1024 };

typedef struct trace_option {
    char file[TRACE_FILE_MAX];  // "": no trace
    uint32_t levels;            // switched on
    int64_t seconds_ms;         // from the start of the first worker; 0: until the end
    int first_step, last_step;  // |last_step| 0: all
} trace_option;

// False after an error was printed.
bool trace_option_parse(const char *name, const char *text, trace_option *out);

// A range such as "100-110" or "100"; the same.
bool parse_steps(const char *name, const char *text, int *out_first, int *out_last);

#endif
