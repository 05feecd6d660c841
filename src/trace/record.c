#include "trace/record.h"

#include "base/mutation.h"
#include "base/process_lock.h"
#include "trace/clock.h"
#include "trace/region.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

// The ring of this thread.
typedef struct ring {
    trace_event *records;  // NULL: it has none
    trace_thread_row *row;
    uint64_t head;  // the row's is a copy for readers, and is never read
    uint32_t mask;
    bool is_refused;
} ring;

static _Thread_local ring here;

// Rings stay mapped: the next thread with the row continues.
static void forget_in_child(void);

PROCESS_LOCK(rings_lock, PROCESS_LOCK_LEAF, forget_in_child);
static struct {
    pthread_once_t once;
    pthread_key_t key;
    bool has_key;
    trace_event *records[TRACE_THREADS];
    bool is_taken[TRACE_THREADS];
    uint64_t heads[TRACE_THREADS];
} rings = { .once = PTHREAD_ONCE_INIT };

static trace_thread_row *thread_rows(const trace_memory *m) {
    return (trace_thread_row *)((char *)m->header + trace_threads_at());
}

// ---- Strings ------------------------------------------------------------------------------------

enum { NAMES_MAX = 4096 };  // a power of two

// By the hash of the text: offsets of strings, so that the table holds no text of its own.
PROCESS_LOCK(names_lock, PROCESS_LOCK_LEAF, NULL);
static struct {
    uint32_t offsets[NAMES_MAX];
    int count;
} names;

static uint32_t hash_of(const char *text) {
    uint32_t h = 2166136261u;
    for (; *text; text++) h = (h ^ (unsigned char)*text) * 16777619u;
    return h;
}

// Other processes may write to the memory: the size that it has is kept here.
static uint32_t add_name(char *strings, const trace_memory *m, const char *text) {
    static uint32_t used = 1;
    size_t size = strlen(text) + 1;
    if (size > TRACE_STRINGS_BYTES - used || names.count >= NAMES_MAX * 3 / 4) return 0;
    memcpy(strings + used, text, size);
    uint32_t at = used;
    used += (uint32_t)size;
    names.count++;
    atomic_store_explicit(&m->header->string_bytes, used, memory_order_release);
    return at;
}

uint32_t trace_name(const char *text) {
    const trace_memory *m = trace_region();
    if (!m || !text || !*text) return 0;
    char *strings = (char *)m->header + trace_strings_at();
    uint32_t at = 0;
    process_lock_take(&names_lock);
    for (uint32_t i = hash_of(text) % NAMES_MAX;; i = (i + 1) % NAMES_MAX) {
        uint32_t found = names.offsets[i];
        if (found && strncmp(strings + found, text, TRACE_STRINGS_BYTES - found) != 0) continue;
        at = found ? found : add_name(strings, m, text);
        names.offsets[i] = at;
        break;
    }
    process_lock_release(&names_lock);
    return at;
}

// Constant texts and their names, which are only added: a reader takes no lock.
enum { KNOWN_NAMES = 1024, KNOWN_PROBES = 8 };
static struct {
    _Atomic(const char *) text;
    _Atomic uint32_t name;
} known[KNOWN_NAMES];

uint32_t trace_name_of_constant(const char *text) {
    size_t start = ((uintptr_t)text >> 3) % KNOWN_NAMES;
    for (size_t i = start; i < start + KNOWN_PROBES; i++) {
        const char *none = NULL, *there = atomic_load(&known[i % KNOWN_NAMES].text);
        uint32_t name = there == text ? atomic_load(&known[i % KNOWN_NAMES].name) : 0;
        if (name) return name;
        if (there && there != text) continue;
        name = trace_name(text);
        if (there || atomic_compare_exchange_strong(&known[i % KNOWN_NAMES].text, &none, text))
            atomic_store(&known[i % KNOWN_NAMES].name, name);
        return name;
    }
    return trace_name(text);
}

uint64_t trace_unique_id(void) {
    static _Thread_local uint64_t last;
    return (uint64_t)(uint32_t)trace_thread_id() << 40 | (++last & ((UINT64_C(1) << 40) - 1));
}

int trace_thread_id(void) {
    static _Thread_local int id;
    if (!id) id = (int)syscall(SYS_gettid);
    return id;
}

// ---- Rings --------------------------------------------------------------------------------------

