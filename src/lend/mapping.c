#include "lend/mapping.h"

#include "base/mem.h"
#include "base/system_error.h"
#include "tensor/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

bool host_id_find(host_id *out) {
    *out = (host_id){ .process = (uint32_t)getpid() };
    struct stat namespace;
    if (stat("/proc/self/ns/pid", &namespace)) return false;
    out->pid_namespace = (uint64_t) namespace.st_ino;
    int boot = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (boot < 0) return false;
    ssize_t size = read(boot, out->boot, sizeof out->boot - 1);
    close(boot);
    if (size <= 0) return false;
    out->boot[strcspn(out->boot, "\n")] = 0;
    return true;
}

void *reason_set(char *reason, size_t size, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(reason, size, format, args);
    va_end(args);
    return NULL;
}

bool host_id_is_same(const host_id *there, char *reason, size_t size) {
    host_id own;
    if (!host_id_find(&own)) return reason_set(reason, size, "there is no /proc");
    if (strcmp(own.boot, there->boot) != 0)
        return reason_set(reason, size, "it is on another host");
    if (own.pid_namespace != there->pid_namespace)
        return reason_set(reason, size, "it is in another pid namespace");
    return true;
}

bool process_is_of_another_user(uint32_t process, unsigned *out_user) {
    char path[32];
    struct stat s;
    snprintf(path, sizeof path, "/proc/%u", process);
    if (stat(path, &s) || s.st_uid == geteuid()) return false;
    *out_user = (unsigned)s.st_uid;
    return true;
}

// ---- Mapping ------------------------------------------------------------------------------------

// The link is checked before the file is opened: opening another file may have an effect.
static int open_memfd(const arena_location *p) {
    char path[64], target[32];
    snprintf(path, sizeof path, "/proc/%u/fd/%u", p->host.process, p->descriptor);
    ssize_t size = readlink(path, target, sizeof target - 1);
    if (size < 0) return -1;
    target[size] = 0;
    if (strncmp(target, "/memfd:gradwire", 15) != 0) {
        errno = ENOENT;
        return -1;
    }
    return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

static void *explain_opening(const arena_location *p, char *reason, size_t size) {
    unsigned user;
    int error = errno;
    char path[32];
    snprintf(path, sizeof path, "/proc/%u", p->host.process);
    if (access(path, F_OK))
        return reason_set(reason, size, "its memory cannot be opened: this system has no %s", path);
    if (process_is_of_another_user(p->host.process, &user))
        return reason_set(reason, size,
                          "its memory cannot be opened: its process belongs to user %u", user);
    return reason_set(reason, size, "its memory cannot be opened: %s",
                      system_error_text(error).text);
}

static void *explain_mapping(const arena_location *p, char *reason, size_t size) {
    struct rlimit limit;
    int error = errno;
    if (error == ENOMEM && !getrlimit(RLIMIT_AS, &limit) && limit.rlim_cur != RLIM_INFINITY)
        return reason_set(reason, size,
                          "its memory of %llu bytes cannot be mapped: the address space of this "
                          "process is limited to %llu bytes",
                          (unsigned long long)p->size, (unsigned long long)limit.rlim_cur);
    return reason_set(reason, size, "its memory cannot be mapped: %s",
                      system_error_text(error).text);
}

static bool is_sealed(int descriptor, uint64_t size) {
    struct stat file;
    int seals = fcntl(descriptor, F_GET_SEALS);
    return seals >= 0 && (seals & F_SEAL_SHRINK) && (seals & F_SEAL_GROW) &&
           !fstat(descriptor, &file) && file.st_size >= 0 && (uint64_t)file.st_size == size;
}

// Its pages are readable: the size is sealed, and the header was written before the offer. A hole
// reads as zeros.
static bool is_arena_of(const uint8_t *base, uint64_t incarnation) {
    const arena_header *h = (const arena_header *)(const void *)base;
    if (memcmp(h->magic, ARENA_MAGIC, sizeof h->magic) != 0) return false;
    for (int i = 0; i < ARENA_OWNERS_MAX; i++)
        if (atomic_load_explicit(&((arena_header *)(uintptr_t)h)->owners[i],
                                 memory_order_relaxed) == incarnation)
            return true;
    return false;
}

mapping *mapping_open(const arena_location *p, uint64_t incarnation, char *reason,
                      size_t reason_size) {
    if (!host_id_is_same(&p->host, reason, reason_size)) return NULL;
    if (!p->size) return reason_set(reason, reason_size, "it has no memory that can be mapped");
    if (p->size < ARENA_HEADER_BYTES || p->size % ARENA_UNIT_BYTES)
        return reason_set(reason, reason_size, "its arena has an invalid size of %llu bytes",
                          (unsigned long long)p->size);
    int descriptor = open_memfd(p);
    if (descriptor < 0) return explain_opening(p, reason, reason_size);
    mapping *m = NULL;
    uint8_t *base = MAP_FAILED;
    if (!is_sealed(descriptor, p->size)) {
        reason_set(reason, reason_size, "its memory is not sealed");
    } else if ((base = mmap(NULL, p->size, PROT_READ, MAP_SHARED | MAP_NORESERVE, descriptor, 0)) ==
               MAP_FAILED) {
        explain_mapping(p, reason, reason_size);
    } else if (!is_arena_of(base, incarnation)) {
        reason_set(reason, reason_size, "the memory is not its own");
    } else if (!(m = mem_alloc(sizeof *m))) {
        reason_set(reason, reason_size, "no memory");
    }
    close(descriptor);
    if (!m && base != MAP_FAILED) munmap(base, p->size);
    if (!m) return NULL;
    madvise(base, p->size, MADV_DONTDUMP);
    *m = (mapping){ .base = base, .size = p->size };
    atomic_init(&m->count, 1);
    return m;
}

mapping *mapping_retain(mapping *m) {
    atomic_fetch_add_explicit(&m->count, 1, memory_order_relaxed);
    return m;
}

void mapping_release(mapping *m) {
    if (!m || atomic_fetch_sub_explicit(&m->count, 1, memory_order_acq_rel) != 1) return;
    munmap(m->base, m->size);
    mem_free(m);
}

// The first page is the header, which mapping_keep never replaces: it is still shared, and with a size of 0 the system
// maps the same memory once more.
mapping *mapping_again(const mapping *m) {
    mapping *again = mem_alloc(sizeof *again);
    if (!again) return NULL;
    uint8_t *base = mremap(m->base, 0, m->size, MREMAP_MAYMOVE);
    if (base == MAP_FAILED) {
        mem_free(again);
        return NULL;
    }
    madvise(base, m->size, MADV_DONTDUMP);
    *again = (mapping){ .base = base, .size = m->size };
    atomic_init(&again->count, 1);
    return again;
}

bool mapping_keep(mapping *m, const uint8_t *at, size_t size) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t begin = (size_t)(at - m->base) & ~(page - 1);
    size_t end = ((size_t)(at - m->base) + size + page - 1) & ~(page - 1);
    uint8_t *copy =
        mmap(NULL, end - begin, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy == MAP_FAILED) return false;
    memcpy(copy, m->base + begin, end - begin);
    mprotect(copy, end - begin, PROT_READ);
    // In one step: a reader sees the old pages or the new ones, which are equal.
    if (mremap(copy, end - begin, end - begin, MREMAP_MAYMOVE | MREMAP_FIXED, m->base + begin) !=
        MAP_FAILED)
        return true;
    munmap(copy, end - begin);
    return false;
}

