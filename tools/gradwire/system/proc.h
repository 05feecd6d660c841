// Processes according to /proc, and signals that cannot reach a wrong process.
//
// Between a look-up and a signal a process may end and its number be reused. So a process is identified by its number and
// start time, and signalled through a descriptor that was checked to be of this process.
#ifndef GRADWIRE_PROC_H
#define GRADWIRE_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct proc {
    pid_t pid, parent, group;
    char state;  // 'R', 'S', 'D', 'T', 'Z', ...
    int thread_count;
    uint64_t start_time;
} proc;

bool proc_read(pid_t pid, proc *out);  // false: there is none

// It has ended, and its parent has not waited for it.
bool proc_is_zombie(const proc *p);

bool proc_signal(const proc *p,
                 int signal_number);  // false, with errno: it is gone, or not ours to signal

// Everything that runs now. Returns how many, -1 without /proc; |out_all| is to be freed.
int proc_list(proc **out_all);

typedef enum proc_mark {
    MARK_ABSENT,
    MARK_PRESENT,
    // No environment: it is becoming another program at this moment, or ending, or was started
    // without one, or belongs to the kernel, or to another user.
    MARK_UNKNOWN,
} proc_mark;

// Whether |mark| occurs in the environment that |pid| was started with.
proc_mark proc_find_mark(pid_t pid, const char *mark);

#endif
