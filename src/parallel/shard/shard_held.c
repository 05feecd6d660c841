// The state of a sharded optimizer on the members, and which member sends what to the new owners. All members plan
// alike, since each has reported its state.
#include "parallel/shard/shard_held.h"

#include "base/mem.h"
#include "base/mutation.h"
#include "tensor/tensor.h"
#include <gradwire/ops.h>

#include <string.h>

#undef GW_ORIGIN
#define GW_ORIGIN "gw_optimizer_reform"  // of the calls in this file, in errors

// ---- The state of a member --------------------------------------------------------------------------

void held_forget(held_states *all) {
    for (int i = 0; i < all->count; i++)
        for (int k = 0; k < OPTIM_STATES_MAX; k++) block_release(all->items[i].state[k]);
    mem_free(all->items);
    *all = (held_states){ 0 };
}

static unsigned states_of(block *const *state) {
    unsigned states = 0;
    for (int k = 0; k < OPTIM_STATES_MAX; k++) states |= (unsigned)(state[k] != NULL) << k;
    return states;
}

// Those of one parameter in a list: |heads| by parameter, |next| by item; -1.
typedef struct chains {
    int *heads, *next;
} chains;

static bool open_chains(gw_scope *t, const gw_optimizer *o, int count, chains *out) {
    out->heads = gw_alloc(t, (size_t)o->parameter_count * sizeof *out->heads);
    out->next = gw_alloc(t, (size_t)count * sizeof *out->next);
    for (int i = 0; gw_ok(t) && i < o->parameter_count; i++) out->heads[i] = -1;
    return gw_ok(t);
}

static void add(held_states *all, chains *c, const held_state *from) {
    int i = all->count++;
    held_state *to = &all->items[i];
    *to = *from;
    for (int k = 0; k < OPTIM_STATES_MAX; k++)
        if (to->state[k]) block_retain(to->state[k]);
    c->next[i] = c->heads[to->parameter];
    c->heads[to->parameter] = i;
}

static bool covers_held(const held_state *a, const held_state *b) {
    return a->first <= b->first && b->first + b->count <= a->first + a->count &&
           a->steps == b->steps && states_of(a->state) == states_of(b->state);
}

// State that another one of |all| covers would be present once more after each re-forming at one step.
static bool is_covered(const held_states *all, const chains *c, const held_state *x) {
    for (int i = c->heads[x->parameter]; i >= 0; i = c->next[i])
        if (covers_held(&all->items[i], x)) return true;
    return false;
}

static void collect(const gw_optimizer *o, chains *c, held_states *out) {
    const shard *x = shard_of(o);
    for (int i = 0, k = 0; i < x->piece_count; i++) {
        const piece *at = &x->pieces[i];
        if (at->owner != gw_group_rank(x->group)) continue;
        const parameter *p = x->own ? &x->own->parameters[k++] : &o->parameters[at->parameter];
        held_state own = { at->parameter, at->first, at->count, p->step_count, { NULL } };
        memcpy(own.state, p->state, sizeof own.state);
        add(out, c, &own);
    }
    bool is_held = x->held.at_step == o->step_count && !has_mutation(MUTATION_GIVEN_DROPPED);
    for (int i = 0; is_held && i < x->held.count; i++)
        if (!is_covered(out, c, &x->held.items[i])) add(out, c, &x->held.items[i]);
}

bool held_collect(gw_scope *s, const gw_optimizer *o, held_states *out) {
    const shard *x = shard_of(o);
    int most = x->piece_count + x->held.count + 1;
    chains c;
    *out = (held_states){ 0 };
    out->items = mem_calloc((size_t)most * sizeof *out->items);
    if (!out->items) scope_fail(s, GW_NO_MEMORY, "gw_optimizer_reform: no memory");
    gw_scope *t = gw_scope_open(s);
    if (open_chains(t, o, most, &c)) collect(o, &c, out);
    gw_scope_close_up(t);
    return gw_ok(s);
}

// ---- The state of all members ----------------------------------------------------------------------

enum { COLUMNS = 6 };

static gw_tensor *rows_of(gw_scope *s, const gw_optimizer *o, const held_states *own,
                          const loaded *saved) {
    int64_t count = own->count + (saved ? o->parameter_count : 0), sizes[] = { count, COLUMNS };
    int64_t *rows = gw_alloc(s, ((size_t)count * COLUMNS + 1) * sizeof *rows), *at = rows;
    for (int i = 0; rows && i < own->count; i++, at += COLUMNS) {
        const held_state *h = &own->items[i];
        int64_t row[] = { h->parameter, h->first, h->count, h->steps, states_of(h->state), false };
        memcpy(at, row, sizeof row);
    }
    for (int i = 0; rows && saved && i < o->parameter_count; i++, at += COLUMNS) {
        const parameter *p = &saved->parameters[i];
        int64_t row[] = {
            i, 0, o->parameters[i].x->numel, p->step_count, states_of(p->state), true
        };
        memcpy(at, row, sizeof row);
    }
    return rows ? gw_from_with(s, GW_I64, rows, (gw_shape){ 2, sizes }) : tensor_poison_of(s);
}

