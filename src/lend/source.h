// Remote read of the memory of other processes of this host: one copy, by process_vm_readv. Remote read is used for
// memory outside an arena, and for arenas that cannot be mapped.
//
// A process that allows remote reads has a *process tag* in its memory: it identifies the agent, and is cleared
// before the memory is reused (LEND-12).
//
// Ownership: a source is counted. Threads: any.
#ifndef LEND_SOURCE_H
#define LEND_SOURCE_H

#include "lend/mapping.h"

#define PROCESS_TAG_MAGIC "GWMEMORY"

enum { PROCESS_TAGS_MAX = 64 };  // agents of one process that allow remote reads

// The address of a tag for the agent of |incarnation|; 0: there are too many.
uint64_t process_tag_open(uint64_t incarnation);
void process_tag_close(uint64_t tag);  // 0 is fine

typedef struct source {
    _Atomic uint32_t count;
    uint32_t process;
    process_watch *watch;
    uint64_t tag, incarnation;
} source;

// Checks, by reading the tag, whether the memory of the agent of |incarnation| in the process
// |there| can be read. NULL with the reason.
source *source_open(const host_id *there, uint64_t tag, uint64_t incarnation, char *reason,
                    size_t reason_size);
source *source_retain(source *x);
void source_release(source *x);  // NULL is fine

// Copies |size| bytes at the address |at| of its memory. Writes the reason if not all of them could be read:
// DISCONNECTED if its process has ended, else SYSTEM.
gw_status source_read(const source *x, void *to, uint64_t at, size_t size, char *reason,
                      size_t reason_size);

// Whether the bytes that were read until now were its memory.
bool source_is_valid(const source *x);
bool source_has_ended(const source *x);  // its process

#endif
