// Shared by generators of plans: names, appending steps, and cutting elements into slices.
#include "collective/plan/plan_build.h"

#include "base/mem.h"

#include <assert.h>
#include <string.h>

// ---- Names --------------------------------------------------------------------------------------

const char *operation_name(operation o) {
    static const char *const names[OPERATION_COUNT] = {
        "all_reduce", "reduce",         "broadcast",  "all_gather", "gather",
        "scatter",    "reduce_scatter", "all_to_all", "barrier",
    };
    return o < OPERATION_COUNT ? names[o] : "unknown operation";
}

const char *plan_kind_name(plan_kind kind) {
    static const char *const names[PLAN_KIND_COUNT] = {
        "auto",  "flat",    "direct", "star",    "doubling",     "tree",
        "chain", "halving", "hosts",  "backend", "backend_adds",
    };
    return kind < PLAN_KIND_COUNT ? names[kind] : "unknown plan";
}

bool plan_exists(operation o, plan_kind kind) {
    switch (kind) {
    case PLAN_FLAT: return true;
    case PLAN_DIRECT: return o == OPERATION_ALL_REDUCE || o == OPERATION_REDUCE;
    case PLAN_STAR: return plan_exists(o, PLAN_DIRECT) || o == OPERATION_BARRIER;
    case PLAN_DOUBLING: return o == OPERATION_ALL_REDUCE || o == OPERATION_BARRIER;
    case PLAN_CHAIN:
        return o == OPERATION_BROADCAST || o == OPERATION_GATHER || o == OPERATION_SCATTER;
    case PLAN_TREE: return o == OPERATION_REDUCE || plan_exists(o, PLAN_CHAIN);
    case PLAN_HALVING: return o == OPERATION_ALL_REDUCE;
    case PLAN_HOSTS:
        return o == OPERATION_ALL_REDUCE || o == OPERATION_REDUCE || o == OPERATION_BROADCAST ||
               o == OPERATION_ALL_GATHER || o == OPERATION_REDUCE_SCATTER;
    default: return false;
    }
}

enum { KIND_BITS = 4 };  // the upper ones have the binary logarithm of the count of centers
_Static_assert(PLAN_KIND_COUNT <= 1 << KIND_BITS, "a kind of plan has KIND_BITS bits");

uint8_t plan_pack(plan_choice c) {
    int power = 0;
    while (c.centers >> (power + 1)) power++;
    return (uint8_t)(c.kind | power << KIND_BITS);
}

bool plan_unpack(uint8_t packed, int member_count, plan_choice *out) {
    int power = packed >> KIND_BITS;
    out->kind = (plan_kind)(packed & ((1 << KIND_BITS) - 1));
    out->centers = out->kind == PLAN_STAR ? 1 << power : 0;
    return out->kind > PLAN_AUTO && out->kind < PLAN_KIND_COUNT &&
           (out->kind == PLAN_STAR || !power) && out->centers <= member_count;
}

// ---- Steps --------------------------------------------------------------------------------------

enum { FIRST_ROOM = 12 };  // of the plans for two and three members

// Makes room for |more| entries after |count| of an array whose address is |array|.
static bool make_room(plan_builder *b, void *array, int count, int more, int *room, size_t size) {
    if (b->is_out_of_memory) return false;
    if (count + more <= *room) return true;
    int wanted = *room ? 2 * *room : FIRST_ROOM;
    if (wanted < count + more) wanted = count + more;
    void *old, *grown;
    memcpy(&old, array, sizeof old);
    grown = mem_realloc(old, (size_t)wanted * size);
    if (!grown) {
        b->is_out_of_memory = true;
        return false;
    }
    memcpy(array, &grown, sizeof grown);
    *room = wanted;
    return true;
}

static int put_step(plan_builder *b, step_kind kind, int peer, const int *inputs, int count,
                    plan_value v) {
    plan *p = b->plan;
    if (!make_room(b, &p->steps, p->step_count, 1, &b->step_room, sizeof *p->steps) ||
        !make_room(b, &p->inputs, p->input_count, count, &b->input_room, sizeof *p->inputs))
        return 0;
    p->steps[p->step_count] = (plan_step){ .kind = kind,
                                           .peer = peer,
                                           .first_input = p->input_count,
                                           .input_count = count,
                                           .first = v.first,
                                           .count = v.count,
                                           .item = v.item,
                                           .is_partial = v.is_partial };
    for (int i = 0; i < count; i++) {
        assert(inputs[i] >= INPUT_OWN && inputs[i] < p->step_count);
        p->inputs[p->input_count++] = inputs[i];
    }
    return p->step_count++;
}

int plan_send(plan_builder *b, int peer, int input, plan_value v) {
    return put_step(b, STEP_SEND, peer, &input, 1, v);
}

int plan_receive(plan_builder *b, int peer, plan_value v) {
    v.item = -1;
    return put_step(b, STEP_RECEIVE, peer, NULL, 0, v);
}

int plan_add(plan_builder *b, const int *inputs, int count, plan_value v) {
    return put_step(b, STEP_ADD, -1, inputs, count, v);
}

void plan_put_out(plan_builder *b, int step, plan_value v) {
    plan *p = b->plan;
    if (!make_room(b, &p->outputs, p->output_count, 1, &b->output_room, sizeof *p->outputs)) return;
    p->outputs[p->output_count++] = (plan_output){
        .step = step, .first = v.first, .count = v.count, .item = step == INPUT_OWN ? v.item : -1
    };
}

int plan_join(plan_builder *b, const int *inputs, int count, plan_value v) {
    return put_step(b, STEP_JOIN, -1, inputs, count, v);
}

// ---- Pieces -------------------------------------------------------------------------------------

static uint64_t line_elements(const plan_request *r) {
    enum { LINE_BYTES = 64 };
    return r->element_bytes && r->element_bytes < LINE_BYTES ? LINE_BYTES / r->element_bytes : 1;
}

uint64_t plan_round_to_lines(const plan_request *r, uint64_t elements) {
    uint64_t line = line_elements(r);
    return (elements + line - 1) / line * line;
}

plan_value plan_cut(const plan_request *r, plan_value v, int j, int count) {
    uint64_t line = line_elements(r), n = (uint64_t)count, at = (uint64_t)j;
    uint64_t lines = (v.count + line - 1) / line;
    // The first parts have a line more than the last ones.
    uint64_t least = lines / n, more = lines % n;
    uint64_t first = line * (at * least + (at < more ? at : more));
    uint64_t end = first + line * (least + (at < more ? 1 : 0));
    first = first < v.count ? first : v.count;
    end = end < v.count ? end : v.count;
    v.first += first;
    v.count = end - first;
    return v;
}

plan_value plan_slice(const plan_request *r, int j) {
    plan_value all = { .count = r->elements, .item = -1 };
    return plan_cut(r, all, j, r->member_count);
}

plan_value plan_share_of(const plan_request *r, int j) {
    plan_value v = { .count = r->shares[j], .item = -1 };
    for (int i = 0; i < j; i++) v.first += r->shares[i];
    return v;
}

int plan_chunk_count(const plan_request *r, plan_value v) {
    uint64_t count = (v.count * r->element_bytes + PLAN_CHUNK_BYTES - 1) / PLAN_CHUNK_BYTES;
    return count > PLAN_CHUNKS_MAX ? PLAN_CHUNKS_MAX : count ? (int)count : 1;
}

int plan_power(int count) {
    int power = 1;
    while (2 * power <= count) power *= 2;
    return power;
}
