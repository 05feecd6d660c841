#include "trace/region.h"

#include "base/log.h"
#include "base/memory_kinds.h"
#include "base/process_lock.h"
#include "base/variables.h"
#include "trace/clock.h"
#include "trace/kinds.h"
#include "trace/record.h"
#include "trace/wanted.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static const _Atomic uint32_t off;
_Atomic(const _Atomic uint32_t *) trace_levels = &off;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int region_fd = -1;
static trace_memory memory;
static const trace_memory *_Atomic region;  // &memory once it is open
static trace_agent_row *agents;

static int seals_of_size(void) {
    return F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL;
}

// ---- Which memory -------------------------------------------------------------------------------

// What GW_FLIGHT and GW_TRACE ask for.
typedef struct wish {
    bool is_off;
    uint32_t levels, records;
    uint32_t traced;  // levels that are on until a trace of them ends
} wish;

static wish read_wish(void) {
    const char *text = getenv("GW_FLIGHT"), *wrong;
    wish w = { .levels = TRACE_DEFAULT, .records = TRACE_RECORDS };
    size_t wrong_size;
    int number;
    if (!text || !*text) return w;
    if (!variable_number(text, TRACE_RECORDS_MAX, &number)) {
        if (!trace_levels_parse(text, &w.levels, &wrong, &wrong_size))
            log_line(
                "GW_FLIGHT=%s: %.*s is neither a level (%s) nor a count of records from 0 to %d",
                text, (int)wrong_size, wrong, trace_level_names(), TRACE_RECORDS_MAX);
        return w;
    }
    w.is_off = number == 0;
    for (w.records = TRACE_RECORDS_MIN; w.records < (uint32_t)number;) w.records *= 2;
    return w;
}

// A trace that is written to a file ends, and levels are then as GW_FLIGHT wants them.
static void read_trace(wish *w) {
    trace_wanted t;
    char why[256];
    if (!trace_wanted_parse(getenv("GW_TRACE"), &t, why)) {
        if (why[0]) log_line("%s", why);
        return;
    }
    if (t.file)
        w->traced = t.levels;
    else
        w->levels |= t.levels;
}

// Its size is fixed, so that no process can make it end before what is mapped.
static bool size_memory(int fd, uint32_t records) {
    struct stat is;
    struct rlimit files;  // to exceed it is a signal
    bool fits = getrlimit(RLIMIT_FSIZE, &files) || files.rlim_cur >= trace_memory_bytes(records);
    if (!fits) return errno = EFBIG, false;
    if (fstat(fd, &is) != 0) return false;
    if (is.st_size < (off_t)trace_memory_bytes(records) &&
        ftruncate(fd, (off_t)trace_memory_bytes(records)) != 0)
        return false;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0) return false;
    if (!(seals & F_SEAL_SEAL) && fcntl(fd, F_ADD_SEALS, seals_of_size()) != 0 && errno != EPERM)
        return false;
    return fstat(fd, &is) == 0 && is.st_size == (off_t)trace_memory_bytes(records);
}

