#include "observe/capture.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "observe/find.h"
#include "observe/levels.h"
#include "observe/steps.h"

// The memory of one process.
typedef struct source {
    int fd;
    dev_t device;
    ino_t number;
    bool is_taken;     // by a process
    bool is_switched;  // its levels are on
    bool is_done;      // nothing is to be read any more
    bool is_late;      // it was not taken before the end of the capture
    rings rings;
    steps steps;
    uint32_t seen[TRACE_THREADS];
} source;

struct capture {
    capture_options options;
    source **sources;
    int count, refused;
    bool is_ended;
    uint64_t room;
    int interval_ms;
    char why[IMAGE_WHY_SIZE];  // the first memory was refused
};

capture *capture_open(const capture_options *o) {
    capture *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    c->options = *o;
    c->room = o->records_max ? o->records_max : CAPTURE_RECORDS_MAX;
    c->interval_ms = CAPTURE_READ_MAX_MS;
    return c;
}

// ---- Memories -----------------------------------------------------------------------------------

static bool has_steps(const capture *c) {
    return c->options.last_step > 0;
}

static memory_reader memory_of(const source *s, char why[IMAGE_WHY_SIZE]) {
    return (memory_reader){ s->fd, why, IMAGE_WHY_SIZE };
}

// Whether a process has taken the memory, and it can be read.
static bool is_ready(source *s) {
    image x;
    char why[IMAGE_WHY_SIZE];
    if (s->is_taken) return true;
    if (!image_take_tables(s->fd, &x, why, sizeof why)) return false;
    s->rings.ring_records = x.ring_records;
    image_free(&x);
    return s->is_taken = true;
}

static bool is_there(const capture *c, const struct stat *is) {
    for (int i = 0; i < c->count; i++)
        if (c->sources[i]->device == is->st_dev && c->sources[i]->number == is->st_ino) return true;
    return false;
}

static source *add(capture *c, int fd, const struct stat *is) {
    source **larger = realloc(c->sources, (size_t)(c->count + 1) * sizeof *larger);
    source *s = calloc(1, sizeof *s);
    if (larger) c->sources = larger;
    if (!larger || !s) {
        free(s);
        return NULL;
    }
    s->fd = fd;
    s->device = is->st_dev;
    s->number = is->st_ino;
    s->rings.room = &c->room;
    s->steps = (steps){ .first = c->options.first_step, .last = c->options.last_step };
    return c->sources[c->count++] = s;
}

bool capture_add(capture *c, int fd, char *why, size_t why_size) {
    struct stat is;
    char ignored[IMAGE_WHY_SIZE];
    source *s = NULL;
    bool is_known = fstat(fd, &is) == 0 && is_there(c, &is);
    if (!is_known && levels_switch_on(fd, c->is_ended ? 0 : c->options.levels, why, why_size)) {
        s = add(c, fd, &is);
        if (!s) levels_switch_back(fd);
        if (!s) memory_refuse(&(memory_reader){ fd, why, why_size }, "no memory");
    }
    if (!s) close(fd);
    if (!s) return is_known;
    s->is_switched = true;
    s->is_late = s->is_done = c->is_ended;
    // Also if its tables cannot be read at this time, since the process changes them.
    memory_reader m = memory_of(s, ignored);
    if (!c->options.from_start) rings_skip(&m, &s->rings);
    is_ready(s);
    return true;
}

// ---- Reading ------------------------------------------------------------------------------------

static void stop(source *s) {
    if (s->is_switched) levels_switch_back(s->fd);
    s->is_switched = false;
}

static void read_one(capture *c, source *s) {
    char why[IMAGE_WHY_SIZE];
    memory_reader m = memory_of(s, why);
    if (s->is_done || !is_ready(s)) return;
    s->is_done = !rings_read(&m, &s->rings);
    if (!has_steps(c)) return;
    steps_follow(&s->steps, &s->rings, s->seen);
    if (s->steps.is_over) stop(s);
    s->is_done |= s->steps.is_over;
}

// A quarter of a ring is to be new at the next read.
static int choose_interval(const capture *c) {
    double fullest = 0;
    for (int i = 0; i < c->count; i++) {
        const rings *r = &c->sources[i]->rings;
        double part = r->ring_records ? (double)r->newest / r->ring_records : 0;
        if (part > fullest) fullest = part;
    }
    double ms = fullest > 0 ? 0.25 * c->interval_ms / fullest : CAPTURE_READ_MAX_MS;
    return ms > CAPTURE_READ_MAX_MS   ? CAPTURE_READ_MAX_MS
           : ms < CAPTURE_READ_MIN_MS ? CAPTURE_READ_MIN_MS
                                      : (int)ms;
}

int capture_read(capture *c) {
    for (int i = 0; i < c->count; i++) {
        source *s = c->sources[i];
        read_one(c, s);
        if (s->is_late && s->is_switched && is_ready(s)) stop(s);
    }
    return c->interval_ms = choose_interval(c);
}

// ---- The end ------------------------------------------------------------------------------------

void capture_stop(capture *c) {
    for (int i = 0; i < c->count; i++) stop(c->sources[i]);
}

// A memory that no process has taken has levels only once one takes it: these are switched back then.
void capture_end(capture *c) {
    capture_read(c);
    c->is_ended = true;
    for (int i = 0; i < c->count; i++) {
        source *s = c->sources[i];
        s->is_done = true;
        s->is_late = !s->is_taken;
        if (!s->is_late) stop(s);
    }
}

bool capture_is_pending(const capture *c) {
    for (int i = 0; i < c->count; i++)
        if (c->sources[i]->is_switched) return true;
    return false;
}

bool capture_is_over(const capture *c) {
    bool is_over = has_steps(c) && c->count;
    for (int i = 0; i < c->count; i++) is_over &= c->sources[i]->steps.is_over;
    return is_over;
}

static bool take(capture *c, source *s, image *out) {
    char why[IMAGE_WHY_SIZE];
    if (s->is_late || !is_ready(s)) return false;
    read_one(c, s);
    if (has_steps(c)) steps_trim(&s->steps, &s->rings);
    if (!image_take_kept(s->fd, &s->rings, out, why, sizeof why)) {
        if (!c->refused++) memcpy(c->why, why, sizeof c->why);
        return false;
    }
    find_life(out);
    return true;
}

bool capture_finish(capture *c, image **out, int *out_count) {
    image *images = calloc((size_t)c->count + 1, sizeof *images);
    int count = 0;
    capture_stop(c);
    for (int i = 0; images && i < c->count; i++) count += take(c, c->sources[i], &images[count]);
    *out = images;
    *out_count = count;
    return images;
}

int capture_count(const capture *c) {
    int count = 0;
    for (int i = 0; i < c->count; i++) count += c->sources[i]->is_taken;
    return count;
}

int capture_refused(const capture *c) {
    return c->refused;
}

const char *capture_why(const capture *c) {
    return c->why;
}

void capture_close(capture *c) {
    capture_stop(c);
    for (int i = 0; i < c->count; i++) {
        close(c->sources[i]->fd);
        rings_fini(&c->sources[i]->rings);
        free(c->sources[i]);
    }
    free(c->sources);
    free(c);
}
