#include "agent/state/agent.h"

#include "base/mem.h"
#include "base/process_number.h"

#include <assert.h>
#include <stdalign.h>
#include <stdio.h>
#include <string.h>

// ---- Memory -------------------------------------------------------------------------------------

// Of all ranks that are not known, and of one that is lost when there is no memory to say why.
static const gw_error not_known = { .status = GW_DISCONNECTED, .text = "is not known here" };
static const gw_error is_gone = { .status = GW_DISCONNECTED, .text = "is gone" };

void agent_member_lost(member *m, const gw_error *why) {
    gw_error *kept = mem_alloc(sizeof *kept);
    m->lost = true;
    m->why = kept ? kept : &is_gone;
    if (!kept) return;
    *kept = *why;
    if (!kept->status) kept->status = GW_DISCONNECTED;
}

gw_error agent_why_lost(const member *m) {
    gw_error error = *m->why;
    if (m->known) error_prefix_worker(&error, m->name);
    return error;
}

static void free_member(member *m) {
    mem_free(m->addresses);
    if (m->why != &not_known && m->why != &is_gone) mem_free((gw_error *)m->why);
    mem_free(m);
}

agent *agent_retain(agent *a) {
    atomic_fetch_add_explicit(&a->count, 1, memory_order_relaxed);
    return a;
}

void agent_release(agent *a) {
    if (!a || atomic_fetch_sub_explicit(&a->count, 1, memory_order_acq_rel) != 1) return;
    for (int i = 0; i < a->service_count; i++)
        if (a->services[i].service->free) a->services[i].service->free(a->services[i].state);
    message_release(a->spare);
    error_forget(&a->awaits.failure);
    map_fini(&a->ranks);
    pthread_mutex_destroy(&a->names);
    process_fork_mark_close(a->mark);
    if (a->owns_env) env_free(a->env);
    for (int rank = 0; rank < a->member_count; rank++) free_member(a->members[rank]);
    mem_free(a);
}

static bool add_next_member(agent *a) {
    int rank = a->member_count;
    member *m = mem_calloc(a->member_size);
    if (!m) return false;
    m->worker = (gw_worker){ .name = m->name, .rank = rank };
    m->lost = true;
    m->why = &not_known;
    list_init(&m->deferred);
    list_init(&m->incomplete);
    for (int i = 0; a->services[i].service; i++) {
        const service_data *data = a->services[i].data;
        if (data && data->member_init) data->member_init((char *)m + a->services[i].part_offset);
    }
    a->members[rank] = m;
    atomic_store_explicit(&a->member_count, rank + 1, memory_order_release);
    return true;
}

bool agent_add_member(agent *a, int rank) {
    while (rank >= a->member_count)
        if (!add_next_member(a)) return false;
    return true;
}

// The parts of members are laid out one behind the other.
static void list_services(agent *a, const service *const *services) {
    a->service_table = services;
    a->member_size = sizeof(member);
    for (int i = 0; services[i]; i++) {
        assert(i < SERVICES_MAX - 1);
        for (int k = 0; k < i && services[i]->kind_last; k++)
            assert(services[i]->kind_first > services[k]->kind_last ||
                   services[i]->kind_last < services[k]->kind_first);
        const service_data *data = a->services[i].data = services[i]->data;
        a->services[i].service = services[i];
        if (services[i]->attachment && services[i]->attachment->lend)
            a->lender = services[i]->attachment;
        a->services[i].part_offset = a->member_size;
        a->member_size += ((data ? data->member_size : 0) + alignof(max_align_t) - 1) &
                          ~(alignof(max_align_t) - 1);
    }
}

