#include "observe/image.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "observe/clean.h"
#include "trace/clock.h"
#include "trace/kinds.h"

// What is known while an image is made.
typedef struct taking {
    memory_reader from;
    image *image;
} taking;

static bool refuse_without_memory(const taking *t) {
    return memory_refuse(&t->from, "no memory");
}

static void copy_text(char *out, size_t size, const char *from) {
    memcpy(out, from, size);
    clean_array(out, size);
}

// ---- The header ---------------------------------------------------------------------------------

static bool is_ring_size(uint32_t n) {
    return n >= TRACE_RECORDS_MIN && n <= TRACE_RECORDS_MAX && (n & (n - 1)) == 0;
}

static bool check_header(const taking *t, const trace_header *h) {
    struct stat is;
    if (fstat(t->from.fd, &is) != 0)
        return memory_refuse(&t->from, "it cannot be read: %s", strerror(errno));
    if (memcmp(h->magic, TRACE_MAGIC, sizeof h->magic) != 0)
        return memory_refuse(&t->from, h->magic[0] ? "it has a wrong magic number"
                                                   : "it is not complete yet");
    if (h->version != TRACE_VERSION)
        return memory_refuse(&t->from, "it has version %u; this gradwire reads version %d",
                             h->version, TRACE_VERSION);
    if (!is_ring_size(h->ring_records))
        return memory_refuse(&t->from, "it has %u records a thread, which is no possible number",
                             h->ring_records);
    uint64_t needed = trace_memory_bytes(h->ring_records);
    if ((uint64_t)is.st_size < needed)
        return memory_refuse(&t->from, "it has %lld of %llu bytes", (long long)is.st_size,
                             (unsigned long long)needed);
    if (h->clock > TRACE_CLOCK_COUNTER)
        return memory_refuse(&t->from, "it has an unknown clock, %u", h->clock);
#if !defined(__x86_64__)
    if (h->clock == TRACE_CLOCK_COUNTER)
        return memory_refuse(&t->from, "this processor has no such counter");
#endif
    return true;
}

static bool take_header(taking *t) {
    image *x = t->image;
    trace_header h;
    if (!memory_copy(&t->from, &h, sizeof h, 0)) return false;
    x->pid = (pid_t)atomic_load_explicit(&h.owner, memory_order_relaxed);
    if (x->pid <= 0) return memory_refuse(&t->from, "no process has taken it");
    if (!check_header(t, &h)) return false;
    x->taken = trace_now((trace_clock)h.clock);
    if (h.opened.monotonic_ns < 0 || h.opened.monotonic_ns > x->taken.monotonic_ns ||
        h.opened.ticks > x->taken.ticks)
        return memory_refuse(&t->from, "it was opened in the future");
    x->start_time = h.start_time;
    x->clock = (trace_clock)h.clock;
    x->opened = h.opened;
    x->levels = atomic_load_explicit(&h.levels, memory_order_relaxed);
    x->ring_records = h.ring_records;
    x->threads_left_out = atomic_load_explicit(&h.threads_left_out, memory_order_relaxed);
    x->attempt = h.attempt;
    copy_text(x->program, sizeof x->program, h.program);
    copy_text(x->host, sizeof x->host, h.host);
    copy_text(x->mark, sizeof x->mark, h.mark);
    copy_text(x->job, sizeof x->job, h.job);
    return true;
}

// ---- Workers ------------------------------------------------------------------------------------

static bool read_written(const taking *t, uint64_t row_at, uint64_t *out) {
    return memory_copy(&t->from, out, sizeof *out, row_at + offsetof(trace_agent_row, written));
}

// Reads the half that is not written at the moment into |r|; |*is_one|: whether it is a table.
static bool read_table(const taking *t, uint64_t row_at, uint64_t written, trace_agent_row *r,
                       trace_table *out, bool *is_one) {
    size_t half = written % 2, at = offsetof(trace_agent_row, tables) + half * sizeof r->tables[0];
    *is_one = false;
    if (!memory_copy(&t->from, &r->tables[half], sizeof r->tables[0], row_at + at)) return false;
    uint32_t size = r->tables[half].bytes;
    *is_one = size <= sizeof r->tables[0].data && trace_table_read(r->tables[half].data, size, out);
    return true;
}

