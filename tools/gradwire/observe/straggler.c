#include "observe/straggler.h"

#include <stdlib.h>

#include "trace/kinds.h"

typedef struct entered {
    uint64_t id;
    int64_t at_ns;
    int image;
} entered;

typedef struct finding {
    const image *images;
    int count, member_count;
    bool *is_member;         // by images
    int64_t from_ns, to_ns;  // the steps that all members have made
    entered *list;           // collectives, by member
    size_t size;
    int64_t *waited_ns, *until_ns;  // by images
} finding;

static int by_id_and_time(const void *a, const void *b) {
    const entered *x = a, *y = b;
    if (x->id != y->id) return x->id < y->id ? -1 : 1;
    return (x->at_ns > y->at_ns) - (x->at_ns < y->at_ns);
}

static int by_time(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

// ---- Steps --------------------------------------------------------------------------------------

static size_t count_records(const image *x) {
    size_t count = 0;
    for (int i = 0; i < x->thread_count; i++) count += x->threads[i].record_count;
    return count;
}

// The times of its steps, in order; to be freed.
static int64_t *find_steps(const image *x, size_t *out_count) {
    int64_t *times = calloc(count_records(x) + 1, sizeof *times);
    *out_count = 0;
    for (int i = 0; times && i < x->thread_count; i++)
        for (uint32_t k = 0; k < x->threads[i].record_count; k++)
            if (x->threads[i].records[k].kind == TRACE_STEP_ENDED)
                times[(*out_count)++] = x->threads[i].records[k].at_ns;
    if (times) qsort(times, *out_count, sizeof *times, by_time);
    return times;
}

// The time from the first to the last of these steps, on all members. Returns false if a member has made fewer.
static bool find_time(finding *f, size_t steps) {
    bool ok = true;
    f->to_ns = INT64_MAX;
    for (int i = 0; i < f->count && ok; i++) {
        size_t count;
        int64_t *times = find_steps(&f->images[i], &count);
        f->is_member[i] = times && count > 0;
        f->member_count += f->is_member[i];
        ok = times && (count == 0 || count > steps);
        if (ok && count) {
            if (times[count - 1 - steps] > f->from_ns) f->from_ns = times[count - 1 - steps];
            if (times[count - 1] < f->to_ns) f->to_ns = times[count - 1];
        }
        free(times);
    }
    return ok && f->member_count > 1 && f->to_ns > f->from_ns;
}

// ---- Collectives --------------------------------------------------------------------------------

static bool is_within(const finding *f, const image_record *r) {
    return r->kind == TRACE_COLLECTIVE_ENTERED && r->at_ns > f->from_ns && r->at_ns <= f->to_ns;
}

static bool list_collectives(finding *f) {
    size_t most = 0;
    for (int i = 0; i < f->count; i++) most += count_records(&f->images[i]);
    f->list = calloc(most + 1, sizeof *f->list);
    for (int i = 0; f->list && i < f->count; i++) {
        const image *x = &f->images[i];
        for (int t = 0; f->is_member[i] && t < x->thread_count; t++) {
            for (uint32_t k = 0; k < x->threads[t].record_count; k++) {
                const image_record *r = &x->threads[t].records[k];
                if (is_within(f, r)) f->list[f->size++] = (entered){ r->id, r->at_ns, i };
            }
        }
    }
    if (f->list) qsort(f->list, f->size, sizeof *f->list, by_id_and_time);
    return f->list != NULL;
}

// Leaves the last two members to enter each collective of all members, in order of time: pairs of entries.
static void keep_last_two(finding *f) {
    size_t kept = 0, members = (size_t)f->member_count;
    for (size_t first = 0, next; first < f->size; first = next) {
        for (next = first; next < f->size && f->list[next].id == f->list[first].id;) next++;
        if (next - first != members) continue;
        // The time of the pair's second last is kept in place of the id, which is not needed any more.
        entered last = f->list[next - 1];
        last.id = (uint64_t)f->list[next - 2].at_ns;
        f->list[kept++] = last;
    }
    f->size = kept;
}

static int by_last(const void *a, const void *b) {
    return by_time(&((const entered *)a)->at_ns, &((const entered *)b)->at_ns);
}

// Waits of several collectives at one time count once.
static void add_waits(finding *f) {
    qsort(f->list, f->size, sizeof *f->list, by_last);
    for (size_t i = 0; i < f->size; i++) {
        const entered *e = &f->list[i];
        int64_t since_ns = (int64_t)e->id;
        if (since_ns < f->until_ns[e->image]) since_ns = f->until_ns[e->image];
        if (e->at_ns > since_ns) f->waited_ns[e->image] += e->at_ns - since_ns;
        f->until_ns[e->image] = e->at_ns;
    }
}

static int find_most(const finding *f, double *out_share) {
    int most = -1;
    for (int i = 0; i < f->count; i++)
        if (f->is_member[i] && (most < 0 || f->waited_ns[i] > f->waited_ns[most])) most = i;
    *out_share = (double)f->waited_ns[most] / (double)(f->to_ns - f->from_ns);
    return most;
}

int straggler_find(const image *images, int count, int steps, double *out_share) {
    size_t size = (size_t)count + 1;
    finding f = { .images = images,
                  .count = count,
                  .is_member = calloc(size, sizeof *f.is_member),
                  .waited_ns = calloc(size, sizeof *f.waited_ns),
                  .until_ns = calloc(size, sizeof *f.until_ns) };
    int found = -1;
    if (f.is_member && f.waited_ns && f.until_ns && find_time(&f, (size_t)steps) &&
        list_collectives(&f)) {
        keep_last_two(&f);
        add_waits(&f);
        found = find_most(&f, out_share);
    }
    free(f.is_member);
    free(f.waited_ns);
    free(f.until_ns);
    free(f.list);
    return found;
}
