// The plan of a pass: which nodes run, and which parts of which gradients will arrive.
#include "autograd/pass.h"

#include "base/mem.h"

#include <string.h>

static bool fail_memory(pass *p) {
    return scope_fail_of(p->scope, "backward", GW_NO_MEMORY, "no memory for the plan of the pass");
}

// Reserves memory for |more| items in an array that begins as |small|, inside the pass.
static bool reserve(void *items, const void *small, uint32_t count, uint32_t *capacity,
                    uint32_t more, size_t size) {
    void **at = items;
    if (count + more <= *capacity) return true;
    uint32_t wanted = *capacity * 2 > count + more ? *capacity * 2 : count + more;
    void *bigger = mem_realloc(*at == small ? NULL : *at, wanted * size);
    if (!bigger) return false;
    if (*at == small) memcpy(bigger, small, count * size);
    *at = bigger;
    *capacity = wanted;
    return true;
}

static bool add_slots(pass *p, uint32_t target, uint32_t count) {
    if (!reserve(&p->slots, p->small_slots, p->slot_count, &p->slot_capacity, count, sizeof(slot)))
        return false;
    for (uint32_t i = 0; i < count; i++) p->slots[p->slot_count++] = (slot){ .target = target };
    return true;
}

// The number of the target |key|, which is added if it is new. INDEX_NONE without memory.
static uint32_t number_of(pass *p, void *key, bool is_leaf) {
    uint32_t number = index_find(&p->numbers, key);
    if (number != INDEX_NONE) return number;

    number = p->target_count;
    uint32_t first_slot = p->slot_count;
    if (!index_reserve(&p->numbers, 1) ||
        !reserve(&p->targets, p->small_targets, number, &p->target_capacity, 1, sizeof(target)) ||
        !add_slots(p, number, is_leaf ? 1 : ((const node *)key)->output_count))
        return INDEX_NONE;
    index_put(&p->numbers, key, number);
    p->targets[p->target_count++] =
        (target){ .key = key, .is_leaf = is_leaf, .needed = true, .first_slot = first_slot };
    return number;
}

// The part of the gradient that arrives along |e|. False without memory.
static bool part_along(pass *p, edge e, part *to) {
    *to = (part){ PART_NONE, 0 };
    if (e.kind == EDGE_NONE) return true;
    uint32_t number = number_of(p, e.to.any, e.kind == EDGE_LEAF);
    if (number == INDEX_NONE) return fail_memory(p);
    to->slot = p->targets[number].first_slot + (e.kind == EDGE_NODE ? e.output : 0);
    return true;
}

part pass_expect(pass *p, edge e) {
    part to = { PART_NONE, 0 };
    if (gw_ok(p->scope) && part_along(p, e, &to) && to.slot != PART_NONE)
        to.ordinal = p->slots[to.slot].outside++;
    return to;
}

// Visits all targets that can be reached. New ones are added at the end of the list that it walks.
static bool walk(pass *p) {
    for (uint32_t i = 0; i < p->target_count; i++) {
        if (p->targets[i].is_leaf) continue;
        const node *n = p->targets[i].key;
        if (node_is_remote(n)) p->remote = n->class;
        uint32_t first = p->part_count;
        if (!reserve(&p->parts, p->small_parts, first, &p->part_capacity, n->edge_count,
                     sizeof(part)))
            return fail_memory(p);
        p->targets[i].first_part = first;
        p->part_count += n->edge_count;
        for (uint32_t k = 0; k < n->edge_count; k++)
            if (!part_along(p, n->edges[k], &p->parts[first + k])) return false;
    }
    return reserve(&p->ready, p->small_ready, 0, &p->ready_capacity, p->target_count,
                   sizeof(uint32_t)) ||
           fail_memory(p);
}

static uint32_t edge_count_of(const target *t) {
    return t->is_leaf ? 0 : ((const node *)t->key)->edge_count;
}

// The target of a part, or NULL if the part is not needed.
static target *taker_of(const pass *p, part to) {
    target *t = to.slot == PART_NONE ? NULL : &p->targets[p->slots[to.slot].target];
    return t && t->needed ? t : NULL;
}

// Counts the parts from inside.
static void count_missing(pass *p) {
    for (uint32_t i = 0; i < p->target_count; i++) p->targets[i].missing = 0;
    for (uint32_t i = 0; i < p->target_count; i++) {
        const target *t = &p->targets[i];
        for (uint32_t k = 0; t->needed && k < edge_count_of(t); k++) {
            target *taker = taker_of(p, p->parts[t->first_part + k]);
            if (taker) taker->missing++;
        }
    }
}

