#include "testing/memory_backend.h"

#include "agent/state/agent.h"
#include "base/env.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/scope.h"
#include "base/status.h"
#include "testing/sim.h"
#include "testing/testing.h"

#include <string.h>

enum { MEMBERS_MAX = 8, SLOTS_MAX = 8192, RANKS_MAX = 16 };

#define TAKES_NS (SIM_SECOND / 100)
#define POLL_NS (SIM_SECOND / 1000)

// The calls of the members that form one collective.
typedef struct slot {
    uint64_t id;
    int arrived;
    backend_call *calls[MEMBERS_MAX];
} slot;

typedef struct communicator {
    uint64_t group;  // by its name
    int count, self;
    env *env;
    uint64_t *numbers;  // of calls, by channel
    int begun, under_way;
    bool is_aborted, is_closed;
} communicator;

// A call of one member, until all have started it.
typedef struct flight {
    timer timer;
    task task;
    slot *slot;
    communicator *of;
    int index;  // among those of its member
    int64_t ends_ns;
} flight;

struct memory_backend_counts memory_backend_counts;
struct memory_backend_faults memory_backend_faults;

static slot slots[SLOTS_MAX];
static int slot_count;
static env *envs[RANKS_MAX];  // by rank in the job

// ---- Bytes --------------------------------------------------------------------------------------

static uint64_t sum_before(const uint64_t *sizes, int i) {
    uint64_t at = 0;
    for (int k = 0; k < i; k++) at += sizes[k];
    return at;
}

static void move_between(const backend_call *a, int i, const backend_call *b, int k) {
    if (a->operation == OPERATION_ALL_TO_ALL) {
        assert_int_equal(a->sizes_from[k], b->sizes_to[i]);
        memcpy((uint8_t *)b->to + sum_before(b->sizes_to, i),
               (const uint8_t *)a->from + sum_before(a->sizes_from, k), a->sizes_from[k]);
    } else if (a->operation == OPERATION_ALL_GATHER ||
               (a->operation == OPERATION_GATHER && k == a->root)) {
        assert_int_equal(a->size, b->sizes_to[i]);
        memcpy((uint8_t *)b->to + sum_before(b->sizes_to, i), a->from, a->size);
    } else if (a->operation == OPERATION_BROADCAST && i == a->root && i != k) {
        assert_int_equal(a->size, b->size);
        memcpy(b->to, a->from, a->size);
    }
}

static void add(const slot *x, int count) {
    const void *from[MEMBERS_MAX];
    for (int k = 0; k < count; k++) from[k] = x->calls[k]->from;
    for (int k = 0; k < count; k++) {
        const backend_call *c = x->calls[k];
        combine(&(combine_request){ .op = c->op,
                                    .dtype = c->dtype,
                                    .count = count,
                                    .from = from,
                                    .out = c->to,
                                    .numbers = c->size / gw_dtype_size(c->dtype),
                                    .factor = 1,
                                    .divisor = count });
    }
}

static void check_size(const backend_call *a, int i, int count) {
    bool gathers =
        a->operation == OPERATION_ALL_GATHER || (a->operation == OPERATION_GATHER && i == a->root);
    assert_true(a->operation == OPERATION_ALL_TO_ALL || a->size <= memory_backend.bytes_max);
    if (gathers) assert_true(sum_before(a->sizes_to, count) <= memory_backend.bytes_max);
}

static void move(const slot *x, int count) {
    for (int i = 0; i < count; i++) {
        const backend_call *a = x->calls[i];
        assert_int_equal(a->operation, x->calls[0]->operation);  // they start the same
        assert_int_equal(a->root, x->calls[0]->root);
        assert_true(memory_backend.operations & 1u << a->operation);
        check_size(a, i, count);
        for (int k = 0; k < count; k++) move_between(a, i, x->calls[k], k);
    }
    if (x->calls[0]->operation == OPERATION_ALL_REDUCE) add(x, count);
}

// ---- Calls --------------------------------------------------------------------------------------

static uint64_t slot_id(const communicator *c, const backend_call *call) {
    bool has_keys = memory_backend.guarantees & BACKEND_KEYS;
    uint64_t id = hash_u64(c->group ^ hash_u64(has_keys ? call->key : (uint64_t)call->channel));
    id = hash_u64(id ^ hash_u64(has_keys ? call->number : c->numbers[call->channel]++));
    return has_keys ? hash_u64(id ^ (uint64_t)call->part) : id;
}

static slot *find_slot(uint64_t id) {
    for (int i = 0; i < slot_count; i++)
        if (slots[i].id == id) return &slots[i];
    assert_true(slot_count < SLOTS_MAX);
    slots[slot_count] = (slot){ .id = id };
    return &slots[slot_count++];
}

