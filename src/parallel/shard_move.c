// The state of a sharded optimizer on its way to new owners. Each member says what it has, so that all
// know alike who gives what to whom; the numbers go around once.
#include "parallel/shard.h"

#include "base/mem.h"
#include "base/scope.h"
#include "tensor/tensor.h"
#include <gradwire/ops.h>

#include <string.h>

// ---- What a member has --------------------------------------------------------------------------

void held_forget(held_states *all) {
    for (int i = 0; i < all->count; i++)
        for (int k = 0; k < OPTIM_STATES_MAX; k++) block_release(all->items[i].state[k]);
    mem_free(all->items);
    *all = (held_states){ 0 };
}

static void add(held_states *all, const held_state *from) {
    held_state *to = &all->items[all->count++];
    *to = *from;
    for (int k = 0; k < OPTIM_STATES_MAX; k++)
        if (to->state[k]) block_retain(to->state[k]);
}

bool held_collect(gw_scope *s, const gw_optimizer *o, held_states *out) {
    const shard *x = shard_of(o);
    *out = (held_states){ 0 };
    out->items = mem_calloc((size_t)(x->piece_count + x->held.count + 1) * sizeof *out->items);
    if (!out->items) {
        scope_fail(s, GW_NO_MEMORY, "gw_optimizer_reform: no memory");
        return false;
    }
    for (int i = 0, k = 0; i < x->piece_count; i++) {
        const piece *at = &x->pieces[i];
        if (at->owner != gw_group_rank(x->group)) continue;
        const parameter *p = x->own ? &x->own->parameters[k++] : &o->parameters[at->parameter];
        held_state own = { at->parameter, at->first, at->count, p->step_count, { NULL } };
        memcpy(own.state, p->state, sizeof own.state);
        add(out, &own);
    }
    for (int i = 0; i < x->held.count && x->held.at_step == o->step_count; i++)
        add(out, &x->held.items[i]);
    return true;
}

// ---- What all of them have ----------------------------------------------------------------------

enum { COLUMNS = 6 };

// One that some member has.
typedef struct entry {
    int member, place;  // of its rows
    bool is_saved;
    int parameter;
    int64_t first, count, steps;
    unsigned states;  // which of them, as bits
    int next;         // of the same parameter; -1
} entry;

typedef struct directory {
    entry *entries;
    int count;
    int *heads;  // by parameter
} directory;

static unsigned states_of(block *const *state) {
    unsigned states = 0;
    for (int k = 0; k < OPTIM_STATES_MAX; k++) states |= (unsigned)(state[k] != NULL) << k;
    return states;
}

static int count_of(unsigned states) {
    int count = 0;
    for (; states; states &= states - 1) count++;
    return count;
}

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
            scope_fail(s, GW_MISMATCH, "gw_optimizer_reform: %s has state of other parameters",
                       gw_group_worker(s, g, member).name);
            return;
        }
        int p = (int)at[0];
        d->entries[d->count] = (entry){ member, (int)i, at[5] != 0,      p,          at[1],
                                        at[2],  at[3],  (unsigned)at[4], d->heads[p] };
        d->heads[p] = d->count++;
    }
}

