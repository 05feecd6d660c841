// The state of a sharded optimizer on its way to new owners: the numbers go around once.
#include "parallel/shard/shard_held.h"

#include "base/mem.h"
#include "base/scope.h"
#include "tensor/tensor.h"
#include <gradwire/ops.h>

#undef GW_ORIGIN
#define GW_ORIGIN "gw_optimizer_reform"  // of the calls in this file, in errors

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
                       : m->own->items[e->row].state[k];
}

static void write_to_fresh(const move *m, const segment *x, int k, const block *from,
                           size_t from_offset) {
    size_t size = gw_dtype_size(dtype_of(m, x));
    int64_t at = x->first - m->next->pieces[x->piece].first;
    block_copy(m->fresh->items[m->fresh_of[x->piece]].state[k], (size_t)at * size, from,
               from_offset, (size_t)x->count * size);
}

// ---- The state that a member gets -------------------------------------------------------------------------

// Of a parameter whose state some member has a part of.
typedef struct state_layout {
    int64_t steps;
    unsigned states;
} state_layout;

static state_layout *find_settings(gw_scope *s, const move *m) {
    state_layout *all = gw_alloc(s, (size_t)m->o->parameter_count * sizeof *all);
    for (int i = 0; all && i < m->segments.count; i++) {
        const segment *x = &m->segments.items[i];
        const entry *e = entry_of(m, x);
        state_layout *of = &all[m->next->pieces[x->piece].parameter];
        if (e) of->states |= e->states;
        if (e && e->steps > of->steps) of->steps = e->steps;
    }
    return all;
}

// The entry of this member for the whole piece; NULL: it has only a part of it, or has it in a map.
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

// The piece of segments from |from| up to |end|: the state that this member has of it, and memory for the rest, filled
// with initial values.
static bool open_piece(const move *m, int from, int end, const state_layout *state_layout,
                       held_state *out) {
    const entry *whole = find_whole(m, from, end, out);
    out->steps = state_layout->steps;
    for (int k = 0; k < OPTIM_STATES_MAX; k++) {
        if (!(state_layout->states >> k & 1)) continue;
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
    const state_layout *all = find_settings(s, m);
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

// ---- Messages -------------------------------------------------------------------------------

static int count_of(unsigned states) {
    int count = 0;
    for (; states; states &= states - 1) count++;
    return count;
}

static bool travels(const move *m, const segment *x, gw_dtype dtype) {
    const entry *e = entry_of(m, x);
    return e && e->states && e->member != owner_of(m, x) && dtype_of(m, x) == dtype;
}

// The state that this member sends, for one owner after the other.
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

static void unpack(gw_scope *s, const move *m, gw_dtype dtype, const gw_tensor *received) {
    size_t size = gw_dtype_size(dtype), at = tensor_offset(received);
    size_t end = at + tensor_size(received);
    for (int from = 0; from < gw_group_size(m->group); from++)
        for (int i = 0; i < m->segments.count; i++) {
            const segment *x = &m->segments.items[i];
            const entry *e = entry_of(m, x);
            if (!travels(m, x, dtype) || e->member != from || owner_of(m, x) != m->self) continue;
            for (int k = 0; k < OPTIM_STATES_MAX; k++) {
                if (!(e->states >> k & 1)) continue;
                if (end - at < (size_t)x->count * size) goto mismatch;
                write_to_fresh(m, x, k, received->storage->block, at);
                at += (size_t)x->count * size;
            }
        }
    if (at == end) return;
mismatch:
    scope_fail(s, GW_MISMATCH, "gw_optimizer_reform: the received state does not match the plan");
}

static void exchange(gw_scope *s, const move *m, gw_dtype dtype) {
    bool any = false;
    for (int i = 0; i < m->segments.count && !any; i++)
        any = travels(m, &m->segments.items[i], dtype);
    if (!any) return;
    gw_scope *t = scope_open_unrecorded(s);
    int64_t *sizes = gw_alloc(t, (size_t)gw_group_size(m->group) * sizeof *sizes);
    gw_tensor *out = sizes ? pack(t, m, dtype, sizes) : tensor_poison_of(t);
    gw_tensor *received = gw_all_to_all(t, m->group, out, .sizes = sizes);
    if (gw_ok(t)) unpack(t, m, dtype, received);
    gw_scope_close_up(t);
}

bool held_move(gw_scope *s, const gw_optimizer *o, const shard *next, gw_group *g,
               const held_states *own, const loaded *saved, held_states *out,
               gw_optimizer_reformed *counts) {
    move m = { .o = o, .next = next, .group = g, .own = own, .saved = saved, .fresh = out };
    if (!held_gather(s, o, g, own, saved, &m.directory) ||
        !held_plan(s, next, &m.directory, &m.segments))
        return false;
    m.self = gw_group_rank(g);
    held_count(o, next, &m.directory, &m.segments, counts);
    if (open_pieces(s, &m))
        for (int dtype = 0; dtype < GW_DTYPE_COUNT; dtype++) exchange(s, &m, (gw_dtype)dtype);
    return gw_ok(s);
}