static void free_if_closed(communicator *c) {
    if (!c->is_closed || c->under_way) return;
    mem_free(c->numbers);
    mem_free(c);
}

static void end(task *t) {
    flight *f = list_entry(t, flight, task);
    communicator *c = f->of;
    backend_call *call = f->slot->calls[c->self];
    gw_error error;
    bool fails =
        memory_backend_faults.failing == f->index && memory_backend_faults.failing_at == c->self;
    error_set(&error, fails ? GW_REMOTE : GW_CANCELLED, "memory: %s",
              fails ? "a fault" : "aborted");
    c->under_way--;
    memory_backend_counts.under_way--;
    call->done(call, fails || f->slot->arrived < c->count ? &error : NULL);
    free_if_closed(c);
    mem_free(f);
}

static bool is_held(const flight *f) {
    return memory_backend_faults.held == f->index && f->of->under_way < 2;
}

static void poll(timer *t) {
    flight *f = list_entry(t, flight, timer);
    communicator *c = f->of;
    int64_t now_ns = env_now_ns(c->env);
    bool waits = f->slot->arrived < c->count || is_held(f) || now_ns < f->ends_ns;
    bool ends = c->is_aborted && memory_backend.guarantees & BACKEND_CANCELS;
    if (waits && !ends) {
        env_set_timer(c->env, t, now_ns < f->ends_ns ? f->ends_ns : now_ns + POLL_NS);
        return;
    }
    f->task.run = end;
    env_defer(c->env, &f->task);
}

static void start(void *to, backend_call *call) {
    communicator *c = to;
    struct memory_backend_counts *n = &memory_backend_counts;
    flight *f = mem_calloc(sizeof *f);
    slot *x = find_slot(slot_id(c, call));
    assert_true(f && !c->is_aborted && call->channel < memory_backend.channels);
    assert_null(x->calls[c->self]);
    x->calls[c->self] = call;
    if (++x->arrived == c->count) move(x, c->count);
    *f = (flight){ .slot = x, .of = c, .index = c->begun++ };
    n->begun++;
    n->under_way++;
    c->under_way++;
    if (c->under_way > n->side_by_side) n->side_by_side = c->under_way;
    int64_t now_ns = env_now_ns(c->env);
    if (f->index == memory_backend_faults.late)
        f->ends_ns = now_ns + memory_backend_faults.late_ms * (SIM_SECOND / 1000);
    f->timer.fire = poll;
    env_set_timer(c->env, &f->timer, now_ns + TAKES_NS);
}

// ---- Communicators ------------------------------------------------------------------------------

static gw_status open(const backend_members *m, void **out, gw_error *error) {
    communicator *c = mem_calloc(sizeof *c);
    uint64_t *numbers = mem_calloc((size_t)memory_backend.channels * sizeof *numbers);
    if (!c || !numbers) {
        mem_free(c);
        mem_free(numbers);
        return error_set(error, GW_NO_MEMORY, "no memory for a communicator");
    }
    *c = (communicator){ .group = hash_bytes(m->name, strlen(m->name)),
                         .count = m->count,
                         .self = m->self,
                         .env = envs[m->ranks[m->self]],
                         .numbers = numbers };
    memory_backend_counts.opened++;
    *out = c;
    return GW_OK;
}

static void abort_calls(void *of) {
    communicator *c = of;
    assert_false(c->is_aborted);
    c->is_aborted = true;
    memory_backend_counts.aborted += c->under_way;
}

static void close_communicator(void *of) {
    communicator *c = of;
    c->is_closed = true;
    free_if_closed(c);
}

static const backend whole = {
    .name = "memory",
    .operations = 1u << OPERATION_ALL_TO_ALL | 1u << OPERATION_ALL_GATHER | 1u << OPERATION_GATHER |
                  1u << OPERATION_BROADCAST | 1u << OPERATION_ALL_REDUCE,
    .ops = 1u << COMBINE_SUM | 1u << COMBINE_AVG,
    .dtypes = 1u << GW_F32,
    .bytes_max = UINT64_MAX,
    .devices = 1u << GW_CPU,
    .guarantees = BACKEND_CANCELS,
    .channels = 4,
    .open = open,
    .start = start,
    .abort = abort_calls,
    .close = close_communicator,
};

backend memory_backend;

void memory_backend_reset(void) {
    slot_count = 0;
    memory_backend_counts = (struct memory_backend_counts){ 0 };
    memory_backend_faults = (struct memory_backend_faults){ .held = -1, .late = -1, .failing = -1 };
    memory_backend = whole;
    backend_of_tests = &memory_backend;
}

const char *memory_backend_at(const gw_scope *s) {
    const agent *a = s->agent;
    envs[a->rank] = a->env;
    return whole.name;
}
