#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "observe/clean.h"
#include "observe/dump.h"
#include "trace/kinds.h"

enum { RECORD_BYTES = 30 };

typedef struct decoding {
    reader in;
    const uint8_t *start;
    int image;  // -1: before the first
    char *why;
    size_t why_size;
} decoding;

// The first reason is kept.
__attribute__((format(printf, 2, 3))) static bool refuse(decoding *d, const char *format, ...) {
    char what[160];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    if (d->why_size && d->why[0]) return false;
    char place[32] = "";
    if (d->image >= 0) snprintf(place, sizeof place, ", process %d", d->image);
    snprintf(d->why, d->why_size, "at byte %zu%s: %s", (size_t)(d->in.at - d->start), place, what);
    return false;
}

static bool check(decoding *d) {
    return d->in.failed ? refuse(d, "it ends early") : true;
}

static bool take_text(decoding *d, char *out, size_t size, const char *what) {
    if (!reader_text(&d->in, out, size))
        return refuse(d, "the %s is no text of at most %zu bytes", what, size - 1);
    clean_text(out);
    return true;
}

// ---- The header of an image ---------------------------------------------------------------------

static trace_moment take_moment(decoding *d) {
    trace_moment m = { .ticks = reader_u64(&d->in) };
    m.monotonic_ns = (int64_t)reader_u64(&d->in);
    m.wall_ns = (int64_t)reader_u64(&d->in);
    return m;
}

static bool take_numbers(decoding *d, image *x) {
    uint32_t pid = reader_u32(&d->in);
    x->start_time = reader_u64(&d->in);
    uint8_t clock = reader_u8(&d->in);
    x->opened = take_moment(d);
    x->taken = take_moment(d);
    x->levels = reader_u32(&d->in);
    x->ring_records = reader_u32(&d->in);
    x->threads_left_out = reader_u32(&d->in);
    x->attempt = reader_u32(&d->in);
    if (!check(d)) return false;
    if (pid == 0 || pid > INT32_MAX) return refuse(d, "%u is the number of no process", pid);
    if (clock > TRACE_CLOCK_COUNTER) return refuse(d, "there is no clock %u", clock);
    if (x->opened.monotonic_ns < 0 || x->taken.monotonic_ns < x->opened.monotonic_ns)
        return refuse(d, "its time goes back");
    x->pid = (pid_t)pid;
    x->clock = (trace_clock)clock;
    return true;
}

static bool take_header(decoding *d, image *x) {
    if (!take_numbers(d, x) || !take_text(d, x->program, sizeof x->program, "program") ||
        !take_text(d, x->host, sizeof x->host, "host") ||
        !take_text(d, x->mark, sizeof x->mark, "mark") ||
        !take_text(d, x->job, sizeof x->job, "job"))
        return false;
    uint8_t life = reader_u8(&d->in);
    if (!check(d)) return false;
    if (life >= IMAGE_LIFE_COUNT) return refuse(d, "there is no state %u of a process", life);
    x->life = (image_life)life;
    return take_text(d, x->wchan, sizeof x->wchan, "place in the kernel");
}

// ---- Workers ------------------------------------------------------------------------------------

static bool take_table(decoding *d, image_agent *a, uint32_t size) {
    const uint8_t *data = reader_take(&d->in, size);
    uint32_t left_out = reader_u32(&d->in);
    if (!check(d)) return false;
    a->table = malloc(sizeof *a->table);
    if (!a->table) return refuse(d, "no memory");
    if (!trace_table_read(data, size, a->table) ||
        left_out > INT32_MAX - (uint32_t)a->table->left_out)
        return refuse(d, "the table of worker %.40s is no table", a->name);
    a->table->left_out += (int)left_out;
    clean_table(a->table);
    return true;
}

static bool take_agent(decoding *d, image_agent *a) {
    a->row = reader_u8(&d->in);
    a->is_open = reader_u8(&d->in);
    a->rank = (int)reader_u32(&d->in);
    a->world_size = (int)reader_u32(&d->in);
    a->incarnation = reader_u64(&d->in);
    if (!check(d) || !take_text(d, a->name, sizeof a->name, "name of a worker")) return false;
    uint32_t size = reader_u32(&d->in);
    if (!check(d)) return false;
    return size == 0 || take_table(d, a, size);
}

static bool take_agents(decoding *d, image *x) {
    uint32_t count = reader_u32(&d->in);
    if (!check(d)) return false;
    if (count > TRACE_AGENTS)
        return refuse(d, "it has %u workers; %d are possible", count, TRACE_AGENTS);
    x->agents = calloc(count ? count : 1, sizeof *x->agents);
    if (!x->agents) return refuse(d, "no memory");
    x->agent_count = (int)count;
    for (int i = 0; i < x->agent_count; i++)
        if (!take_agent(d, &x->agents[i])) return false;
    return true;
}

// ---- Records ------------------------------------------------------------------------------------

static bool take_strings(decoding *d, image *x) {
    uint32_t size = reader_u32(&d->in);
    if (!check(d)) return false;
    if (size < 1 || size > TRACE_STRINGS_BYTES)
        return refuse(d, "it has %u bytes of strings", size);
    const uint8_t *data = reader_take(&d->in, size);
    if (!check(d)) return false;
    if (data[0] || data[size - 1]) return refuse(d, "its strings have no end");
    x->strings = malloc(size);
    if (!x->strings) return refuse(d, "no memory");
    memcpy(x->strings, data, size);
    x->string_bytes = size;
    clean_strings(x->strings, size);
    return true;
}

