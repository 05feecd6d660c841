#include "lend/source.h"

#include "base/mem.h"
#include "base/system_error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

// The tag contains its own address, so that a copy of it is no tag: a peer that fills memory of this process with
// its messages cannot predict their address.
typedef struct process_tag {
    char magic[8];
    _Atomic uint64_t incarnation;  // 0: none
    uint64_t at;
} process_tag;

static process_tag tags[PROCESS_TAGS_MAX];

// ---- Process tags --------------------------------------------------------------------------------

uint64_t process_tag_open(uint64_t incarnation) {
    for (int i = 0; i < PROCESS_TAGS_MAX; i++) {
        uint64_t none = 0;
        if (!atomic_compare_exchange_strong(&tags[i].incarnation, &none, incarnation)) continue;
        memcpy(tags[i].magic, PROCESS_TAG_MAGIC, sizeof tags[i].magic);
        tags[i].at = (uint64_t)(uintptr_t)&tags[i];
        return tags[i].at;
    }
    return 0;
}

void process_tag_close(uint64_t at) {
    if (at) atomic_store(&((process_tag *)(uintptr_t)at)->incarnation, 0);
}

static bool is_own_tag(uint64_t at) {
    uint64_t first = (uint64_t)(uintptr_t)tags;
    return at >= first && at < first + sizeof tags && (at - first) % sizeof *tags == 0;
}

// ---- Reading ------------------------------------------------------------------------------------

// The kernel copies pieces, so that each one stays in the cache until it is complete.
enum { PIECE_BYTES = 1 << 20 };

static bool read_all(uint32_t process, void *to, uint64_t at, size_t size) {
    for (size_t done = 0; done < size;) {
        size_t piece = size - done < PIECE_BYTES ? size - done : PIECE_BYTES;
        struct iovec here = { (uint8_t *)to + done, piece };
        struct iovec there = { (void *)(uintptr_t)(at + done), piece };
        ssize_t got = process_vm_readv((pid_t)process, &here, 1, &there, 1, 0);
        if (got < 0) return false;
        if (got == 0) {
            errno = EFAULT;
            return false;
        }
        done += (size_t)got;
    }
    return true;
}

static bool has_tag(const source *x) {
    struct {
        char magic[8];
        uint64_t incarnation, at;
    } found;
    if (!read_all(x->process, &found, x->tag, sizeof found)) return false;
    errno = EFAULT;
    return memcmp(found.magic, PROCESS_TAG_MAGIC, sizeof found.magic) == 0 &&
           found.incarnation == x->incarnation && found.at == x->tag;
}

bool source_is_valid(const source *x) {
    return has_tag(x) && !process_watch_has_ended(x->watch);
}

bool source_has_ended(const source *x) {
    char byte;
    return process_watch_has_ended(x->watch) ||
           (!read_all(x->process, &byte, x->tag, sizeof byte) && errno == ESRCH);
}

// ---- Reasons ------------------------------------------------------------------------------------

static int ptrace_scope(void) {
    int scope = 0;
    FILE *f = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
    if (f && fscanf(f, "%d", &scope) != 1) scope = 0;
    if (f) fclose(f);
    return scope;
}

static bool may_read_oneself(void) {
    char from = 1, to;
    return read_all((uint32_t)getpid(), &to, (uint64_t)(uintptr_t)&from, 1);
}

static void *explain_forbidden(uint32_t process, char *reason, size_t size) {
    unsigned user;
    int scope = ptrace_scope();
    if (!may_read_oneself())
        return reason_set(reason, size, "seccomp: process_vm_readv: Operation not permitted");
    if (process_is_of_another_user(process, &user))
        return reason_set(reason, size, "its memory cannot be read: its process belongs to user %u",
                          user);
    if (scope) return reason_set(reason, size, "ptrace_scope is %d", scope);
    return reason_set(reason, size, "its memory cannot be read: Operation not permitted");
}

static void *explain(uint32_t process, int error, char *reason, size_t size) {
    switch (error) {
    case EPERM: return explain_forbidden(process, reason, size);
    case ESRCH: return reason_set(reason, size, "its process has ended");
    case EFAULT: return reason_set(reason, size, "the memory is not its own");
    default: return reason_set(reason, size, "process_vm_readv: %s", system_error_text(error).text);
    }
}

// ---- Sources ------------------------------------------------------------------------------------

source *source_open(const host_id *there, uint64_t at, uint64_t incarnation, char *reason,
                    size_t size) {
    if (!host_id_is_same(there, reason, size)) return NULL;
    if (!at) return reason_set(reason, size, "it does not allow reading its memory");
    // Bytes that a peer has sent are in this process too, and could look like a tag.
    if (there->process == (uint32_t)getpid() && !is_own_tag(at))
        return reason_set(reason, size, "the memory is not its own");
    source *x = mem_alloc(sizeof *x);
    if (!x) return reason_set(reason, size, "no memory");
    *x = (source){ .process = there->process, .tag = at, .incarnation = incarnation };
    atomic_init(&x->count, 1);
    // Before the tag is read: so the watched process is the one with the tag.
    x->watch = process_watch_open(there->process);
    if (!x->watch && errno != ESRCH)
        reason_set(reason, size, "its process cannot be watched: %s",
                   system_error_text(errno).text);
    else if (x->watch && has_tag(x))
        return x;
    else
        explain(there->process, errno, reason, size);
    source_release(x);
    return NULL;
}

source *source_retain(source *x) {
    atomic_fetch_add_explicit(&x->count, 1, memory_order_relaxed);
    return x;
}

void source_release(source *x) {
    if (!x || atomic_fetch_sub_explicit(&x->count, 1, memory_order_acq_rel) != 1) return;
    process_watch_release(x->watch);
    mem_free(x);
}

gw_status source_read(const source *x, void *to, uint64_t at, size_t bytes, char *reason,
                      size_t size) {
    if (read_all(x->process, to, at, bytes)) return GW_OK;
    gw_status status = errno == ESRCH ? GW_DISCONNECTED : GW_SYSTEM;
    explain(x->process, errno, reason, size);
    return status;
}
