#include "timeline/critical.h"

#include <stdlib.h>
#include <string.h>

#include "timeline/table.h"
#include "trace/kinds.h"

typedef struct slice {
    int64_t begin_ns, end_ns;
    int image;
    uint8_t kind;
    uint32_t name;
} slice;

// One end of an arrow, or a whole one.
typedef struct arrow {
    uint64_t id;
    bool is_target;
    int image, source_image;
    int64_t at_ns, source_ns;
    int64_t until_ns;  // the target leads on to what ends until then
    uint8_t kind;
    uint32_t name;
    bool is_used;
} arrow;

typedef struct vector {
    void *items;
    size_t count, capacity;
} vector;

struct critical {
    int image;
    int64_t from_ns, until_ns;
    vector slices, arrows, stretches, parts;
    table part_by_key;
    bool failed;
};

critical *critical_open(int image, int64_t from_ns, int64_t until_ns) {
    critical *c = calloc(1, sizeof *c);
    if (c) *c = (critical){ .image = image, .from_ns = from_ns, .until_ns = until_ns };
    return c;
}

void critical_close(critical *c) {
    free(c->slices.items);
    free(c->arrows.items);
    free(c->stretches.items);
    free(c->parts.items);
    table_fini(&c->part_by_key);
    free(c);
}

static void *append(critical *c, vector *v, size_t size) {
    if (v->count == v->capacity) {
        size_t capacity = v->capacity ? 2 * v->capacity : 64;
        void *larger = realloc(v->items, capacity * size);
        if (!larger) {
            c->failed = true;
            return NULL;
        }
        v->items = larger;
        v->capacity = capacity;
    }
    return (char *)v->items + size * v->count++;
}

// ---- Slices -------------------------------------------------------------------------------------

static void add_arrow(critical *c, const visit_event *e, const visit_flow *f) {
    arrow *a = append(c, &c->arrows, sizeof *a);
    if (!a) return;
    *a = (arrow){ .id = f->id,
                  .is_target = f->is_target,
                  .image = e->image,
                  .at_ns = f->is_at_end ? e->end_ns : e->begin_ns,
                  .until_ns = f->is_at_end ? INT64_MAX : e->end_ns,
                  .kind = e->kind,
                  .name = e->name };
}

static void add_slice(void *state, const visit_event *e) {
    critical *c = state;
    if (c->failed || e->end_ns <= c->from_ns || e->begin_ns >= c->until_ns) return;
    slice *s = append(c, &c->slices, sizeof *s);
    if (s) *s = (slice){ e->begin_ns, e->end_ns, e->image, e->kind, e->name };
    for (int i = 0; i < e->flow_count; i++) add_arrow(c, e, &e->flows[i]);
}

visitor critical_visitor(critical *c) {
    visitor v = visitor_ignoring(c);
    v.slice = add_slice;
    return v;
}

// ---- Arrows -------------------------------------------------------------------------------------

static int by_id(const void *a, const void *b) {
    const arrow *x = a, *y = b;
    if (x->id != y->id) return x->id < y->id ? -1 : 1;
    return x->is_target - y->is_target;
}

static int by_image_and_time(const void *a, const void *b) {
    const arrow *x = a, *y = b;
    if (x->image != y->image) return x->image < y->image ? -1 : 1;
    return (x->at_ns > y->at_ns) - (x->at_ns < y->at_ns);
}

// Leaves arrows between two workers that lead forward, by the time at which they reach their targets.
static void join_arrows(critical *c) {
    arrow *all = c->arrows.items;
    size_t kept = 0;
    if (!c->arrows.count) return;
    qsort(all, c->arrows.count, sizeof *all, by_id);
    for (size_t i = 0; i + 1 < c->arrows.count; i++) {
        const arrow source = all[i];
        arrow target = all[i + 1];
        if (source.id != target.id || source.is_target || !target.is_target) continue;
        if (source.image == target.image || source.at_ns > target.at_ns) continue;
        target.source_image = source.image;
        target.source_ns = source.at_ns;
        all[kept++] = target;
    }
    c->arrows.count = kept;
    qsort(all, kept, sizeof *all, by_image_and_time);
}

// The last arrow that has reached the worker until |at_ns|, and leads to what it does then.
static arrow *find_arrow(const critical *c, int image, int64_t at_ns) {
    arrow *all = c->arrows.items;
    size_t low = 0, high = c->arrows.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const arrow *a = &all[middle];
        if (a->image < image || (a->image == image && a->at_ns <= at_ns))
            low = middle + 1;
        else
            high = middle;
    }
    while (low && all[low - 1].image == image && all[low - 1].at_ns > c->from_ns) {
        arrow *a = &all[--low];
        if (!a->is_used && a->until_ns >= at_ns) return a;
    }
    return NULL;
}

// ---- Parts --------------------------------------------------------------------------------------

static void add_part(critical *c, critical_part part) {
    uint64_t a = (uint64_t)(uint32_t)part.image << 32 | (uint32_t)part.source;
    uint64_t b = (uint64_t)part.kind << 32 | part.name;
    if (part.sum_ns <= 0) return;
    uint32_t *index = table_put(&c->part_by_key, a, b, (uint32_t)c->parts.count);
    if (!index) {
        c->failed = true;
    } else if (*index < c->parts.count) {
        ((critical_part *)c->parts.items)[*index].sum_ns += part.sum_ns;
    } else {
        critical_part *p = append(c, &c->parts, sizeof *p);
        if (p) *p = part;
    }
}