agent *agent_make(const join_options *o, const service *const *services, gw_error *error) {
    process_number_count();
    agent *a = mem_calloc(sizeof *a);
    bool complete = a != NULL;
    if (a) list_services(a, services);
    for (int rank = 0; rank < o->world_size && complete; rank++)
        complete = agent_add_member(a, rank);
    if (!complete) {
        for (int rank = 0; a && rank < a->member_count; rank++) free_member(a->members[rank]);
        mem_free(a);
        error_set(error, GW_NO_MEMORY, "no memory for an agent");
        return NULL;
    }
    atomic_init(&a->count, 1);
    pthread_mutex_init(&a->names, NULL);
    snprintf(a->name, sizeof a->name, "%s", o->name);
    a->job = o->job;
    a->rank = o->rank;
    a->world_size = o->world_size;
    a->timeout_ms = o->timeout_ms;
    a->ids.space = (uint64_t)o->rank + 1;
    a->mark = process_fork_mark_open();
    list_init(&a->loopback);
    list_init(&a->watches);
    list_init(&a->continuations);
    list_init(&a->let_go);
    list_init(&a->waits);
    a->observer.row = -1;
    list_init(&a->awaits.open);
    list_init(&a->awaits.questions);
    return a;
}

// ---- Services -----------------------------------------------------------------------------------

const service *agent_service_of_kind(const agent *a, uint8_t kind) {
    for (int i = 0; i < a->service_count; i++) {
        const service *s = a->services[i].service;
        if (kind >= s->kind_first && kind <= s->kind_last) return s;
    }
    return NULL;
}

const attachment_class *agent_attachment_of_type(const agent *a, uint8_t type) {
    for (int i = 0; i < a->service_count; i++) {
        const attachment_class *c = a->services[i].service->attachment;
        if (c && c->type == type) return c;
    }
    return NULL;
}

const attachment_class *agent_attachment_of_kind(const agent *a, gw_kind kind) {
    for (int i = 0; i < a->service_count; i++) {
        const attachment_class *c = a->services[i].service->attachment;
        if (c && c->kind == kind) return c;
    }
    return NULL;
}

// ---- Scopes -------------------------------------------------------------------------------------

agent *agent_of(gw_scope *s) {
    agent *a = s->agent;
    if (a && !agent_is_closed(a)) return a;
    if (!a)
        scope_fail(s, GW_WRONG_STATE, "the scope has no agent: call gw_rpc_init first");
    else if (is_process_fork(a->mark))
        scope_fail(s, GW_WRONG_STATE,
                   "the agent belongs to the parent of this process, which was forked: only the "
                   "process that called gw_rpc_init can use it");
    else
        scope_fail(s, GW_WRONG_STATE,
                   "the agent is closed: the scope that was given to gw_rpc_init has closed");
    return NULL;
}

gw_scope *agent_scope_open(agent *a, uint64_t key, uint64_t id, int64_t deadline_ns) {
    gw_scope *s = gw_scope_open(NULL);
    if (s->error) return s;
    s->env = a->env;
    s->agent = a;
    s->remote = &a->remote;
    s->ids = &a->ids;
    s->worker = a->name;
    s->own_random = (generator){ .key = key };
    s->id = id;
    s->deadline_ns = deadline_ns;
    return s;
}

// ---- Visits -------------------------------------------------------------------------------------

bool agent_visit(agent *a) {
    atomic_fetch_add(&a->visitor_count, 1);
    if (is_process_fork(a->mark) || atomic_load(&a->closed)) {
        atomic_fetch_sub(&a->visitor_count, 1);
        return false;
    }
    env_enter(a->env);
    return true;
}

void agent_visit_end(agent *a) {
    env_leave(a->env);
    atomic_fetch_sub(&a->visitor_count, 1);
}

// ---- Identity, and errors after the end -----------------------------------------------------------

gw_status agent_left_error(const agent *a, const char *what, gw_error *error) {
    if (!a->fence.status)
        return error_set(error, GW_WRONG_STATE, "%s is not possible after shutdown", what);
    if (error) *error = a->fence;
    return GW_FENCED;
}

void agent_notify_launcher(agent *a, const char *what, uint64_t incarnation, const char *why) {
    char line[GW_ERROR_TEXT_MAX + 64];
    snprintf(line, sizeof line, "%s %016llx %s", what, (unsigned long long)incarnation, why);
    env_report_to_launcher(a->env, line);
}

void agent_set_identity_on_loop(agent *a) {
    party *self = &a->protection.self;
    *self = (party){ .rank = a->rank < 0 ? PARTY_RANK_UNKNOWN : (uint32_t)a->rank,
                     .incarnation = a->incarnation };
    memcpy(self->name, a->name, sizeof self->name);
}