static bool take_record(decoding *d, const image *x, int64_t after_ns, image_record *out) {
    *out = (image_record){ .at_ns = (int64_t)reader_u64(&d->in), .id = reader_u64(&d->in) };
    out->value = reader_u64(&d->in);
    out->name = reader_u32(&d->in);
    out->agent = reader_u8(&d->in);
    out->kind = reader_u8(&d->in);
    if (!check(d)) return false;
    if (out->at_ns < after_ns || out->at_ns > x->taken.monotonic_ns)
        return refuse(d, "the time of a record goes back, or is beyond the end");
    if (out->name >= x->string_bytes) return refuse(d, "the name of a record is no string");
    if (out->agent >= x->agent_count && out->agent != IMAGE_NO_AGENT)
        return refuse(d, "the worker of a record is none of its workers");
    if (!out->kind || out->kind >= TRACE_KIND_COUNT)
        return refuse(d, "there is no kind %u of records", out->kind);
    return true;
}

static bool take_thread(decoding *d, const image *x, image_thread *t) {
    t->row = reader_u8(&d->in);
    t->tid = (int)reader_u32(&d->in);
    if (!check(d) || !take_text(d, t->name, sizeof t->name, "name of a thread")) return false;
    t->lost = reader_u64(&d->in);
    uint32_t count = reader_u32(&d->in);
    if (!check(d)) return false;
    if (count > reader_left(&d->in) / RECORD_BYTES)
        return refuse(d, "%u records are more than it has", count);
    t->records = malloc((count ? count : 1) * sizeof *t->records);
    if (!t->records) return refuse(d, "no memory");
    for (int64_t after_ns = 0; t->record_count < count; t->record_count++) {
        if (!take_record(d, x, after_ns, &t->records[t->record_count])) return false;
        after_ns = t->records[t->record_count].at_ns;
    }
    return true;
}

static bool take_threads(decoding *d, image *x) {
    uint32_t count = reader_u32(&d->in);
    if (!check(d)) return false;
    if (count > TRACE_THREADS)
        return refuse(d, "it has %u threads; %d are possible", count, TRACE_THREADS);
    x->threads = calloc(count ? count : 1, sizeof *x->threads);
    if (!x->threads) return refuse(d, "no memory");
    x->thread_count = (int)count;
    for (int i = 0; i < x->thread_count; i++)
        if (!take_thread(d, x, &x->threads[i])) return false;
    return true;
}

// ---- All ----------------------------------------------------------------------------------------

static bool take_image(decoding *d, image *x) {
    uint64_t size = reader_u64(&d->in);
    if (!check(d)) return false;
    if (size > reader_left(&d->in)) return refuse(d, "it ends early");
    reader rest = reader_of(d->in.at + size, reader_left(&d->in) - size);
    d->in.end = rest.at;
    if (!take_header(d, x) || !take_agents(d, x) || !take_strings(d, x) || !take_threads(d, x))
        return false;
    if (reader_left(&d->in)) return refuse(d, "%zu bytes mean nothing", reader_left(&d->in));
    d->in = rest;
    return true;
}

static bool check_beginning(decoding *d, uint32_t *out_count) {
    const uint8_t *magic = reader_take(&d->in, 8);
    if (!magic || memcmp(magic, DUMP_MAGIC, 8) != 0) return refuse(d, "it is no dump of gradwire");
    uint32_t version = reader_u32(&d->in);
    *out_count = reader_u32(&d->in);
    if (!check(d)) return false;
    if (version != DUMP_VERSION)
        return refuse(d, "it has version %u; this gradwire reads version %d", version,
                      DUMP_VERSION);
    if (*out_count > DUMP_IMAGES_MAX)
        return refuse(d, "it has %u processes; at most %d are possible", *out_count,
                      DUMP_IMAGES_MAX);
    return true;
}

bool dump_decode(const void *data, size_t size, image **out_images, int *out_count, char *why,
                 size_t why_size) {
    decoding d = {
        .in = reader_of(data, size), .start = data, .image = -1, .why = why, .why_size = why_size
    };
    uint32_t count = 0;
    if (why_size) why[0] = '\0';
    if (!check_beginning(&d, &count)) return false;
    image *images = calloc(count ? count : 1, sizeof *images);
    if (!images) return refuse(&d, "no memory");
    bool ok = true;
    for (d.image = 0; ok && d.image < (int)count;) {
        ok = take_image(&d, &images[d.image]);
        if (ok) d.image++;
    }
    d.image = ok ? -1 : d.image;
    if (ok && reader_left(&d.in)) ok = refuse(&d, "%zu bytes mean nothing", reader_left(&d.in));
    if (!ok) {
        image_free_all(images, (int)count);
        return false;
    }
    *out_images = images;
    *out_count = (int)count;
    return true;
}

static bool read_file(int fd, size_t size, uint8_t **out, char *why, size_t why_size) {
    *out = malloc(size ? size : 1);
    size_t done = 0;
    while (*out && done < size) {
        ssize_t n = read(fd, *out + done, size - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        done += (size_t)n;
    }
    if (*out && done == size) return true;
    snprintf(why, why_size, "it cannot be read: %s", *out ? strerror(errno) : "no memory");
    free(*out);
    return false;
}

bool dump_read(const char *path, image **out_images, int *out_count, char *why, size_t why_size) {
    struct stat is;
    uint8_t *data;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &is) != 0) {
        snprintf(why, why_size, "%s", strerror(errno));
        if (fd >= 0) close(fd);
        return false;
    }
    bool ok = false;
    if (!S_ISREG(is.st_mode) || is.st_size > DUMP_READ_BYTES_MAX)
        snprintf(why, why_size, "it is no file of at most %d bytes", DUMP_READ_BYTES_MAX);
    else
        ok = read_file(fd, (size_t)is.st_size, &data, why, why_size);
    close(fd);
    if (!ok) return false;
    ok = dump_decode(data, (size_t)is.st_size, out_images, out_count, why, why_size);
    free(data);
    return ok;
}
