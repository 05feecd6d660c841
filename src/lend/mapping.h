// The memory of other processes of this host, and how this process maps it.
//
// Ownership: a mapping is counted; each block over it has one count. Threads: any.
#ifndef LEND_MAPPING_H
#define LEND_MAPPING_H

#include <gradwire/status.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Identifies host and pid namespace: two processes with the same can see each other.
typedef struct host_id {
    char boot[64];
    uint64_t pid_namespace;
    uint32_t process;
} host_id;

// False if it cannot be determined.
bool host_id_find(host_id *out);

// Writes the reason of a refusal; returns NULL.
__attribute__((format(printf, 3, 4))) void *reason_set(char *reason, size_t size,
                                                       const char *format, ...);

// Whether processes of |there| are visible from here. Else the reason is written.
bool host_id_is_same(const host_id *there, char *reason, size_t reason_size);

// Whether |process| belongs to another user than this process, by the owner in /proc: another user, or root
// if the process is protected.
bool process_is_of_another_user(uint32_t process, unsigned *out_user);

// The location of a process's arena, as its offer contains it.
typedef struct arena_location {
    host_id host;
    uint32_t descriptor;
    uint64_t size;  // 0: it has none
} arena_location;

typedef struct mapping {
    _Atomic uint32_t count;
    uint8_t *base;
    size_t size;
} mapping;

// Maps the arena of the agent of |incarnation| (LEND-2). NULL with the reason.
mapping *mapping_open(const arena_location *p, uint64_t incarnation, char *reason,
                      size_t reason_size);
mapping *mapping_retain(mapping *m);
void mapping_release(mapping *m);  // NULL is fine

// Another mapping of the same memory. NULL without memory.
mapping *mapping_again(const mapping *m);

// Replaces the pages of |size| bytes at |at| by copies, at the same addresses. Later writes of the
// lender to these pages are visible through another mapping only. False without
// memory.
bool mapping_keep(mapping *m, const uint8_t *at, size_t size);

// A process, distinguished from later processes with its number: by a descriptor (pidfd), or, where
// the system gives none (kernels before 5.3, seccomp, no descriptors left), by its start time.
typedef struct process_watch {
    _Atomic uint32_t count;
    uint32_t process;
    int descriptor;       // -1: none
    uint64_t start_time;  // of /proc, if there is no descriptor
} process_watch;

// NULL with errno: ESRCH if there is no such process.
process_watch *process_watch_open(uint32_t process);
process_watch *process_watch_retain(process_watch *w);  // NULL is fine, here and below
void process_watch_release(process_watch *w);
bool process_watch_has_ended(const process_watch *w);  // false for NULL

#endif
