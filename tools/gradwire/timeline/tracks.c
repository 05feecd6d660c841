#include "timeline/tracks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "observe/clean.h"

enum { NAME_SIZE = 640, MADE_UP_FIRST = 1 << 23, OVERLAPS = 1 << 16 };

static uint32_t make(tracks *t, visit_track x) {
    x.number = ++t->count;
    t->to->track(t->to->state, &x);
    return x.number;
}

// ---- Processes and threads ----------------------------------------------------------------------

// The numbers of the kernel, if they are of one host and no two processes had the same.
static int pid_of(tracks *t, int index) {
    bool is_taken = !t->is_one_host;
    for (int i = 0; i < t->image_count; i++)
        is_taken |= i != index && t->images[i].pid == t->images[index].pid;
    return is_taken ? MADE_UP_FIRST + t->made_up++ : (int)t->images[index].pid;
}

static int tid_of(tracks *t, int index, const image_thread *thread) {
    const image *x = &t->images[index];
    bool is_taken = thread->tid <= 0 || t->pids[index] != (int)x->pid;
    for (int i = 0; i < x->thread_count; i++)
        is_taken |= &x->threads[i] < thread && x->threads[i].tid == thread->tid;
    return is_taken ? MADE_UP_FIRST + t->made_up++ : thread->tid;
}

// "worker3, host b, attempt 1"
static void name_process(const image *x, char *out, size_t size) {
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; i < x->agent_count && used < size; i++)
        if (x->agents[i].name[0])
            used += (size_t)snprintf(out + used, size - used, "%s%s", used ? " and " : "",
                                     x->agents[i].name);
    if (!used) used = (size_t)snprintf(out, size, "%s", x->program);
    if (used < size)
        used +=
            (size_t)snprintf(out + used, size - used, ", host %s, attempt %u", x->host, x->attempt);
    if (x->life == IMAGE_HAS_ENDED && used < size) snprintf(out + used, size - used, ", ended");
}

static bool open_process(tracks *t, int index) {
    const image *x = &t->images[index];
    char name[NAME_SIZE];
    t->pids[index] = pid_of(t, index);
    name_process(x, name, sizeof name);
    t->processes[index] =
        make(t, (visit_track){ .kind = VISIT_PROCESS, .pid = t->pids[index], .name = name });
    t->threads[index] = calloc((size_t)x->thread_count + 1, sizeof *t->threads[index]);
    for (int i = 0; t->threads[index] && i < x->thread_count; i++)
        t->threads[index][i].track = make(t, (visit_track){ .kind = VISIT_THREAD,
                                                            .parent = t->processes[index],
                                                            .pid = t->pids[index],
                                                            .tid = tid_of(t, index, &x->threads[i]),
                                                            .name = x->threads[i].name });
    return t->threads[index];
}

bool tracks_open(const image *images, int count, bool is_one_host, const visitor *to, tracks *out) {
    *out = (tracks){ .to = to, .images = images, .image_count = count, .is_one_host = is_one_host };
    out->processes = calloc((size_t)count + 1, sizeof *out->processes);
    out->pids = calloc((size_t)count + 1, sizeof *out->pids);
    out->threads = calloc((size_t)count + 1, sizeof *out->threads);
    bool ok = out->processes && out->pids && out->threads;
    for (int i = 0; ok && i < count; i++) ok = open_process(out, i);
    return ok;
}

void tracks_close(tracks *t) {
    for (int i = 0; t->threads && i < t->image_count; i++) free(t->threads[i]);
    for (uint32_t i = 0; i < t->rows_count; i++) {
        free(t->rows[i].name);
        free(t->rows[i].rows);
    }
    free(t->processes);
    free(t->pids);
    free(t->threads);
    free(t->rows);
    table_fini(&t->rows_by_key);
    table_fini(&t->counters);
}

// ---- Rows --------------------------------------------------------------------------------------

static tracks_rows *find_rows(tracks *t, tracks_key key, const char *name) {
    uint64_t a = (uint64_t)(uint32_t)key.image << 32 | key.kind;
    uint32_t *index = table_put(&t->rows_by_key, a, key.sub, t->rows_count);
    if (!index) return NULL;
    if (*index < t->rows_count) return &t->rows[*index];
    tracks_rows *larger = realloc(t->rows, (t->rows_count + 1) * sizeof *larger);
    char *copy = strdup(name);
    if (copy) clean_text(copy);  // it may be cut inside a character
    if (larger) t->rows = larger;
    if (!larger || !copy) {
        free(copy);
        table_remove(&t->rows_by_key, a, key.sub);
        return NULL;
    }
    t->rows[t->rows_count] =
        (tracks_rows){ .parent = t->processes[key.image], .pid = t->pids[key.image], .name = copy };
    return &t->rows[t->rows_count++];
}

static bool add_row(tracks *t, tracks_rows *l) {
    if ((l->count & (l->count - 1)) == 0) {
        void *larger = realloc(l->rows, (size_t)(l->count ? 2 * l->count : 1) * sizeof *l->rows);
        if (!larger) return false;
        l->rows = larger;
    }
    l->rows[l->count].track = make(t, (visit_track){ .kind = VISIT_ROW,
                                                     .parent = l->parent,
                                                     .pid = l->pid,
                                                     .tid = MADE_UP_FIRST + t->made_up++,
                                                     .row = l->count,
                                                     .name = l->name });
    l->count++;
    return true;
}

uint32_t tracks_of_rows(tracks *t, tracks_key key, const char *name, int64_t begin_ns,
                        int64_t end_ns) {
    tracks_rows *l = find_rows(t, key, name);
    int i = 0;
    if (!l) {
        t->failed = true;
        return 0;
    }
    while (i < l->count && l->rows[i].end_ns > begin_ns) i++;
    if (i == TRACKS_ROWS_MAX) return 0;
    if (i == l->count && !add_row(t, l)) {
        t->failed = true;
        return 0;
    }
    l->rows[i].end_ns = end_ns;
    return l->rows[i].track;
}

uint32_t tracks_of_thread(tracks *t, int image_index, int thread, int64_t begin_ns,
                          int64_t end_ns) {
    tracks_thread *x = &t->threads[image_index][thread];
    while (x->depth && x->ends[x->depth - 1] <= begin_ns) x->depth--;
    bool fits = x->depth < (int)(sizeof x->ends / sizeof x->ends[0]) &&
                (!x->depth || end_ns <= x->ends[x->depth - 1]);
    if (fits) {
        x->ends[x->depth++] = end_ns;
        return x->track;
    }
    char name[64];
    snprintf(name, sizeof name, "%s, overlapping", t->images[image_index].threads[thread].name);
    return tracks_of_rows(t, (tracks_key){ image_index, OVERLAPS, (uint32_t)thread }, name,
                          begin_ns, end_ns);
}

uint32_t tracks_of_counter(tracks *t, int image_index, uint32_t name, const char *text) {
    uint32_t *track = table_put(&t->counters, (uint64_t)(uint32_t)image_index, name, 0);
    if (!track) {
        t->failed = true;
        return 0;
    }
    if (!*track)
        *track = make(t, (visit_track){ .kind = VISIT_COUNTER,
                                        .parent = t->processes[image_index],
                                        .pid = t->pids[image_index],
                                        .name = text });
    return *track;
}
