#include "observe/dump.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// ---- Which records ------------------------------------------------------------------------------

enum { RECORD_BYTES = 8 + 8 + 8 + 4 + 1 + 1 };

// The index of the first record from |from_ns| on.
static uint32_t first_since(const image_thread *t, int64_t from_ns) {
    uint32_t low = 0, high = t->record_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (t->records[middle].at_ns < from_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static uint64_t count_since(const image *images, int count, int64_t from_ns) {
    uint64_t sum = 0;
    for (int i = 0; i < count; i++)
        for (int k = 0; k < images[i].thread_count; k++)
            sum += images[i].threads[k].record_count - first_since(&images[i].threads[k], from_ns);
    return sum;
}

// The earliest time from which on there are at most |records_max| records.
static int64_t choose_start(const image *images, int count, uint64_t records_max) {
    int64_t low = 0, high = INT64_MAX;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (count_since(images, count, middle) > records_max)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// ---- An image in bytes --------------------------------------------------------------------------

// The strings that the records of one image have, and their offsets in the file by those in the image; 0: not yet.
typedef struct names {
    const image *of;
    uint32_t *offsets;
    bytes strings;
} names;

static uint32_t name_in_file(names *n, uint32_t name) {
    if (!name || name >= n->of->string_bytes || n->strings.failed) return 0;
    if (!n->offsets[name]) {
        const char *text = n->of->strings + name;
        n->offsets[name] = (uint32_t)n->strings.size;
        bytes_put(&n->strings, text, strlen(text) + 1);
    }
    return n->offsets[name];
}

static void put_moment(bytes *out, const trace_moment *m) {
    bytes_put_u64(out, m->ticks);
    bytes_put_u64(out, (uint64_t)m->monotonic_ns);
    bytes_put_u64(out, (uint64_t)m->wall_ns);
}

static void put_header(bytes *out, const image *x) {
    bytes_put_u32(out, (uint32_t)x->pid);
    bytes_put_u64(out, x->start_time);
    bytes_put_u8(out, (uint8_t)x->clock);
    put_moment(out, &x->opened);
    put_moment(out, &x->taken);
    bytes_put_u32(out, x->levels);
    bytes_put_u32(out, x->ring_records);
    bytes_put_u32(out, x->threads_left_out);
    bytes_put_u32(out, x->attempt);
    bytes_put_text(out, x->program);
    bytes_put_text(out, x->host);
    bytes_put_text(out, x->mark);
    bytes_put_text(out, x->job);
    bytes_put_u8(out, (uint8_t)x->life);
    bytes_put_text(out, x->wchan);
}

static void put_table(bytes *out, const trace_table *t) {
    bytes table = { 0 };
    trace_table_begin(&table, t->now_ns, t->phase);
    for (int i = 0; i < t->activity_count; i++) trace_table_add(&table, &t->activities[i]);
    trace_table_counts counts = { t->counters, t->memory, &t->peers, { NULL } };
    for (int i = 0; i < TRACE_SUM_KINDS; i++) counts.sums[i] = &t->sums[i];
    trace_table_end(&table, &counts);
    bytes_put_u32(out, (uint32_t)table.size);
    bytes_put(out, table.data, table.size);
    bytes_put_u32(out, (uint32_t)t->left_out);
    out->failed |= table.failed;
    bytes_fini(&table);
}

static void put_agent(bytes *out, const image_agent *a) {
    bytes_put_u8(out, (uint8_t)a->row);
    bytes_put_u8(out, a->is_open);
    bytes_put_u32(out, (uint32_t)a->rank);
    bytes_put_u32(out, (uint32_t)a->world_size);
    bytes_put_u64(out, a->incarnation);
    bytes_put_text(out, a->name);
    if (a->table)
        put_table(out, a->table);
    else
        bytes_put_u32(out, 0);
}

static void put_thread(bytes *out, const image_thread *t, int64_t from_ns, names *n) {
    uint32_t first = first_since(t, from_ns);
    bytes_put_u8(out, (uint8_t)t->row);
    bytes_put_u32(out, (uint32_t)t->tid);
    bytes_put_text(out, t->name);
    bytes_put_u64(out, t->lost + first);
    bytes_put_u32(out, t->record_count - first);
    for (uint32_t i = first; i < t->record_count; i++) {
        const image_record *r = &t->records[i];
        bytes_put_u64(out, (uint64_t)r->at_ns);
        bytes_put_u64(out, r->id);
        bytes_put_u64(out, r->value);
        bytes_put_u32(out, name_in_file(n, r->name));
        bytes_put_u8(out, r->agent);
        bytes_put_u8(out, r->kind);
    }
}

static void put_threads(bytes *out, const image *x, int64_t from_ns) {
    names n = { .of = x, .offsets = calloc(x->string_bytes + 1, sizeof *n.offsets) };
    bytes threads = { 0 };
    bytes_put_u8(&n.strings, 0);  // ""
    bytes_put_u32(&threads, (uint32_t)x->thread_count);
    for (int i = 0; n.offsets && i < x->thread_count; i++)
        put_thread(&threads, &x->threads[i], from_ns, &n);
    bytes_put_u32(out, (uint32_t)n.strings.size);
    bytes_put(out, n.strings.data, n.strings.size);
    bytes_put(out, threads.data, threads.size);
    out->failed |= !n.offsets || n.strings.failed || threads.failed;
    free(n.offsets);
    bytes_fini(&n.strings);
    bytes_fini(&threads);
}

static void put_image(bytes *out, const image *x, int64_t from_ns) {
    bytes one = { 0 };
    put_header(&one, x);
    bytes_put_u32(&one, (uint32_t)x->agent_count);
    for (int i = 0; i < x->agent_count; i++) put_agent(&one, &x->agents[i]);
    put_threads(&one, x, from_ns);
    bytes_put_u64(out, one.size);
    bytes_put(out, one.data, one.size);
    out->failed |= one.failed;
    bytes_fini(&one);
}

void dump_encode(const image *images, int count, size_t bytes_max, bytes *out) {
    size_t fixed = 0;
    for (int pass = 0; pass < 2; pass++) {
        // The first pass measures all but the records.
        uint64_t records_max = bytes_max > fixed ? (bytes_max - fixed) / RECORD_BYTES : 0;
        int64_t from_ns = pass ? choose_start(images, count, records_max) : INT64_MAX;
        bytes_fini(out);
        *out = (bytes){ 0 };
        bytes_put(out, DUMP_MAGIC, 8);
        bytes_put_u32(out, DUMP_VERSION);
        bytes_put_u32(out, (uint32_t)count);
        for (int i = 0; i < count; i++) put_image(out, &images[i], from_ns);
        fixed = out->size;
        for (int i = 0; i < count; i++) fixed += images[i].string_bytes;
    }
}

// ---- Files --------------------------------------------------------------------------------------

static bool write_all(int fd, const uint8_t *data, size_t size) {
    while (size) {
        ssize_t n = write(fd, data, size);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return false;
        data += n;
        size -= (size_t)n;
    }
    return true;
}

// Makes the file |path|, which mkostemp completes, and renames it to |to|.
static bool write_file(char *path, const char *to, const bytes *content) {
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0) return false;
    bool ok = write_all(fd, content->data, content->size);
    int error = errno;
    if (close(fd) != 0 && ok) {
        ok = false;
        error = errno;
    }
    if (ok && rename(path, to) == 0) return true;
    if (ok) error = errno;
    unlink(path);
    errno = error;
    return false;
}

bool dump_write(const char *path, const image *images, int count) {
    bytes content = { 0 };
    char *temporary = NULL;
    bool ok = false;
    if (count > DUMP_IMAGES_MAX) {
        errno = E2BIG;
        return false;
    }
    dump_encode(images, count, DUMP_BYTES, &content);
    if (content.failed || asprintf(&temporary, "%s.XXXXXX", path) < 0) {
        temporary = NULL;
        errno = ENOMEM;
    } else {
        ok = write_file(temporary, path, &content);
    }
    int error = errno;
    free(temporary);
    bytes_fini(&content);
    errno = error;
    return ok;
}
