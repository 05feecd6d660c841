// The state of a job in gradwire run: its ranks, their output and its progress.
//
// Threads: one. Ownership: run.c opens and closes all of it.
#ifndef GRADWIRE_JOB_H
#define GRADWIRE_JOB_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "system/channels.h"
#include "system/guard.h"
#include "system/input.h"
#include "hosts/nodes.h"
#include "monitor/process.h"
#include "observe/progress.h"
#include "observe/stuck.h"
#include "recorder/recorder.h"
#include "output/output.h"
#include "output/log_folder.h"
#include "options/budget.h"
#include "options/policy.h"
#include "system/proc.h"
#include "options/run_options.h"
#include "system/signals.h"
#include "output/sink.h"
#include "output/last_lines.h"

enum { OUTPUTS = 2, JOB_ID_SIZE = 33 };  // standard output and error; 128 bits in hexadecimal

// A slot of the job, and the process in it. One attempt of a rank follows another (job/slots.h).
typedef struct rank {
    // of the attempt: cleared for the next one
    pid_t pid;  // also the number of its process group; 0: not started
    bool is_running;
    int status;  // how it ended, from waitpid
    int64_t started_ms, ended_ms;
    bool has_ended_early;  // with code 0, as a member that had not left
    bool is_described;     // in error.json, by the launcher: its worker has not done so
    bool is_judged;        // the effect of its end on the job is decided
    bool awaits_decision;  // of host 0, about its failure, since |judged_ms|
    int64_t judged_ms;
    bool has_begun;           // to join, or a process that it started has
    bool has_joined;          // the same
    bool has_state;           // of an elastic job: next attempts can join through it
    bool is_absent;           // it cannot join any more, and other workers have been notified
    bool is_reported_absent;  // and the launcher has printed so
    int64_t stopped_ms;       // since when it is stopped; 0: it is not
    stuck_progress progress;  // for --progress-timeout
    bool is_straggler;        // and has been reported as one
    bool is_replaced;         // it has been asked to leave for that
    char killed_why
        [512];  // by the launcher, as it was dead to the other members or stopped; "": it was not
    // The first that it has lost: a member, or a rank that cannot join.
    uint64_t lost_member;      // 0: none
    struct rank *lost_absent;  // NULL: none of this host
    char lost_why[512];        // "": nothing
    // Its program has failed before it has lost another.
    int64_t failed_ns;     // by the clock of all processes of the host; 0: it has not failed
    uint64_t failed_from;  // the member in which the error arose
    char failed_why[512];
    int flight_fd;  // its records and tables (src/trace/layout.h), from the start on; 0: none
    // of the slot
    int attempt;        // which one it is, from 0
    bool awaits_start;  // of attempt |next_attempt|, at |start_ms|
    int next_attempt;
    int64_t start_ms;
    bool starts;      // now
    bool is_elastic;  // an attempt has been a member of an elastic job
    output outputs[OUTPUTS];
    last_lines last;
    log_file logs[OUTPUTS], log;  // of each output, and of both together
} rank;

// A process that has reported that it joins.
typedef struct job_member {
    uint64_t incarnation;
    proc process;
    rank *rank;  // the rank that this process is, or that has started it; NULL: none of this host
    bool is_former;   // the slot of its process has a later attempt; |rank| is NULL
    bool is_joining;  // waits for other workers
    bool has_joined, has_left;
} job_member;

// watch/flight.c.
typedef struct flight_state {
    char path[LOG_PATH_BYTES];  // of the last file about a failure; "": none
    int count;                  // of files
    int error;                  // an errno: why the last one was not written; 0
    // of the check for progress
    int64_t checked_ms;
    progress progress;
    bool is_reported;
    int kills_reported;  // by hang_before_kill
} flight_state;

// watch/health.c.
typedef struct health {
    pid_t pid;         // of the check; 0: it does not run
    bool is_required;  // it must pass before a rank starts
    int64_t started_ms, next_ms;
    int64_t cooldown_ms;  // after the last check; 0: it has passed
} health;

typedef struct job {
    // arguments
    run_options options;
    bool passes_through;  // ranks have our own standard output and error

    // what it holds
    char id[JOB_ID_SIZE];  // the mark of its processes on this host
    log_folder logs;
    char name
        [JOB_ID_SIZE];  // in files and variables; over all hosts, if this one is host 0 and the user has given none
    struct rlimit file_limit;  // as it was for the launcher, and is for ranks; 0: not known yet
    signals signals;
    guard guard;
    channels channels;  // on which workers report
    int port_fd;        // keeps the port; -1: the user has chosen it
    int port;
    nodes nodes;
    int looks
        [2];  // the ends of the link and of the monitor, which shows other hosts (hosts/looks.h); -1
    monitor_process monitor;
    recorder recorder;  // of --trace
    input input;
    sink sinks[OUTPUTS];
    sink *to[OUTPUTS];  // one sink for both when both lead to the same file
    sink *messages;     // for the launcher's own messages
    rank *ranks;
    char *lines;    // LINE_MAX_BYTES for each output
    pid_t *groups;  // of running ranks, as a sweep wants them
    struct pollfd *polls;

    // state
    policy policy;
    budget budget;
    int round;               // the last attempt that all ranks have started, or start, together
    bool is_finished;        // an elastic job: a worker has reported that its work is done
    bool leaves;             // this host wants to leave the job, which continues without it
    int64_t round_start_ms;  // when all ranks start again, once they have ended
    int running_count;
    job_member *members;
    int member_count, member_capacity;
    // For workers that join: the line about the first rank that cannot join any more; "": none.
    char absence[LINK_TEXT_SIZE];
    rank *absent;          // that rank; NULL: of another host
    bool absence_is_sent;  // to all workers that were joining then
    flight_state flight;
    health health;
    uint64_t line_count;
    int64_t stops_checked_ms, hung_checked_ms, stragglers_checked_ms;
    int64_t
        judge_ms;  // when a rank that has ended is judged at the latest; INT64_MAX: none is pending
    rank *cause;   // the rank that failed first; NULL: none
    char refusal[LINK_TEXT_SIZE];  // why not all ranks could be started
    int exit_code;
    bool has_exit_code;          // later events do not change it
    bool has_begun, has_joined;  // a worker of any attempt: to join, the job
    int stop_signal;             // that gradwire stop has asked for; 0: none
    int64_t asked_ms;            // when the last signal that ends the job was received; 0: never
    int64_t alone_ms;
    bool is_alone;          // no process of the job is left
    bool tree_has_changed;  // since the last search for processes below the launcher
    int first_output;       // the output that is read first in this turn
} job;

#endif