// A time of one worker on the path.
typedef struct stretch {
    int image;
    int64_t from_ns, until_ns;
} stretch;

static void add_stretch(critical *c, int image, int64_t from_ns, int64_t until_ns) {
    if (from_ns >= until_ns) return;
    stretch *s = append(c, &c->stretches, sizeof *s);
    if (s) *s = (stretch){ image, from_ns, until_ns };
}

static int64_t larger_of(int64_t a, int64_t b) {
    return a > b ? a : b;
}

// Each arrow leads to an earlier time, or is used once.
static void walk(critical *c) {
    int image = c->image;
    int64_t at_ns = c->until_ns;
    for (arrow *a; !c->failed && at_ns > c->from_ns && (a = find_arrow(c, image, at_ns));) {
        a->is_used = true;
        add_stretch(c, image, a->at_ns, at_ns);
        add_part(c, (critical_part){ image, a->source_image, a->kind, a->name,
                                     a->at_ns - larger_of(a->source_ns, c->from_ns) });
        image = a->source_image;
        at_ns = a->source_ns;
    }
    add_stretch(c, image, c->from_ns, at_ns);
}

// ---- What workers do meanwhile ------------------------------------------------------------------

// The slices of one worker that are open at a time, while its stretches are gone through.
typedef struct opened {
    const slice *next, *end;
    vector open;  // of const slice *
} opened;

static void move_to(critical *c, opened *o, int64_t at_ns) {
    size_t kept = 0;
    for (; o->next < o->end && o->next->begin_ns <= at_ns; o->next++) {
        const slice **s = append(c, &o->open, sizeof *s);
        if (s) *s = o->next;
    }
    const slice **all = o->open.items;
    for (size_t i = 0; i < o->open.count; i++)
        if (all[i]->end_ns > at_ns) all[kept++] = all[i];
    o->open.count = kept;
}

// Those that begin later are within those before, or end sooner.
static const slice *find_innermost(const opened *o) {
    const slice *const *all = o->open.items, *found = NULL;
    for (size_t i = 0; i < o->open.count; i++) {
        bool is_inner = !found || all[i]->begin_ns > found->begin_ns ||
                        (all[i]->begin_ns == found->begin_ns && all[i]->end_ns <= found->end_ns);
        if (is_inner) found = all[i];
    }
    return found;
}

// Until when the same slices are open.
static int64_t find_change(const opened *o, int64_t until_ns) {
    const slice *const *all = o->open.items;
    if (o->next < o->end && o->next->begin_ns < until_ns) until_ns = o->next->begin_ns;
    for (size_t i = 0; i < o->open.count; i++)
        if (all[i]->end_ns < until_ns) until_ns = all[i]->end_ns;
    return until_ns;
}

static void divide_stretch(critical *c, opened *o, const stretch *s) {
    for (int64_t at_ns = s->from_ns; !c->failed && at_ns < s->until_ns;) {
        move_to(c, o, at_ns);
        const slice *inner = find_innermost(o);
        int64_t next_ns = find_change(o, s->until_ns);
        add_part(c, (critical_part){ s->image, -1, inner ? inner->kind : 0, inner ? inner->name : 0,
                                     next_ns - at_ns });
        at_ns = next_ns;
    }
}

static int by_worker_and_begin(const void *a, const void *b) {
    const slice *x = a, *y = b;
    if (x->image != y->image) return x->image < y->image ? -1 : 1;
    return (x->begin_ns > y->begin_ns) - (x->begin_ns < y->begin_ns);
}

static int by_worker_and_time(const void *a, const void *b) {
    const stretch *x = a, *y = b;
    if (x->image != y->image) return x->image < y->image ? -1 : 1;
    return (x->from_ns > y->from_ns) - (x->from_ns < y->from_ns);
}

static void divide(critical *c) {
    slice *slices = c->slices.items, *end = slices + c->slices.count;
    const stretch *all = c->stretches.items;
    opened o = { .next = slices };
    if (c->slices.count) qsort(slices, c->slices.count, sizeof *slices, by_worker_and_begin);
    if (c->stretches.count)
        qsort(c->stretches.items, c->stretches.count, sizeof *all, by_worker_and_time);
    for (size_t i = 0; i < c->stretches.count; i++) {
        if (!i || all[i].image != all[i - 1].image) {
            while (o.next < end && o.next->image < all[i].image) o.next++;
            for (o.end = o.next; o.end < end && o.end->image == all[i].image;) o.end++;
            o.open.count = 0;
        }
        divide_stretch(c, &o, &all[i]);
    }
    free(o.open.items);
}

// ---- All ----------------------------------------------------------------------------------------

static int by_sum(const void *a, const void *b) {
    const critical_part *x = a, *y = b;
    return (x->sum_ns < y->sum_ns) - (x->sum_ns > y->sum_ns);
}

bool critical_find(critical *c, const critical_part **out, int *out_count) {
    join_arrows(c);
    walk(c);
    divide(c);
    if (c->failed) return false;
    if (c->parts.count) qsort(c->parts.items, c->parts.count, sizeof(critical_part), by_sum);
    *out = c->parts.items;
    *out_count = (int)c->parts.count;
    return true;
}

int64_t critical_length_ns(const critical *c) {
    return c->until_ns - c->from_ns;
}
