// The trace of a job from its start: a process of the launcher that reads the records of all ranks while these run, and writes
// the trace at the end.
//
//     recorder_open(&r, &options.trace);
//     recorder_prepare(&options.trace, fd); ... recorder_add(&r, fd);     for each rank
//     recorder_finish(&r, path, text, sizeof text);
//
// If the launcher is killed, the process writes the trace, too. If that process is killed, the job does not notice.
//
// Threads: one.
#ifndef GRADWIRE_RECORDER_H
#define GRADWIRE_RECORDER_H

#include <stddef.h>
#include <sys/types.h>

#include "options/trace_option.h"

typedef struct recorder {
    pid_t pid;  // 0: none
    int fd;     // of the socket to it; -1
} recorder;

// Returns false, with errno: the file cannot be made, or there is no process.
bool recorder_open(recorder *r, const trace_option *o);

// Before a rank starts: the memory |fd|, which no process has taken, is to have the levels.
void recorder_prepare(const trace_option *o, int fd);

// Adds the memory of a rank. Returns false if it cannot be traced.
bool recorder_add(const recorder *r, int fd);

// The process has ended by itself: the trace is lost. |fds|: the memories of ranks, 0: none, whose levels are switched back.
void recorder_lost(recorder *r, const int *fds, int count);

// Writes the trace to |path|, and waits for its end, or until another signal to end the job waits: then nothing is written.
// |text|: gets a sentence about what was written, or why not.
void recorder_finish(recorder *r, const char *path, char *text, size_t text_size);

#endif
