// Memory of other processes of this host that is read: one copy, by process_vm_readv. It is the way
// to what does not lie in an arena, and to arenas that cannot be mapped.
//
// Who lets others read has a *badge* in its memory: it says whose memory that is, and is taken away
// before the memory means something else (LEND-12).
//
// Ownership: a source is counted. Threads: any.
#ifndef LEND_SOURCE_H
#define LEND_SOURCE_H

#include "lend/place.h"

#define BADGE_MAGIC "GWMEMORY"

enum { BADGES_MAX = 64 };  // agents of one process that let others read

// The address of a badge for the agent of |incarnation|; 0: there are too many.
uint64_t badge_open(uint64_t incarnation);
void badge_close(uint64_t badge);  // 0 is fine

typedef struct source {
    _Atomic uint32_t count;
    uint32_t process;
    process_watch *watch;
    uint64_t badge, incarnation;
} source;

// Finds out, by reading the badge, whether the memory of the agent of |incarnation| in the process
// |there| can be read. NULL with the reason in one sentence.
source *source_open(const place_host *there, uint64_t badge, uint64_t incarnation, char *reason,
                    size_t reason_size);
source *source_retain(source *x);
void source_release(source *x);  // NULL is fine

// Copies |size| bytes at the address |at| of it. With the reason, if not all of them could be read:
// DISCONNECTED if its process has ended, else SYSTEM.
gw_status source_read(const source *x, void *to, uint64_t at, size_t size, char *reason,
                      size_t reason_size);

// Whether what was read until now was its memory.
bool source_is_there(const source *x);
bool source_has_ended(const source *x);  // its process

#endif
