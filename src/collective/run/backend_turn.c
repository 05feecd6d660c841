// Turns: which collectives are in the backend of their group, and what happens when they end early. A channel has one
// at a time, in the order of final sequences and of numbers, so that every member starts the same calls in the same
// order. Channels are independent.
#include "collective/run/backend_run.h"

#include "agent/state/agent.h"
#include "base/mem.h"
#include "base/mutation.h"
#include "base/status.h"

typedef struct backend_channel {
    list_node queue;  // runs that wait for it, in order
    run *turn;        // the run whose values it carries now; NULL
} backend_channel;

// ---- Channels -----------------------------------------------------------------------------------

// Different threads may call collectives without a key and those of final sequences: their order is not the same on
// all members.
static int choose_channel(const run *r) {
    int each = r->group->backend->channels / 2, first = key_is_final_sequence(r->key) ? each : 0;
    for (int i = 0; has_mutation(MUTATION_CHANNEL_THAT_IS_FREE) && i < each; i++)
        if (!r->group->channels[first + i].turn) return first + i;
    return first + (int)(r->number % (uint64_t)each);
}

static backend_channel *channel_of(const run *r) {
    return &r->group->channels[r->backend->channel];
}

static bool is_before(const run *a, const run *b) {
    return a->key != b->key ? a->key < b->key : a->number < b->number;
}

static bool has_one_ahead(const list_node *list, const run *r) {
    if (has_mutation(MUTATION_CHANNEL_OVERTAKEN)) return false;
    list_each(l, list) {
        const run *x = list_entry(l, run, link);
        if (x->backend && run_is_at_work(x) && x->backend->channel == r->backend->channel &&
            !x->backend->has_queued && is_before(x, r))
            return true;
    }
    return false;
}

// ---- Calls --------------------------------------------------------------------------------------

static void call_ended(backend_call *c, const gw_error *error) {
    struct backend_run *b =
        (struct backend_run *)(void *)((char *)c - offsetof(struct backend_run, call));
    run *r = b->run;
    agent *a = r->group->agent;
    if (!agent_visit(a)) return;  // the run stays: its env is gone
    b->has_ended = true;
    if (error) b->error = *error;
    run_wake_on_loop(r);
    agent_visit_end(a);
    run_release(r);
}

static void start_on_loop(run *r) {
    gw_group *g = r->group;
    backend_call *c = &r->backend->call;
    c->done = call_ended;
    c->channel = r->backend->channel;
    c->key = r->key;
    c->number = r->number;
    c->part = r->backend->phase;
    run_retain(r);
    g->backend->start(g->communicator, c);
}

// An earlier run may not be ready for the backend yet.
static void next_turn_on_loop(gw_group *g, backend_channel *channel) {
    if (channel->turn || list_is_empty(&channel->queue)) return;
    run *r = list_entry(channel->queue.next, struct backend_run, link)->run;
    if (has_one_ahead(&g->runs, r) || has_one_ahead(&g->detached, r)) return;
    list_remove(&r->backend->link);
    r->backend->waits = false;
    channel->turn = r;
    start_on_loop(r);
}

static void queue_on_loop(run *r) {
    backend_channel *channel = channel_of(r);
    list_node *before = &channel->queue;
    list_each(l, &channel->queue) {
        if (is_before(list_entry(l, struct backend_run, link)->run, r)) continue;
        before = l;
        break;
    }
    list_append(before, &r->backend->link);
    r->backend->has_queued = r->backend->waits = true;
    next_turn_on_loop(r->group, channel);
}

void backend_start_call(run *r) {
    gw_group *g = r->group;
    env_enter(g->agent->env);
    r->backend->is_under_way = true;
    if (!run_is_at_work(r)) {
    } else if (g->backend->guarantees & BACKEND_KEYS) {
        r->backend->has_queued = true;
        start_on_loop(r);
    } else if (r->backend->phase == 0) {
        queue_on_loop(r);
    } else {
        start_on_loop(r);
    }
    env_leave(g->agent->env);
}

static void end_turn_on_loop(run *r) {
    backend_channel *channel = channel_of(r);
    if (channel->turn != r) return;
    channel->turn = NULL;
    next_turn_on_loop(r->group, channel);
}

void backend_end_turn(run *r) {
    env *e = r->group->agent->env;
    env_enter(e);
    end_turn_on_loop(r);
    env_leave(e);
}

// ---- Runs ---------------------------------------------------------------------------------------

void backend_run_entered_on_loop(run *r) {
    r->backend->channel = choose_channel(r);
}

bool backend_run_take_events_on_loop(run *r) {
    struct backend_run *b = r->backend;
    if (!b || !b->has_ended) return false;
    b->has_ended = b->is_under_way = false;
    b->phase++;
    return true;
}

void backend_run_forget_on_loop(run *r) {
    struct backend_run *b = r->backend;
    if (!b || b->channel < 0) return;
    if (b->waits) list_remove(&b->link);
    b->waits = false;
    if (r->group->backend_is_down) return;
    end_turn_on_loop(r);
    next_turn_on_loop(r->group, channel_of(r));
}

// No member begins a collective of which it has two signatures, and all members see them in the enters.
bool backend_run_detaches_on_loop(const run *r, uint64_t all) {
    if (!r->backend || r->state != RUN_UNDER_WAY || r->group->backend_is_down) return false;
    if (has_mutation(MUTATION_NOT_DRAINED) && !r->backend->has_queued) return false;
    for (int i = 0; i < r->group->count; i++)
        if (r->partners[i].differs) return false;
    return r->number < all || has_mutation(MUTATION_DRAINED_UNMET);
}

// ---- Groups -------------------------------------------------------------------------------------

static gw_status check_losses_on_loop(const gw_group *g, gw_error *error) {
    for (int i = 0; i < g->agent->member_count; i++) {
        const member *m = agent_member(g->agent, i);
        if (!m->known || !m->lost || m->left) continue;
        error_set(error, GW_DISCONNECTED, "backend \"%s\" cannot continue without %s",
                  g->backend->name, m->name);
        error->lost = m->why->lost;
        return error->status;
    }
    return GW_OK;
}

static gw_status check_losses(const gw_group *g, gw_error *error) {
    env *e = g->agent->env;
    if (g->backend->guarantees & BACKEND_SURVIVES_LOSS) return GW_OK;
    env_enter(e);
    gw_status status = check_losses_on_loop(g, error);
    env_leave(e);
    return status;
}

gw_status backend_group_open(gw_group *g, const char *name, gw_error *error) {
    gw_status status = backend_find(name, &g->backend, error);
    if (status || !g->backend->open || g->count == 1) return status;
    if ((status = check_losses(g, error))) return status;
    int *ranks = mem_alloc((size_t)g->count * sizeof *ranks);
    g->channels = mem_calloc((size_t)g->backend->channels * sizeof *g->channels);
    if (!ranks || !g->channels) {
        mem_free(ranks);
        return error_set(error, GW_NO_MEMORY, "no memory for a group");
    }
    for (int i = 0; i < g->backend->channels; i++) list_init(&g->channels[i].queue);
    for (int i = 0; i < g->count; i++) ranks[i] = g->members[i].rank;
    status = g->backend->open(
        &(backend_members){ .ranks = ranks, .count = g->count, .self = g->self, .name = g->name },
        &g->communicator, error);
    mem_free(ranks);
    return status;
}

void backend_group_close(gw_group *g) {
    if (g->communicator) g->backend->close(g->communicator);
    mem_free(g->channels);
}
