#include "timeline/order.h"

#include <stdlib.h>
#include <string.h>

#include "timeline/pairs.h"
#include "timeline/table.h"
#include "trace/kinds.h"

// What is known of one call: an image and a time for each of its records.
enum { MADE, BEGUN, ENDED, REPLIED, MOMENTS };

typedef struct moment {
    int64_t at_ns;
    int image;  // -1: none yet
} moment;

typedef struct call {
    uint64_t id;
    moment moments[MOMENTS];
    bool is_twice;  // its id has been used again
} call;

// A collective on one host.
typedef struct share {
    uint64_t id;
    int job, host;
    bool has_entered, has_ended;
    bool is_twice;  // a member has entered twice: the id has been used again
    int member;     // that was the last to be noted
    moment last_entry, first_end;
    uint32_t next;  // of the same collective; 0: none, else an index + 1
} share;

// A pass of one initiator.
typedef struct pass {
    uint64_t id;
    moment begun;
    bool is_twice;
} pass;

typedef struct vector {
    void *items;
    uint32_t count;
} vector;

typedef struct ordering {
    const image *images;
    int count;
    const int *hosts;
    int *jobs;  // by image: workers of the same job and attempt have the same
    table calls_by_id, shares_by_id, collectives_by_id, passes_by_id, ranks;
    vector calls, shares, passes;
    void (*visit)(void *user, const order_pair *p);
    void *user;
    bool failed;
} ordering;

// Room for one more at powers of two.
static void *append(ordering *o, vector *v, size_t size) {
    if ((v->count & (v->count - 1)) == 0) {
        void *larger = realloc(v->items, (v->count ? 2 * (size_t)v->count : 1) * size);
        if (!larger) {
            o->failed = true;
            return NULL;
        }
        v->items = larger;
    }
    return (char *)v->items + size * v->count++;
}

// The item of (a, b), which is new if |*out_is_new|.
static void *find(ordering *o, table *t, vector *v, size_t size, uint64_t a, uint64_t b,
                  bool *out_is_new) {
    uint32_t *index = table_put(t, a, b, v->count);
    *out_is_new = index && *index == v->count;
    if (!index) o->failed = true;
    if (!index) return NULL;
    return *out_is_new ? append(o, v, size) : (char *)v->items + size * *index;
}

// ---- Workers ------------------------------------------------------------------------------------

static bool is_same_job(const image *x, const image *y) {
    return x->attempt == y->attempt && strcmp(x->job, y->job) == 0;
}

// The host of that rank; -1 if it is not known, or there are two of them.
static int host_of_rank(const ordering *o, int job, uint64_t rank) {
    const uint32_t *image = table_find(&o->ranks, (uint64_t)(uint32_t)job, rank);
    return image && *image != UINT32_MAX ? o->hosts[*image] : -1;
}

static bool find_workers(ordering *o) {
    o->jobs = calloc((size_t)o->count + 1, sizeof *o->jobs);
    for (int i = 0; o->jobs && i < o->count; i++) {
        const image *x = &o->images[i];
        while (!is_same_job(&o->images[o->jobs[i]], x)) o->jobs[i]++;
        for (int k = 0; k < x->agent_count; k++) {
            uint64_t rank = (uint64_t)(int64_t)x->agents[k].rank;
            uint32_t *known =
                table_put(&o->ranks, (uint64_t)(uint32_t)o->jobs[i], rank, (uint32_t)i);
            if (known && *known != (uint32_t)i) *known = UINT32_MAX;
            o->failed |= !known;
        }
    }
    return o->jobs && !o->failed;
}

// Whether the worker of the record is the only one of its rank.
static bool is_usable(const ordering *o, int image_index, const image_record *r) {
    int rank = pairs_rank(&o->images[image_index], r);
    return host_of_rank(o, o->jobs[image_index], (uint64_t)(int64_t)rank) == o->hosts[image_index];
}

// ---- Records ------------------------------------------------------------------------------------

static void note(moment *m, bool *is_twice, int image, int64_t at_ns) {
    if (m->image >= 0) *is_twice = true;
    *m = (moment){ at_ns, image };
}