static bool gather(gw_scope *s, const gw_optimizer *o, gw_group *g, gw_tensor *own,
                   directory *out) {
    gw_list *all = gw_all_gather_list(s, g, own);
    int64_t count = 0;
    for (int m = 0; gw_ok(s) && m < gw_list_count(all); m++) {
        const gw_tensor *rows = gw_tensor_of(s, gw_list_get(s, all, m));
        if (gw_ok(s) && rows->dtype != GW_I64)
            scope_fail(s, GW_MISMATCH, "gw_optimizer_reform: %s does something else",
                       gw_group_worker(s, g, m).name);
        if (gw_ok(s)) count += rows->numel / COLUMNS;
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

// ---- Who gives what -----------------------------------------------------------------------------

// Numbers of a piece that one member gives to its owner.
typedef struct segment {
    int piece, entry;  // -1: nobody has them
    int64_t first, count;
} segment;

typedef struct segments {
    segment *items;
    int count, room;
} segments;

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

// Who has number |at|: best its new owner itself, last who has it from a map.
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

static bool plan(gw_scope *s, const shard *next, const directory *d, segments *out) {
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

static void count_all(const gw_optimizer *o, const shard *next, const directory *d,
                      const segments *all, gw_optimizer_reformed *out) {
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

// ---- Moving -------------------------------------------------------------------------------------

typedef struct move {
    const gw_optimizer *o;
    const shard *next;
    gw_group *group;
    int self;
    const held_states *own;
    const loaded *saved;
    directory directory;
    segments segments;
    held_states *fresh;
    int *fresh_of;  // by piece: which of them; -1
} move;

static const entry *entry_of(const move *m, const segment *x) {
    return x->entry < 0 ? NULL : &m->directory.entries[x->entry];
}

static gw_dtype dtype_of(const move *m, const segment *x) {
    return (gw_dtype)m->o->parameters[m->next->pieces[x->piece].parameter].x->dtype;
}

static int owner_of(const move *m, const segment *x) {
    return m->next->pieces[x->piece].owner;
}

// Where this member has the numbers of its entry |e|.
static block *own_block(const move *m, const entry *e, int k) {
    return e->is_saved ? m->saved->parameters[e->parameter].state[k]
                       : m->own->items[e->place].state[k];
}

static void write_to_fresh(const move *m, const segment *x, int k, const block *from,
                           size_t from_offset) {
    size_t size = gw_dtype_size(dtype_of(m, x));
    int64_t at = x->first - m->next->pieces[x->piece].first;
    block_copy(m->fresh->items[m->fresh_of[x->piece]].state[k], (size_t)at * size, from,
               from_offset, (size_t)x->count * size);
}

// Of a parameter whose state some member has a part of.
typedef struct known {
    int64_t steps;
    unsigned states;
} known;

static known *find_known(gw_scope *s, const move *m) {
    known *all = gw_alloc(s, (size_t)m->o->parameter_count * sizeof *all);
    for (int i = 0; all && i < m->segments.count; i++) {
        const segment *x = &m->segments.items[i];
        const entry *e = entry_of(m, x);
        known *of = &all[m->next->pieces[x->piece].parameter];
        if (e) of->states |= e->states;
        if (e && e->steps > of->steps) of->steps = e->steps;
    }
    return all;
}

// What this member has of the whole piece; NULL: not all of it, or in a map.
static const entry *find_whole(const move *m, int from, int end, const held_state *of) {
    const entry *e = end - from == 1 ? entry_of(m, &m->segments.items[from]) : NULL;
    bool is =
        e && e->member == m->self && !e->is_saved && e->first == of->first && e->count == of->count;
    return is ? e : NULL;
}

static block *open_state(const move *m, const held_state *of, int k) {
    const parameter *p = &m->o->parameters[of->parameter];
    gw_dtype dtype = (gw_dtype)p->x->dtype;
    block *b = block_take_on(p->x->device, (size_t)of->count * gw_dtype_size(dtype));
    double start = m->o->rule->start ? m->o->rule->start(&m->o->groups[p->group], k) : 0;
    if (b) block_fill(b, dtype, of->count, gw_value_of(start));
    return b;
}

// The piece of segments from |from| up to |end|: what this member has of it, in memory for the rest,
// where states are what they begin with.
static bool open_piece(const move *m, int from, int end, const known *known, held_state *out) {
    const entry *whole = find_whole(m, from, end, out);
    out->steps = known->steps;
    for (int k = 0; k < OPTIM_STATES_MAX; k++) {
        if (!(known->states >> k & 1)) continue;
        out->state[k] = whole && whole->states >> k & 1 ? block_retain(own_block(m, whole, k))
                                                        : open_state(m, out, k);
        if (!out->state[k]) return false;
    }
    for (int i = from; i < end && !whole; i++) {
        const segment *x = &m->segments.items[i];
        const entry *e = entry_of(m, x);
        if (!e || e->member != m->self) continue;
        size_t offset = (size_t)(x->first - e->first) * gw_dtype_size(dtype_of(m, x));
        for (int k = 0; k < OPTIM_STATES_MAX; k++)
            if (e->states >> k & 1) write_to_fresh(m, x, k, own_block(m, e, k), offset);
    }
    return true;
}

static bool open_pieces(gw_scope *s, move *m) {
    size_t count = (size_t)m->next->piece_count + 1;
    m->fresh_of = gw_alloc(s, count * sizeof *m->fresh_of);
    m->fresh->items = mem_calloc(count * sizeof *m->fresh->items);
    const known *all = find_known(s, m);
    bool ok = m->fresh_of && m->fresh->items && all;
    for (int i = 0, at = 0; ok && i < m->next->piece_count; i++) {
        const piece *p = &m->next->pieces[i];
        int from = at;
        while (at < m->segments.count && m->segments.items[at].piece == i) at++;
        if (p->owner != m->self) continue;
        m->fresh_of[i] = m->fresh->count++;
        held_state *out = &m->fresh->items[m->fresh_of[i]];
        *out = (held_state){ .parameter = p->parameter, .first = p->first, .count = p->count };
        ok = open_piece(m, from, at, &all[p->parameter], out);
    }
    if (!ok) scope_fail(s, GW_NO_MEMORY, "gw_optimizer_reform: no memory for the state");
    return ok;
}

static bool travels(const move *m, const segment *x, gw_dtype dtype) {
    const entry *e = entry_of(m, x);
    return e && e->states && e->member != owner_of(m, x) && dtype_of(m, x) == dtype;
}

// What this member gives, for one owner after the other.
static gw_tensor *pack(gw_scope *s, const move *m, gw_dtype dtype, int64_t *sizes) {
    int64_t total = 0, n = gw_group_size(m->group);
    size_t at = 0, size = gw_dtype_size(dtype);
    for (int i = 0; i < m->segments.count; i++) {
        const segment *x = &m->segments.items[i];
        const entry *e = entry_of(m, x);
        if (!travels(m, x, dtype) || e->member != m->self) continue;
        sizes[owner_of(m, x)] += x->count * count_of(e->states);
        total += x->count * count_of(e->states);
    }
    gw_tensor *out = scope_own(s, tensor_new(s, dtype, 1, &total));
    for (int to = 0; out && to < n; to++)
        for (int i = 0; sizes[to] && i < m->segments.count; i++) {
            const segment *x = &m->segments.items[i];
            const entry *e = entry_of(m, x);
            if (!travels(m, x, dtype) || e->member != m->self || owner_of(m, x) != to) continue;
            for (int k = 0; k < OPTIM_STATES_MAX; k++) {
                if (!(e->states >> k & 1)) continue;
                block_copy(out->storage->block, at, own_block(m, e, k),
                           (size_t)(x->first - e->first) * size, (size_t)x->count * size);
                at += (size_t)x->count * size;
            }
        }
    return out ? out : tensor_poison_of(s);
}

static void unpack(gw_scope *s, const move *m, gw_dtype dtype, const gw_tensor *came) {
    size_t size = gw_dtype_size(dtype), at = tensor_offset(came);
    size_t end = at + tensor_size(came);
    for (int from = 0; from < gw_group_size(m->group); from++)
        for (int i = 0; i < m->segments.count; i++) {
            const segment *x = &m->segments.items[i];
            const entry *e = entry_of(m, x);
            if (!travels(m, x, dtype) || e->member != from || owner_of(m, x) != m->self) continue;
            for (int k = 0; k < OPTIM_STATES_MAX; k++) {
                if (!(e->states >> k & 1)) continue;
                if (end - at < (size_t)x->count * size) goto mismatch;
                write_to_fresh(m, x, k, came->storage->block, at);
                at += (size_t)x->count * size;
            }
        }
    if (at == end) return;
mismatch:
    scope_fail(s, GW_MISMATCH, "gw_optimizer_reform: what came is not what was to come");
}

static void exchange(gw_scope *s, const move *m, gw_dtype dtype) {
    bool any = false;
    for (int i = 0; i < m->segments.count && !any; i++)
        any = travels(m, &m->segments.items[i], dtype);
    if (!any) return;
    gw_scope *t = gw_scope_open(s);
    gw_no_grad(t);
    int64_t *sizes = gw_alloc(t, (size_t)gw_group_size(m->group) * sizeof *sizes);
    gw_tensor *out = sizes ? pack(t, m, dtype, sizes) : tensor_poison_of(t);
    gw_tensor *came = gw_all_to_all(t, m->group, out, .sizes = sizes);
    if (gw_ok(t)) unpack(t, m, dtype, came);
    gw_scope_close_up(t);
}

bool held_move(gw_scope *s, const gw_optimizer *o, const shard *next, gw_group *g,
               const held_states *own, const loaded *saved, held_states *out,
               gw_optimizer_reformed *counts) {
    move m = { .o = o, .next = next, .group = g, .own = own, .saved = saved, .fresh = out };
    gw_tensor *rows = gw_ok(s) ? rows_of(s, o, own, saved) : tensor_poison_of(s);
    if (!gather(s, o, g, rows, &m.directory) || !plan(s, next, &m.directory, &m.segments))
        return false;
    m.self = gw_group_rank(g);
    count_all(o, next, &m.directory, &m.segments, counts);
    if (open_pieces(s, &m))
        for (int dtype = 0; dtype < GW_DTYPE_COUNT; dtype++) exchange(s, &m, (gw_dtype)dtype);
    return gw_ok(s);
}