static bool is_possible(const gw_optimizer *o, const int64_t *row) {
    if (row[0] < 0 || row[0] >= o->parameter_count) return false;
    int64_t numel = o->parameters[row[0]].x->numel;
    return row[1] >= 0 && row[2] >= 0 && row[1] <= numel && row[2] <= numel - row[1] &&
           row[3] >= 0 && row[4] >= 0 && row[4] < 1 << OPTIM_STATES_MAX;
}

static void add_rows(gw_scope *s, const gw_optimizer *o, gw_group *g, int member,
                     const gw_tensor *rows, directory *d) {
    const int64_t *all = gw_data(rows);
    for (int64_t i = rows->numel / COLUMNS - 1; gw_ok(s) && i >= 0; i--) {
        const int64_t *at = all + i * COLUMNS;
        if (!is_possible(o, at)) {
            scope_fail(s, GW_MISMATCH, "gw_optimizer_reform: %s has the state of other parameters",
                       gw_group_worker(s, g, member).name);
            return;
        }
        int p = (int)at[0];
        d->entries[d->count] = (entry){ member, (int)i, at[5] != 0,      p,          at[1],
                                        at[2],  at[3],  (unsigned)at[4], d->heads[p] };
        d->heads[p] = d->count++;
    }
}

bool held_gather(gw_scope *s, const gw_optimizer *o, gw_group *g, const held_states *own,
                 const loaded *saved, directory *out) {
    gw_tensor *rows = gw_ok(s) ? rows_of(s, o, own, saved) : tensor_poison_of(s);
    gw_list *all = gw_all_gather_list(s, g, rows);
    int64_t count = 0;
    for (int m = 0; gw_ok(s) && m < gw_list_count(all); m++) {
        const gw_tensor *theirs = gw_tensor_of(s, gw_list_get(s, all, m));
        if (gw_ok(s) && theirs->dtype != GW_I64)
            scope_fail(s, GW_MISMATCH,
                       "gw_optimizer_reform: %s has sent something else than a list of rows",
                       gw_group_worker(s, g, m).name);
        if (gw_ok(s)) count += theirs->numel / COLUMNS;
    }
    *out = (directory){ .entries = gw_alloc(s, (size_t)(count + 1) * sizeof *out->entries),
                        .heads = gw_alloc(s, (size_t)o->parameter_count * sizeof *out->heads) };
    if (!out->entries || !out->heads) return false;
    for (int i = 0; i < o->parameter_count; i++) out->heads[i] = -1;
    // Backwards, so that the lists of parameters are in the order of ranks.
    for (int m = gw_list_count(all) - 1; m >= 0 && gw_ok(s); m--)
        add_rows(s, o, g, m, gw_tensor_of(s, gw_list_get(s, all, m)), out);
    return gw_ok(s);
}

// ---- Senders -----------------------------------------------------------------------------

static bool push(gw_scope *s, segments *all, segment x) {
    if (all->count == all->room) {
        int room = 2 * all->room + 64;
        segment *more = gw_alloc(s, (size_t)room * sizeof *more);
        if (!more) return false;
        if (all->count) memcpy(more, all->items, (size_t)all->count * sizeof *more);
        all->items = more;
        all->room = room;
    }
    all->items[all->count++] = x;
    return true;
}

static bool covers(const entry *e, int64_t at) {
    return e->first <= at && at < e->first + e->count;
}

// The member that sends number |at|: preferably its new owner itself, lastly one that has it from a map.
static int find_entry(const directory *d, const piece *p, int64_t at) {
    int best = -1, best_rank = 3;
    for (int i = d->heads[p->parameter]; i >= 0; i = d->entries[i].next) {
        const entry *e = &d->entries[i];
        int rank = e->is_saved ? 2 : e->member != p->owner;
        if (!covers(e, at) || rank >= best_rank) continue;
        best = i;
        best_rank = rank;
    }
    return best;
}

// Up to where it is so, from |at| on.
static int64_t end_of(const directory *d, const piece *p, int found, int64_t at) {
    const entry *e = found < 0 ? NULL : &d->entries[found];
    int64_t end = p->first + p->count;
    if (e && e->first + e->count < end) end = e->first + e->count;
    for (int i = d->heads[p->parameter]; (!e || e->is_saved) && i >= 0; i = d->entries[i].next)
        if (d->entries[i].first > at && d->entries[i].first < end) end = d->entries[i].first;
    return end;
}

bool held_plan(gw_scope *s, const shard *next, const directory *d, segments *out) {
    *out = (segments){ 0 };
    for (int i = 0; i < next->piece_count; i++) {
        const piece *p = &next->pieces[i];
        for (int64_t at = p->first, end; at < p->first + p->count; at = end) {
            int found = find_entry(d, p, at);
            end = end_of(d, p, found, at);
            if (!push(s, out, (segment){ i, found, at, end - at })) return false;
        }
    }
    return true;
}

void held_count(const gw_optimizer *o, const shard *next, const directory *d, const segments *all,
                gw_optimizer_reformed *out) {
    for (int i = 0; i < all->count; i++) {
        const segment *x = &all->items[i];
        const piece *p = &next->pieces[x->piece];
        const entry *e = x->entry < 0 ? NULL : &d->entries[x->entry];
        if (!rule_states(o->rule, &o->groups[o->parameters[p->parameter].group])) continue;
        if (!e)
            out->lost += x->count;
        else if (e->is_saved)
            out->restored += x->count;
        else if (e->member != p->owner && e->states)
            out->moved += x->count;
    }
}
