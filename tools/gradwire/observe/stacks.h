// Stacks of processes, by eu-stack of elfutils.
#ifndef GRADWIRE_STACKS_H
#define GRADWIRE_STACKS_H

#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

// The time and lines that are left for all processes of a report.
typedef struct stacks_budget {
    int64_t until_ms;
    int lines;
} stacks_budget;

stacks_budget stacks_begin(int64_t time_ms);

// Writes the stacks of the threads of |pid|, with a heading; nothing if eu-stack is not installed or fails.
void stacks_write(stacks_budget *b, pid_t pid, const char *name, FILE *out);

#endif