static void give_ring_back(void *row) {
    int i = (int)(intptr_t)row - 1;
    const trace_memory *m = trace_region();
    process_lock_take(&rings_lock);
    rings.heads[i] = here.head;
    rings.is_taken[i] = false;
    if (m) atomic_store_explicit(&thread_rows(m)[i].tid, 0, memory_order_relaxed);
    process_lock_release(&rings_lock);
    here = (ring){ .is_refused = true };
}

// A process that fork has made has neither the memory nor the other threads.
static void forget_in_child(void) {
    here = (ring){ 0 };
}

static void make_key(void) {
    rings.has_key = pthread_key_create(&rings.key, give_ring_back) == 0;
}

static int find_row(const trace_memory *m) {
    uint64_t bytes = trace_ring_bytes(m->records);
    for (int i = 0; i < TRACE_THREADS; i++) {
        if (rings.is_taken[i]) continue;
        if (!rings.records[i])
            rings.records[i] = trace_map(trace_rings_at() + (uint64_t)i * bytes, bytes);
        return rings.records[i] ? i : -1;
    }
    return -1;
}

static bool take_ring(const trace_memory *m) {
    pthread_once(&rings.once, make_key);
    process_lock_take(&rings_lock);
    int i = rings.has_key ? find_row(m) : -1;
    if (i >= 0) rings.is_taken[i] = pthread_setspecific(rings.key, (void *)(intptr_t)(i + 1)) == 0;
    if (i < 0 || !rings.is_taken[i]) {
        atomic_fetch_add(&m->header->threads_left_out, 1);
        here.is_refused = true;
    } else {
        trace_thread_row *r = &thread_rows(m)[i];
        here = (ring){
            .records = rings.records[i], .row = r, .head = rings.heads[i], .mask = m->records - 1
        };
        char name[16] = "";
        prctl(PR_GET_NAME, name);
        snprintf(r->name, sizeof r->name, "%s", name);
        atomic_store_explicit(&r->tid, trace_thread_id(), memory_order_relaxed);
    }
    process_lock_release(&rings_lock);
    return !here.is_refused;
}

static void put(const trace_memory *m, trace_kind kind, int agent, uint64_t id, uint64_t value,
                uint32_t name) {
    trace_event *r = &here.records[here.head & here.mask];
    if (has_mutation(MUTATION_TRACE_HEAD_FIRST)) {
        atomic_store_explicit(&here.row->head, here.head + 1, memory_order_release);
        sched_yield();
    }
    *r = (trace_event){ .ticks = trace_ticks(m->clock),
                        .id = id,
                        .value = value,
                        .name = name,
                        .number = (uint16_t)here.head,
                        .agent = (uint8_t)agent,
                        .kind = (uint8_t)kind };
    here.head++;
    atomic_store_explicit(&here.row->head, here.head, memory_order_release);
}

void trace_record(trace_kind kind, int agent, uint64_t id, uint64_t value, uint32_t name) {
    const trace_memory *m = trace_region();
    if (!m || here.is_refused) return;
    if (has_mutation(MUTATION_TRACE_END_LEFT_OUT) && trace_kinds[kind].phase == TRACE_END) return;
    if (!here.records) {
        if (!take_ring(m)) return;
        put(m, TRACE_THREAD_STARTED, -1, 0, (uint64_t)here.row->tid, trace_name(here.row->name));
    }
    put(m, kind, agent, id, value, name);
}

uint64_t trace_wait_begins(void) {
    return trace_is_on(TRACE_SLOW) ? trace_ticks(trace_region()->clock) : 0;
}

// The rate of the ticks is known from the time since the memory was opened.
static int64_t time_of(const trace_memory *m, uint64_t ticks) {
    trace_moment now = trace_now(m->clock);
    double passed = (double)(now.ticks - m->opened.ticks);
    return (int64_t)((double)ticks * (double)(now.monotonic_ns - m->opened.monotonic_ns) / passed);
}

void trace_wait_ends(uint64_t begun, int agent, const char *what) {
    const trace_memory *m = trace_region();
    if (!begun || !m) return;
    uint64_t ticks = trace_ticks(m->clock) - begun;
    if (ticks < (uint64_t)TRACE_SLOW_NS) return;  // a tick is at most a nanosecond
    int64_t ns = time_of(m, ticks);
    if (ns >= TRACE_SLOW_NS) trace_record_text(TRACE_SLOW_WAIT, agent, 0, (uint64_t)ns, what);
}

void trace_record_text(trace_kind kind, int agent, uint64_t id, uint64_t value, const char *text) {
    if (trace_is_on(trace_kinds[kind].level))
        trace_record(kind, agent, id, value, trace_name(text));
}