// The begin of a call or of its body, whose |value| is the rank of the other side. Calls within one host bound nothing.
static void note_begin(ordering *o, int image, const image_record *r, int which) {
    bool is_new;
    int job = o->jobs[image];
    if (host_of_rank(o, job, r->value) == o->hosts[image]) return;
    call *c =
        find(o, &o->calls_by_id, &o->calls, sizeof *c, (uint64_t)(uint32_t)job, r->id, &is_new);
    if (!c) return;
    if (is_new) *c = (call){ .id = r->id };
    for (int i = 0; is_new && i < MOMENTS; i++) c->moments[i].image = -1;
    note(&c->moments[which], &c->is_twice, image, r->at_ns);
}

static void note_call_end(ordering *o, int image, const image_record *r, int which) {
    const uint32_t *index = table_find(&o->calls_by_id, (uint64_t)(uint32_t)o->jobs[image], r->id);
    call *c = index ? (call *)o->calls.items + *index : NULL;
    if (c) note(&c->moments[which], &c->is_twice, image, r->at_ns);
}

// Those that end only with the inputs of all members.
static bool needs_all(const char *operation) {
    static const char *const names[] = { "all_reduce", "all_gather", "reduce_scatter", "barrier" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(operation, names[i]) == 0) return true;
    return false;
}

static share *find_share(ordering *o, int image, uint64_t id) {
    bool is_new;
    int job = o->jobs[image], host = o->hosts[image];
    uint64_t a = (uint64_t)(uint32_t)job << 32 | (uint32_t)host;
    share *x = find(o, &o->shares_by_id, &o->shares, sizeof *x, a, id, &is_new);
    if (!x || !is_new) return x;
    *x = (share){ .id = id, .job = job, .host = host };
    uint32_t index = o->shares.count;  // + 1
    uint32_t *first = table_put(&o->collectives_by_id, (uint64_t)(uint32_t)job, id, 0);
    if (!first) o->failed = true;
    if (!first) return NULL;
    x->next = *first;
    *first = index;
    return x;
}

static void note_entry(ordering *o, int image, const image_record *r) {
    const char *operation = image_name(&o->images[image], r);
    // Without an input of its own a member may not be waited for.
    if (!needs_all(operation) || (!r->value && strcmp(operation, "barrier") != 0)) return;
    share *x = find_share(o, image, r->id);
    int member = image * (IMAGE_NO_AGENT + 1) + r->agent;
    if (!x) return;
    x->is_twice |= x->has_entered && x->member == member;
    x->member = member;
    if (x->has_entered && x->last_entry.at_ns >= r->at_ns) return;
    x->has_entered = true;
    x->last_entry = (moment){ r->at_ns, image };
}

// Whether this was one that needs all inputs is known from its entries.
static void note_end(ordering *o, int image, const image_record *r) {
    share *x = r->value == 0 ? find_share(o, image, r->id) : NULL;
    if (!x || (x->has_ended && x->first_end.at_ns <= r->at_ns)) return;
    x->has_ended = true;
    x->first_end = (moment){ r->at_ns, image };
}

static void note_pass(ordering *o, int image, const image_record *r) {
    bool is_new;
    uint64_t rank = (uint64_t)(int64_t)pairs_rank(&o->images[image], r);
    uint64_t a = (uint64_t)(uint32_t)o->jobs[image] << 32 | (uint32_t)rank;
    pass *p = find(o, &o->passes_by_id, &o->passes, sizeof *p, a, r->id, &is_new);
    if (!p) return;
    if (is_new) *p = (pass){ .id = r->id, .begun.image = -1 };
    note(&p->begun, &p->is_twice, image, r->at_ns);
}

static bool is_of_order(uint8_t kind) {
    return kind == TRACE_CALL_MADE || kind == TRACE_BODY_BEGUN || kind == TRACE_BODY_ENDED ||
           kind == TRACE_CALL_ENDED || kind == TRACE_COLLECTIVE_ENTERED ||
           kind == TRACE_COLLECTIVE_ENDED || kind == TRACE_PASS_BEGUN;
}

