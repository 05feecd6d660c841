#include "lend/source.h"

#include "base/mem.h"
#include "base/system_error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

// Its own address is in it, so that no copy of it is one: whoever fills memory of another process with
// what it sends does not know where that lies.
typedef struct badge {
    char magic[8];
    _Atomic uint64_t incarnation;  // 0: none
    uint64_t at;
} badge;

static badge badges[BADGES_MAX];

// ---- Badges --------------------------------------------------------------------------------------

uint64_t badge_open(uint64_t incarnation) {
    for (int i = 0; i < BADGES_MAX; i++) {
        uint64_t none = 0;
        if (!atomic_compare_exchange_strong(&badges[i].incarnation, &none, incarnation)) continue;
        memcpy(badges[i].magic, BADGE_MAGIC, sizeof badges[i].magic);
        badges[i].at = (uint64_t)(uintptr_t)&badges[i];
        return badges[i].at;
    }
    return 0;
}

void badge_close(uint64_t at) {
    if (at) atomic_store(&((badge *)(uintptr_t)at)->incarnation, 0);
}

static bool is_own_badge(uint64_t at) {
    uint64_t first = (uint64_t)(uintptr_t)badges;
    return at >= first && at < first + sizeof badges && (at - first) % sizeof *badges == 0;
}

// ---- Reading ------------------------------------------------------------------------------------

// The kernel copies it in pieces, so that one ends in the cache before the next one begins.
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

static bool has_badge(const source *x) {
    struct {
        char magic[8];
        uint64_t incarnation, at;
    } found;
    if (!read_all(x->process, &found, x->badge, sizeof found)) return false;
    errno = EFAULT;
    return memcmp(found.magic, BADGE_MAGIC, sizeof found.magic) == 0 &&
           found.incarnation == x->incarnation && found.at == x->badge;
}

bool source_is_there(const source *x) {
    return has_badge(x) && !process_watch_has_ended(x->watch);
}

bool source_has_ended(const source *x) {
    char byte;
    return process_watch_has_ended(x->watch) ||
           (!read_all(x->process, &byte, x->badge, sizeof byte) && errno == ESRCH);
}

// ---- Why not ------------------------------------------------------------------------------------

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
        return place_refuse(reason, size, "seccomp: process_vm_readv: Operation not permitted");
    if (place_is_of_another_user(process, &user))
        return place_refuse(reason, size, "its memory cannot be read: user %u has it", user);
    if (scope) return place_refuse(reason, size, "ptrace_scope is %d", scope);
    return place_refuse(reason, size, "its memory cannot be read: Operation not permitted");
}

static void *explain(uint32_t process, int error, char *reason, size_t size) {
    switch (error) {
    case EPERM: return explain_forbidden(process, reason, size);
    case ESRCH: return place_refuse(reason, size, "its process has ended");
    case EFAULT: return place_refuse(reason, size, "the memory is not its own");
    default:
        return place_refuse(reason, size, "process_vm_readv: %s", system_error_text(error).text);
    }
}

// ---- Sources ------------------------------------------------------------------------------------

source *source_open(const place_host *there, uint64_t at, uint64_t incarnation, char *reason,
                    size_t size) {
    if (!place_is_here(there, reason, size)) return NULL;
    if (!at) return place_refuse(reason, size, "it lets nobody read its memory");
    // What a peer has sent lies in this process, too, and could look like a badge.
    if (there->process == (uint32_t)getpid() && !is_own_badge(at))
        return place_refuse(reason, size, "the memory is not its own");
    source *x = mem_alloc(sizeof *x);
    if (!x) return place_refuse(reason, size, "no memory");
    *x = (source){ .process = there->process, .badge = at, .incarnation = incarnation };
    atomic_init(&x->count, 1);
    // Before the badge is read: what is watched is the process with the badge then.
    x->watch = process_watch_open(there->process);
    if (!x->watch && errno != ESRCH)
        place_refuse(reason, size, "its process cannot be watched: %s",
                     system_error_text(errno).text);
    else if (x->watch && has_badge(x))
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
