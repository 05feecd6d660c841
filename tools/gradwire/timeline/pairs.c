#include "timeline/pairs.h"

#include <stdlib.h>

#include "timeline/merge.h"
#include "timeline/table.h"
#include "trace/kinds.h"

// The end of a collective.
typedef struct finish {
    uint64_t id;
    int64_t at_ns;
    uint32_t number;
    int image;
} finish;

// The last that entered a collective.
typedef struct entry {
    int64_t at_ns;
    uint32_t number;
    int image;
} entry;

typedef struct vector {
    void *items;
    uint32_t count, capacity;
} vector;

typedef struct pairing {
    const image *images;
    pairs *out;
    table
        open;  // by kind, image, worker and id: the last begin that has no end; |partners| has the one before it
    table collectives;  // by id: an index of |entries|
    table passes;       // by rank and scope: the begin of the last one
    vector entries, finishes, links, orphans;
    bool failed;
} pairing;

static void *append(pairing *p, vector *v, size_t size) {
    if (v->count == v->capacity) {
        uint32_t capacity = v->capacity ? 2 * v->capacity : 256;
        void *larger = realloc(v->items, capacity * size);
        if (!larger) {
            p->failed = true;
            return NULL;
        }
        v->items = larger;
        v->capacity = capacity;
    }
    return (char *)v->items + size * v->count++;
}

int pairs_rank(const image *x, const image_record *r) {
    if (r->agent < x->agent_count) return x->agents[r->agent].rank;
    return x->agent_count ? x->agents[0].rank : -1;
}

// ---- Begins and ends ----------------------------------------------------------------------------

static uint64_t key_of(const merge_item *x, uint8_t begin_kind) {
    uint64_t key =
        (uint64_t)begin_kind << 56 | (uint64_t)x->image << 40 | (uint64_t)x->record->agent << 32;
    return begin_kind == TRACE_PART_BEGUN ? key | (uint32_t)x->record->value : key;
}

static void begin(pairing *p, const merge_item *x) {
    uint32_t *top = table_put(&p->open, key_of(x, x->record->kind), x->record->id, PAIRS_NONE);
    if (!top) return;
    p->out->partners[x->number] = *top;
    *top = x->number;
}

static void end(pairing *p, const merge_item *x) {
    uint64_t key = key_of(x, x->record->kind - 1);
    uint32_t *top = table_find(&p->open, key, x->record->id), *partners = p->out->partners;
    if (!top) {
        partners[x->number] = PAIRS_NONE;
        pairs_orphan *o = append(p, &p->orphans, sizeof *o);
        if (o) *o = (pairs_orphan){ x->image, x->thread, x->number, x->record, -1 };
        return;
    }
    uint32_t started = *top;
    *top = partners[started];
    partners[started] = x->number;
    partners[x->number] = started;
    if (*top == PAIRS_NONE) table_remove(&p->open, key, x->record->id);
}

// What is still open has no end.
static void abandon(pairing *p) {
    for (size_t i = 0; i < p->open.size; i++) {
        if (!p->open.entries[i].is_used) continue;
        for (uint32_t k = p->open.entries[i].value; k != PAIRS_NONE;) {
            uint32_t before = p->out->partners[k];
            p->out->partners[k] = PAIRS_NONE;
            k = before;
        }
    }
}

// ---- Links --------------------------------------------------------------------------------------

static void add_link(pairing *p, uint32_t source, uint32_t target) {
    pairs_link *l = append(p, &p->links, sizeof *l);
    if (l) *l = (pairs_link){ source, target };
}

static void enter(pairing *p, const merge_item *x) {
    uint32_t *index = table_put(&p->collectives, x->record->id, 0, p->entries.count);
    if (!index) return;
    entry *e = *index < p->entries.count ? (entry *)p->entries.items + *index
                                         : append(p, &p->entries, sizeof *e);
    if (e) *e = (entry){ x->record->at_ns, x->number, x->image };
}

static void leave(pairing *p, const merge_item *x) {
    finish *f = append(p, &p->finishes, sizeof *f);
    if (f) *f = (finish){ x->record->id, x->record->at_ns, x->number, x->image };
}

// A member may end before the last one enters, as the source of a broadcast does: nothing leads to its end.
static void link_collectives(pairing *p) {
    const finish *f = p->finishes.items;
    for (uint32_t i = 0; i < p->finishes.count; i++) {
        const uint32_t *index = table_find(&p->collectives, f[i].id, 0);
        const entry *last = index ? (const entry *)p->entries.items + *index : NULL;
        if (last && last->image != f[i].image && last->at_ns <= f[i].at_ns)
            add_link(p, last->number, f[i].number);
    }
}