static void note_record(ordering *o, int image, const image_record *r) {
    if (!is_of_order(r->kind) || !is_usable(o, image, r)) return;
    switch (r->kind) {
    case TRACE_CALL_MADE: note_begin(o, image, r, MADE); break;
    case TRACE_BODY_BEGUN: note_begin(o, image, r, BEGUN); break;
    case TRACE_BODY_ENDED: note_call_end(o, image, r, ENDED); break;
    case TRACE_CALL_ENDED:
        if (r->value == 0) note_call_end(o, image, r, REPLIED);
        break;
    case TRACE_COLLECTIVE_ENTERED: note_entry(o, image, r); break;
    case TRACE_COLLECTIVE_ENDED: note_end(o, image, r); break;
    case TRACE_PASS_BEGUN: note_pass(o, image, r); break;
    default: break;
    }
}

// ---- Pairs --------------------------------------------------------------------------------------

static void visit(const ordering *o, moment before, moment after, uint8_t kind, uint64_t id) {
    if (before.image < 0 || after.image < 0 || o->hosts[before.image] == o->hosts[after.image])
        return;
    o->visit(o->user,
             &(order_pair){ before.image, after.image, before.at_ns, after.at_ns, kind, id });
}

static void visit_calls(const ordering *o) {
    const call *c = o->calls.items;
    for (uint32_t i = 0; i < o->calls.count; i++) {
        const moment *m = c[i].moments;
        if (c[i].is_twice) continue;
        visit(o, m[MADE], m[BEGUN], TRACE_CALL_MADE, c[i].id);
        visit(o, m[ENDED], m[REPLIED], TRACE_BODY_ENDED, c[i].id);
    }
}

static void visit_collectives(const ordering *o) {
    const share *all = o->shares.items;
    for (uint32_t i = 0; i < o->shares.count; i++) {
        bool is_first = all[i].has_entered && !all[i].is_twice;
        const uint32_t *first =
            table_find(&o->collectives_by_id, (uint64_t)(uint32_t)all[i].job, all[i].id);
        for (uint32_t k = first && is_first ? *first : 0; k; k = all[k - 1].next)
            if (all[k - 1].has_ended && !all[k - 1].is_twice)
                visit(o, all[i].last_entry, all[k - 1].first_end, TRACE_COLLECTIVE_ENTERED,
                      all[i].id);
    }
}

// The parts are looked at again, as they may be in an earlier image than the pass.
static void visit_part(const ordering *o, int image, const image_record *r) {
    uint64_t a = (uint64_t)(uint32_t)o->jobs[image] << 32 | (uint32_t)r->value;
    const uint32_t *index = table_find(&o->passes_by_id, a, r->id);
    const pass *p = index ? (const pass *)o->passes.items + *index : NULL;
    if (p && !p->is_twice) visit(o, p->begun, (moment){ r->at_ns, image }, TRACE_PASS_BEGUN, r->id);
}

static void for_each_record(ordering *o, bool are_parts) {
    for (int i = 0; i < o->count; i++)
        for (int k = 0; k < o->images[i].thread_count; k++) {
            const image_thread *t = &o->images[i].threads[k];
            for (uint32_t n = 0; !o->failed && n < t->record_count; n++) {
                const image_record *r = &t->records[n];
                if (!are_parts)
                    note_record(o, i, r);
                else if (r->kind == TRACE_PART_BEGUN && is_usable(o, i, r))
                    visit_part(o, i, r);
            }
        }
}

bool order_visit(const image *images, int count, const int *hosts,
                 void (*visit_pair)(void *user, const order_pair *p), void *user) {
    ordering o = {
        .images = images, .count = count, .hosts = hosts, .visit = visit_pair, .user = user
    };
    bool ok = find_workers(&o);
    if (ok) for_each_record(&o, false);
    ok = ok && !o.failed;
    if (ok) {
        visit_calls(&o);
        visit_collectives(&o);
        for_each_record(&o, true);
    }
    free(o.jobs);
    table_fini(&o.calls_by_id);
    table_fini(&o.shares_by_id);
    table_fini(&o.collectives_by_id);
    table_fini(&o.passes_by_id);
    table_fini(&o.ranks);
    free(o.calls.items);
    free(o.shares.items);
    free(o.passes.items);
    return ok;
}