// Starts with the targets that wait for nothing from inside: everything else is reached from them,
// because a target is met only along an edge, and the graph has no cycle.
static void ready_first(pass *p) {
    count_missing(p);
    p->ready_count = 0;
    for (uint32_t i = p->target_count; i-- > 0;)
        if (p->targets[i].needed && !p->targets[i].missing) p->ready[p->ready_count++] = i;
}

// Counts the arrival of one part of |to|; its target is ready when it was the last.
static void count_arrival(pass *p, part to) {
    uint32_t number = p->slots[to.slot].target;
    if (--p->targets[number].missing == 0) p->ready[p->ready_count++] = number;
}

// A node that leads to nothing here, and sends its gradients to other workers.
static bool is_sender(const target *t) {
    const node *n = t->key;
    return !t->is_leaf && (node_is_remote(n) || (n->class->start && !n->edge_count));
}

// Keeps only the nodes that lead to one of the wanted inputs. Here p->ready is a queue that is never
// emptied, so that it ends up holding all targets, makers of inputs behind those that use them.
static void prune(pass *p) {
    for (int i = 0; i < p->options.input_count; i++) {
        edge e = edge_to(p->options.inputs[i]);
        uint32_t number = index_find(&p->numbers, e.to.any);
        if (number != INDEX_NONE) p->slots[p->targets[number].first_slot + e.output].wanted = true;
    }
    ready_first(p);
    for (uint32_t i = 0; i < p->ready_count; i++) {
        const target *t = &p->targets[p->ready[i]];
        for (uint32_t k = 0; k < edge_count_of(t); k++)
            if (taker_of(p, p->parts[t->first_part + k]))
                count_arrival(p, p->parts[t->first_part + k]);
    }
    for (uint32_t i = p->ready_count; i-- > 0;) {
        target *t = &p->targets[p->ready[i]];
        uint32_t slot_count = t->is_leaf ? 1 : ((const node *)t->key)->output_count;
        // The graphs of other workers may lead back to one of the inputs.
        t->needed = is_sender(t);
        for (uint32_t k = 0; k < slot_count; k++) t->needed |= p->slots[t->first_slot + k].wanted;
        for (uint32_t k = 0; k < edge_count_of(t); k++)
            t->needed |= taker_of(p, p->parts[t->first_part + k]) != NULL;
    }
}

static bool fail_spent(pass *p, const node *n) {
    return scope_fail_of(
        p->scope, "backward", GW_WRONG_STATE,
        "a backward pass has already used this graph, and gw.%s has released the values "
        "that it saved: set .retain_graph in the first pass",
        n->class->name(n));
}

// Gives each part its ordinal, in the order in which nodes run when all parts from outside
// are first. So in a pass that stays in one process every part arrives in its order.
static bool number_parts(pass *p) {
    for (uint32_t i = 0; i < p->slot_count; i++) p->slots[i].count = p->slots[i].outside;
    ready_first(p);
    while (p->ready_count) {
        target *t = &p->targets[p->ready[--p->ready_count]];
        t->runs = is_sender(t);
        for (uint32_t k = 0; k < edge_count_of(t); k++) {
            part *to = &p->parts[t->first_part + k];
            if (!taker_of(p, *to)) {
                to->slot = PART_NONE;
                continue;
            }
            t->runs = true;
            to->ordinal = p->slots[to->slot].count++;
            count_arrival(p, *to);
        }
        if (!t->runs) continue;
        node *n = t->key;
        if (n->spent) return fail_spent(p, n);
        if (n->class->start) n->planned = true;
    }
    return true;
}

bool pass_plan(pass *p) {
    if (!gw_ok(p->scope) || !walk(p)) return false;
    if (p->options.inputs) prune(p);
    if (!number_parts(p)) return false;
    for (uint32_t i = 0; i < p->slot_count; i++)
        p->targets[p->slots[i].target].missing += p->slots[i].count;
    return gates_find(p);
}

uint64_t pass_leaf_bytes(const pass *p) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < p->target_count; i++) {
        const target *t = &p->targets[i];
        const gw_tensor *leaf = t->is_leaf && t->needed ? t->key : NULL;
        if (leaf) bytes += (uint64_t)leaf->numel * gw_dtype_size((gw_dtype)leaf->dtype);
    }
    return bytes;
}