static void begin_pass(pairing *p, const merge_item *x) {
    int rank = pairs_rank(&p->images[x->image], x->record);
    uint32_t *last = table_put(&p->passes, (uint64_t)(uint32_t)rank, x->record->id, x->number);
    if (last) *last = x->number;
}

static void end_pass(pairing *p, const merge_item *x) {
    int rank = pairs_rank(&p->images[x->image], x->record);
    table_remove(&p->passes, (uint64_t)(uint32_t)rank, x->record->id);
}

static void begin_part(pairing *p, const merge_item *x) {
    const uint32_t *pass = table_find(&p->passes, (uint32_t)x->record->value, x->record->id);
    bool is_own = pairs_rank(&p->images[x->image], x->record) == (int)x->record->value;
    if (pass && !is_own) add_link(p, *pass, x->number);
}

static int by_source(const void *a, const void *b) {
    const pairs_link *x = a, *y = b;
    if (x->source != y->source) return x->source < y->source ? -1 : 1;
    return (x->target > y->target) - (x->target < y->target);
}

static int by_target(const void *a, const void *b, void *links) {
    const pairs_link *x = (pairs_link *)links + *(const uint32_t *)a;
    const pairs_link *y = (pairs_link *)links + *(const uint32_t *)b;
    return (x->target > y->target) - (x->target < y->target);
}

static void sort_links(pairing *p) {
    pairs *out = p->out;
    out->links = p->links.items;
    out->link_count = p->links.count;
    if (!out->link_count) return;
    qsort(out->links, out->link_count, sizeof *out->links, by_source);
    out->by_target = malloc(out->link_count * sizeof *out->by_target);
    if (!out->by_target) {
        p->failed = true;
        return;
    }
    for (uint32_t i = 0; i < out->link_count; i++) out->by_target[i] = i;
    qsort_r(out->by_target, out->link_count, sizeof *out->by_target, by_target, out->links);
}

uint32_t pairs_first_link(const pairs *p, uint32_t source) {
    uint32_t low = 0, high = p->link_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (p->links[middle].source < source)
            low = middle + 1;
        else
            high = middle;
    }
    return low < p->link_count && p->links[low].source == source ? low : p->link_count;
}

uint32_t pairs_link_to(const pairs *p, uint32_t target) {
    uint32_t low = 0, high = p->link_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (p->links[p->by_target[middle]].target < target)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == p->link_count || p->links[p->by_target[low]].target != target) return PAIRS_NONE;
    return p->by_target[low];
}

// ---- All ----------------------------------------------------------------------------------------

static int by_image_and_end(const void *a, const void *b) {
    const pairs_orphan *x = a, *y = b;
    if (x->image != y->image) return x->image < y->image ? -1 : 1;
    if (x->end->at_ns != y->end->at_ns) return x->end->at_ns > y->end->at_ns ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

static void look_at(pairing *p, const merge_item *x) {
    trace_phase phase = trace_kinds[x->record->kind].phase;
    if (phase == TRACE_BEGIN) begin(p, x);
    if (phase == TRACE_END) end(p, x);
    switch (x->record->kind) {
    case TRACE_COLLECTIVE_ENTERED: enter(p, x); break;
    case TRACE_COLLECTIVE_ENDED: leave(p, x); break;
    case TRACE_PASS_BEGUN: begin_pass(p, x); break;
    case TRACE_PASS_ENDED: end_pass(p, x); break;
    case TRACE_PART_BEGUN: begin_part(p, x); break;
    default: break;
    }
}

bool pairs_find(const image *images, int count, pairs *out) {
    uint64_t records = merge_count(images, count);
    pairing p = { .images = images, .out = out };
    merge m;
    merge_item x;
    *out = (pairs){ 0 };
    if (records >= PAIRS_NONE) return false;
    out->partners = malloc((size_t)(records + 1) * sizeof *out->partners);
    bool ok = merge_open(images, count, &m) && out->partners;
    while (ok && !p.failed && merge_next(&m, &x)) look_at(&p, &x);
    merge_close(&m);
    if (ok) {
        abandon(&p);
        link_collectives(&p);
    }
    sort_links(&p);
    out->orphans = p.orphans.items;
    out->orphan_count = p.orphans.count;
    if (out->orphan_count)
        qsort(out->orphans, out->orphan_count, sizeof *out->orphans, by_image_and_end);
    ok = ok && !p.failed && !p.open.failed && !p.collectives.failed && !p.passes.failed;
    table_fini(&p.open);
    table_fini(&p.collectives);
    table_fini(&p.passes);
    free(p.entries.items);
    free(p.finishes.items);
    if (!ok) pairs_free(out);
    return ok;
}

void pairs_free(pairs *p) {
    free(p->partners);
    free(p->links);
    free(p->by_target);
    free(p->orphans);
    *p = (pairs){ 0 };
}