// Again if another table is published meanwhile, which occurs once a second.
static bool take_table(const taking *t, uint64_t row_at, trace_agent_row *r, image_agent *a) {
    enum { TRIES = 3 };
    trace_table *table = malloc(sizeof *table);
    if (!table) return refuse_without_memory(t);
    bool is_one = false, ok = true;
    for (uint64_t i = 0, before = 0, after = 1; ok && i < TRIES && before != after; i++) {
        ok = read_written(t, row_at, &before);
        if (ok && !before) break;
        ok = ok && read_table(t, row_at, before, r, table, &is_one) &&
             read_written(t, row_at, &after);
    }
    if (ok && is_one) {
        clean_table(table);
        a->table = table;
    } else {
        free(table);
    }
    return ok;
}

static bool take_row(const taking *t, int row, trace_agent_row *r) {
    uint64_t at = trace_agents_at() + (uint64_t)row * sizeof *r;
    if (!memory_copy(&t->from, r, offsetof(trace_agent_row, tables), at)) return false;
    bool is_open = atomic_load_explicit(&r->is_open, memory_order_relaxed);
    if (!is_open && !r->name[0]) return true;
    image_agent *a = &t->image->agents[t->image->agent_count++];
    *a = (image_agent){ .row = row,
                        .is_open = is_open,
                        .rank = r->rank,
                        .world_size = r->world_size,
                        .incarnation = r->incarnation };
    copy_text(a->name, sizeof a->name, r->name);
    return take_table(t, at, r, a);
}

static bool take_agents(const taking *t) {
    t->image->agents = calloc(TRACE_AGENTS, sizeof *t->image->agents);
    trace_agent_row *r = calloc(1, sizeof *r);
    bool ok = t->image->agents && r;
    if (!ok) refuse_without_memory(t);
    for (int row = 0; ok && row < TRACE_AGENTS; row++) ok = take_row(t, row, r);
    free(r);
    return ok;
}

// ---- Records ------------------------------------------------------------------------------------

static int64_t ns_of(const image *x, uint64_t ticks) {
    const trace_moment *a = &x->opened, *b = &x->taken;
    if (ticks <= a->ticks) return a->monotonic_ns;
    if (ticks >= b->ticks) return b->monotonic_ns;
    if (x->clock == TRACE_CLOCK_MONOTONIC) return (int64_t)ticks;
    double part = (double)(ticks - a->ticks) / (double)(b->ticks - a->ticks);
    return a->monotonic_ns + (int64_t)(part * (double)(b->monotonic_ns - a->monotonic_ns));
}

static uint8_t agent_of(const image *x, uint8_t row) {
    for (int i = 0; i < x->agent_count; i++)
        if (x->agents[i].row == row) return (uint8_t)i;
    return IMAGE_NO_AGENT;
}

// In place: both have 32 bytes.
static image_record *convert(const image *x, trace_event *events, uint32_t count) {
    _Static_assert(sizeof(image_record) == sizeof(trace_event),
                   "a record takes the place of an event");
    image_record *records = (image_record *)(void *)events;
    int64_t last_ns = INT64_MIN;
    for (uint32_t i = 0; i < count; i++) {
        trace_event e;
        memcpy(&e, (const char *)events + (size_t)i * sizeof e, sizeof e);
        image_record r = { .at_ns = ns_of(x, e.ticks),
                           .id = e.id,
                           .value = e.value,
                           .name = e.name,
                           .agent = agent_of(x, e.agent),
                           .kind = e.kind };
        // Counters of two processors may differ by less than a record takes.
        if (r.at_ns < last_ns) r.at_ns = last_ns;
        last_ns = r.at_ns;
        memcpy(&records[i], &r, sizeof r);
    }
    return records;
}

// The records of the thread become those of |t|.
static void take_thread(const taking *t, int row, const trace_thread_row *r, rings_thread *from) {
    image *x = t->image;
    if (!from->count && !from->lost && !from->left_out) return;
    image_thread *thread = &x->threads[x->thread_count++];
    *thread = (image_thread){ .row = row,
                              .tid = atomic_load_explicit(&r->tid, memory_order_relaxed),
                              .lost = from->lost,
                              .overtaken = from->overtaken,
                              .left_out = from->left_out,
                              .record_count = from->count,
                              .records = convert(x, from->events, from->count) };
    copy_text(thread->name, sizeof thread->name, r->name);
    *from = (rings_thread){ .next = from->next };
}

// After the records: the string of a record is published before it.
static bool take_strings(const taking *t) {
    image *x = t->image;
    uint32_t size;
    if (!memory_copy(&t->from, &size, sizeof size, offsetof(trace_header, string_bytes)))
        return false;
    if (size < 1 || size > TRACE_STRINGS_BYTES)
        return memory_refuse(&t->from, "it has %u bytes of strings, which is no possible number",
                             size);
    x->strings = malloc(size);
    if (!x->strings) return refuse_without_memory(t);
    if (!memory_copy(&t->from, x->strings, size, trace_strings_at())) return false;
    x->strings[0] = x->strings[size - 1] = '\0';
    x->string_bytes = size;
    clean_strings(x->strings, size);
    return true;
}

