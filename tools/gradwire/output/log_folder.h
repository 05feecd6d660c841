// --log-dir=F: the folder of one job in it, and the files of each attempt.
//
//     F/<job>/events.jsonl                        what has happened to the ranks
//     F/<job>/slot3/attempt0/stdout.log           and stderr.log; output.log has the lines of both, in order
//     F/<job>/slot3/attempt0/error.json           why it has failed (agent/settings/error_file.h)
//     F/latest                                    a link to the folder of the newest job
//     F/rank3.log                                 a link to output.log of the newest attempt of rank 3
//
// Ownership: run.c opens and closes it. All functions return false with errno.
#ifndef GRADWIRE_LOG_FOLDER_H
#define GRADWIRE_LOG_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

#include "output/log.h"

enum { LOG_JOB_BYTES = 64, LOG_PATH_BYTES = 1280 };  // on small stacks

typedef struct log_folder {
    char path[LOG_PATH_BYTES];  // of F, absolute; "": there is none
    char job[LOG_JOB_BYTES];    // the name of the job's folder
    log_file events;
} log_folder;

// Creates |path| if it does not exist, and the folder of |job| in it.
bool log_folder_open(log_folder *f, const char *path, const char *job);
void log_folder_close(log_folder *f);

// Creates the folder of an attempt.
bool log_folder_add_attempt(const log_folder *f, int rank, int attempt);

// The path of a file of an attempt.
bool log_folder_path(const log_folder *f, int rank, int attempt, const char *file,
                     char out[LOG_PATH_BYTES]);

// Makes F/rank3.log a link to this attempt's output.log.
bool log_folder_link(const log_folder *f, int rank, int attempt);

// A line of events.jsonl: an object with the time, |event|, and what |format| has, as of json_pack without braces:
// log_folder_event(f, "started", "s:i, s:i", "slot", 3, "attempt", 0). Nothing without a folder.
void log_folder_event(log_folder *f, const char *event, const char *format, ...);

#endif