// ---- Processes ----------------------------------------------------------------------------------

// The state and start time in /proc/<pid>/stat. False with errno.
static bool read_stat(uint32_t process, char *out_state, long *out_threads, uint64_t *out_start) {
    char path[32], text[1024];
    snprintf(path, sizeof path, "/proc/%u/stat", process);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        if (errno == ENOENT) errno = ESRCH;
        return false;
    }
    ssize_t size = read(fd, text, sizeof text - 1);
    int error = size < 0 ? errno : EINVAL;
    close(fd);
    errno = error;
    if (size <= 0) return false;
    text[size] = 0;
    const char *behind_name = strrchr(text, ')');  // the name may contain any characters
    unsigned long long start;
    if (!behind_name ||
        sscanf(behind_name + 1,
               " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
               "%ld %*s %llu",
               out_state, out_threads, &start) != 3)
        return false;
    *out_start = start;
    return true;
}

// A first thread that has ended before others of its process is a zombie too.
static bool is_alive(char state, long threads) {
    return (state != 'Z' && state != 'X') || threads > 1;
}

process_watch *process_watch_open(uint32_t process) {
    char state;
    long threads;
    process_watch *w = mem_alloc(sizeof *w);
    if (!w) {
        errno = ENOMEM;
        return NULL;
    }
    *w = (process_watch){ .process = process };
    atomic_init(&w->count, 1);
    w->descriptor = (int)syscall(SYS_pidfd_open, (pid_t)process, 0);
    if (w->descriptor >= 0) return w;
    int error = errno;
    bool is_there = error != ESRCH && read_stat(process, &state, &threads, &w->start_time);
    if (is_there && is_alive(state, threads)) return w;
    if (is_there || errno == ESRCH) error = ESRCH;
    mem_free(w);
    errno = error;
    return NULL;
}

process_watch *process_watch_retain(process_watch *w) {
    if (w) atomic_fetch_add_explicit(&w->count, 1, memory_order_relaxed);
    return w;
}

void process_watch_release(process_watch *w) {
    if (!w || atomic_fetch_sub_explicit(&w->count, 1, memory_order_acq_rel) != 1) return;
    if (w->descriptor >= 0) close(w->descriptor);
    mem_free(w);
}

bool process_watch_has_ended(const process_watch *w) {
    if (!w) return false;
    if (w->descriptor >= 0) {
        struct pollfd p = { .fd = w->descriptor, .events = POLLIN };
        return poll(&p, 1, 0) == 1 && (p.revents & POLLIN);
    }
    char state;
    long threads;
    uint64_t start_time;
    if (!read_stat(w->process, &state, &threads, &start_time)) return errno == ESRCH;
    return start_time != w->start_time || !is_alive(state, threads);
}