// The one that takes the memory first becomes its owner.
static bool take(int fd, uint32_t records) {
    int32_t none = 0;
    if (!size_memory(fd, records)) return false;
    trace_header *h = mmap(NULL, trace_rings_at(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (h == MAP_FAILED) return false;
    if (!atomic_compare_exchange_strong(&h->owner, &none, (int32_t)getpid())) {
        munmap(h, trace_rings_at());
        return false;
    }
    madvise(h, trace_rings_at(), MADV_DONTFORK);
    memory_add(MEMORY_RECORDS, (int64_t)trace_rings_at());
    region_fd = fd;
    trace_clock clock = trace_clock_best();
    memory = (trace_memory){ h, clock, trace_now(clock), records };
    return true;
}

static bool take_launchers(uint32_t records) {
    const char *text = getenv("GW_FLIGHT_FD");
    int fd;
    // Only a memfd has seals.
    if (!text || !variable_number(text, INT32_MAX, &fd) || fcntl(fd, F_GET_SEALS) < 0) return false;
    if (!take(fd, records)) return false;
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    return true;
}

int trace_memory_make(void) {
    int fd = memfd_create(TRACE_MEMORY_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0) fchmod(fd, 0600);
    return fd;
}

static bool take_own(uint32_t records) {
    int fd = trace_memory_make();
    if (fd < 0) return false;
    if (take(fd, records)) return true;
    int error = errno;
    close(fd);
    errno = error;
    return false;
}

// ---- Its header ---------------------------------------------------------------------------------

static uint64_t read_start_time(void) {
    char text[1024];
    unsigned long long start = 0;
    FILE *f = fopen("/proc/self/stat", "re");
    size_t size = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f) fclose(f);
    text[size] = '\0';
    const char *end = strrchr(text, ')');
    if (end)
        sscanf(end + 1,
               " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
               &start);
    return start;
}

static void copy_text(char *out, size_t size, const char *text) {
    snprintf(out, size, "%s", text ? text : "");
}

static void write_header(trace_header *h, const wish *w) {
    const char *attempt = getenv("TORCHELASTIC_RESTART_COUNT"), *mark = getenv("GRADWIRE_JOB");
    const char *inner = mark ? strrchr(mark, ':') : NULL;
    int number = 0;
    h->version = TRACE_VERSION;
    h->ring_records = w->records;
    h->clock = memory.clock;
    h->start_time = read_start_time();
    h->opened = memory.opened;
    if (attempt && variable_number(attempt, INT32_MAX, &number)) h->attempt = (uint32_t)number;
    copy_text(h->program, sizeof h->program, program_invocation_short_name);
    gethostname(h->host, sizeof h->host - 1);
    copy_text(h->mark, sizeof h->mark, inner ? inner + 1 : mark);
    copy_text(h->job, sizeof h->job, getenv("TORCHELASTIC_RUN_ID"));
    atomic_store(&h->string_bytes, 1);           // ""
    atomic_exchange(&h->own_levels, w->levels);  // before the magic
    memcpy(h->magic, TRACE_MAGIC, sizeof h->magic);
    // Added to those that a tool has requested. A tool that has not seen the magic replaces them before this, and looks
    // again after it.
    atomic_fetch_or(&h->levels, w->levels | w->traced);
}

// ---- Its life -----------------------------------------------------------------------------------

// The child has no mapping of the memory.
static void forget_in_child(void) {
    trace_levels = &off;
    region = NULL;
}

PROCESS_LOCK(rows, PROCESS_LOCK_LEAF, forget_in_child);  // of |agents|

static void open_once(void) {
    wish w = read_wish();
    if (w.is_off) return;
    read_trace(&w);
    if (!take_launchers(w.records) && !take_own(w.records)) {
        log_info("no flight recorder: its memory cannot be made: %s", strerror(errno));
        return;
    }
    trace_header *h = memory.header;
    agents = (trace_agent_row *)((char *)h + trace_agents_at());
    write_header(h, &w);
    region = &memory;
    trace_levels = &h->levels;
}

void trace_open(void) {
    pthread_once(&once, open_once);
}

const trace_memory *trace_region(void) {
    return region;
}

void *trace_map(uint64_t offset, uint64_t size) {
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, region_fd, (off_t)offset);
    if (at == MAP_FAILED) return NULL;
    madvise(at, size, MADV_DONTFORK);
    memory_add(MEMORY_RECORDS, (int64_t)size);
    return at;
}

// ---- Workers ------------------------------------------------------------------------------------

int trace_agent_open(void) {
    int found = -1;
    if (!region) return -1;
    process_lock_take(&rows);
    for (int i = 0; i < TRACE_AGENTS && found < 0; i++) {
        if (agents[i].is_open) continue;
        atomic_store(&agents[i].written, 0);
        agents[i].is_open = 1;
        found = i;
    }
    process_lock_release(&rows);
    return found;
}

void trace_agent_identify(int agent, const trace_identity *is) {
    if (agent < 0 || !region) return;
    trace_agent_row *r = &agents[agent];
    copy_text(r->name, sizeof r->name, is->name);
    r->rank = is->rank;
    r->world_size = is->world_size;
    r->incarnation = is->incarnation;
}

void trace_agent_publish(int agent, const void *table, size_t size) {
    if (agent < 0 || !region) return;
    trace_agent_row *r = &agents[agent];
    uint64_t next = atomic_load_explicit(&r->written, memory_order_relaxed) + 1;
    if (size > sizeof r->tables[0].data) return;
    memcpy(r->tables[next % 2].data, table, size);
    r->tables[next % 2].bytes = (uint32_t)size;
    atomic_store_explicit(&r->written, next, memory_order_release);
}

void trace_agent_close(int agent) {
    if (agent >= 0 && region) agents[agent].is_open = 0;
}
