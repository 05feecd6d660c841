// Where memory of other processes of this host is, and how this one gets at it.
//
// Ownership: a mapping is counted; each block over it has one count. Threads: any.
#ifndef LEND_PLACE_H
#define LEND_PLACE_H

#include <gradwire/status.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// What makes two processes ones that can see each other.
typedef struct place_host {
    char boot[64];
    uint64_t pid_namespace;
    uint32_t process;
} place_host;

// False, with the reason: one that cannot say where it is.
bool place_find_host(place_host *out);

// Writes the reason why something cannot be; NULL.
__attribute__((format(printf, 3, 4))) void *place_refuse(char *reason, size_t size,
                                                         const char *format, ...);

// Whether processes of |there| can be seen from here. Else the reason in one sentence.
bool place_is_here(const place_host *there, char *reason, size_t reason_size);

// Whether /proc gives |process| to somebody else than this one's user: another user has it, or root,
// since nobody may look at it.
bool place_is_of_another_user(uint32_t process, unsigned *out_user);

// Where a process says that its arena is.
typedef struct place {
    place_host host;
    uint32_t descriptor;
    uint64_t size;  // 0: it has none
} place;

typedef struct mapping {
    _Atomic uint32_t count;
    uint8_t *base;
    size_t size;
} mapping;

// Maps the arena of the agent of |incarnation| (LEND-2). NULL with the reason in one sentence.
mapping *mapping_open(const place *p, uint64_t incarnation, char *reason, size_t reason_size);
mapping *mapping_retain(mapping *m);
void mapping_release(mapping *m);  // NULL is fine

// Another mapping of the same memory. NULL without memory.
mapping *mapping_again(const mapping *m);

// Gives the pages of |size| bytes at |at| in it copies of their own, under the same addresses. Whatever
// the lender writes to these pages afterwards is seen through another mapping only. False without
// memory.
bool mapping_keep(mapping *m, const uint8_t *at, size_t size);

// A process that can be told from others that get its number later: by a descriptor (pidfd), or, where
// the system gives none (kernels before 5.3, seccomp, no descriptors left), by when it was started.
typedef struct process_watch {
    _Atomic uint32_t count;
    uint32_t process;
    int descriptor;       // -1: none
    uint64_t start_time;  // as /proc says it, if there is no descriptor
} process_watch;

// NULL with errno: ESRCH if there is no such process.
process_watch *process_watch_open(uint32_t process);
process_watch *process_watch_retain(process_watch *w);  // NULL is fine, here and below
void process_watch_release(process_watch *w);
bool process_watch_has_ended(const process_watch *w);  // false for NULL: nothing is known of it

#endif