static void check_names(image *x) {
    for (int i = 0; i < x->thread_count; i++)
        for (uint32_t k = 0; k < x->threads[i].record_count; k++)
            if (x->threads[i].records[k].name >= x->string_bytes) x->threads[i].records[k].name = 0;
}

static bool take_records(const taking *t, rings *r) {
    trace_thread_row rows[TRACE_THREADS];
    t->image->threads = calloc(TRACE_THREADS, sizeof *t->image->threads);
    if (!t->image->threads) return refuse_without_memory(t);
    if (!memory_copy(&t->from, rows, sizeof rows, trace_threads_at())) return false;
    t->image->taken = trace_now(t->image->clock);
    for (int row = 0; row < TRACE_THREADS; row++) take_thread(t, row, &rows[row], &r->threads[row]);
    if (!take_strings(t)) return false;
    check_names(t->image);
    return true;
}

// ---- All ----------------------------------------------------------------------------------------

// With the records of |r|, after |reads| with those that are new since.
static bool take(int fd, rings *r, bool reads, image *out, char *why, size_t why_size) {
    taking t = { .from = { fd, why, why_size }, .image = out };
    *out = (image){ 0 };
    bool ok = take_header(&t) && take_agents(&t);
    if (ok) r->ring_records = out->ring_records;
    if (ok && (!reads || rings_read(&t.from, r)) && take_records(&t, r)) return true;
    image_free(out);
    return false;
}

bool image_take(int fd, image *out, char *why, size_t why_size) {
    rings r = { 0 };
    bool ok = take(fd, &r, true, out, why, why_size);
    rings_fini(&r);
    return ok;
}

bool image_take_kept(int fd, rings *r, image *out, char *why, size_t why_size) {
    return take(fd, r, false, out, why, why_size);
}

bool image_take_tables(int fd, image *out, char *why, size_t why_size) {
    taking t = { .from = { fd, why, why_size }, .image = out };
    *out = (image){ 0 };
    if (take_header(&t) && take_agents(&t)) return true;
    image_free(out);
    return false;
}

void image_free(image *x) {
    for (int i = 0; x->agents && i < x->agent_count; i++) free(x->agents[i].table);
    for (int i = 0; x->threads && i < x->thread_count; i++) free(x->threads[i].records);
    free(x->agents);
    free(x->threads);
    free(x->strings);
    *x = (image){ 0 };
}

void image_free_all(image *images, int count) {
    for (int i = 0; i < count; i++) image_free(&images[i]);
    free(images);
}

const char *image_name(const image *x, const image_record *r) {
    return r->name < x->string_bytes ? x->strings + r->name : "";
}

// ---- What they say ------------------------------------------------------------------------------

bool image_is_wait(trace_activity_kind kind) {
    return kind != TRACE_RUNS && kind != TRACE_QUEUED;
}

uint64_t image_progress(const image *x) {
    uint64_t sum = 0;
    for (int i = 0; i < x->agent_count; i++) {
        const trace_table *t = x->agents[i].table;
        if (t)
            sum += t->counters[TRACE_CALLS_MADE] + t->counters[TRACE_CALLS_SERVED] +
                   t->counters[TRACE_COLLECTIVES];
    }
    return sum;
}

int64_t image_oldest_wait_ns(const image *x, int64_t now_ns) {
    int64_t oldest = 0;
    for (int i = 0; i < x->agent_count; i++) {
        const trace_table *t = x->agents[i].table;
        for (int k = 0; t && k < t->activity_count; k++) {
            const trace_activity *a = &t->activities[k];
            if (!image_is_wait(a->kind) || a->kind == TRACE_WAITS_SHUTDOWN || a->since_ns < 0)
                continue;
            if (now_ns - a->since_ns > oldest) oldest = now_ns - a->since_ns;
        }
    }
    return oldest;
}

int64_t image_table_age_ns(const image *x, const image_agent *a) {
    if (!a->table || a->table->now_ns < 0 || a->table->now_ns > x->taken.monotonic_ns) return 0;
    return x->taken.monotonic_ns - a->table->now_ns;
}

int64_t image_activity_age_ns(const image *x, const trace_activity *a) {
    if (a->since_ns < 0 || a->since_ns > x->taken.monotonic_ns) return 0;
    return x->taken.monotonic_ns - a->since_ns;
}
