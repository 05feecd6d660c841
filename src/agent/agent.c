#include "agent/agent.h"

#include "base/log.h"
#include "base/mem.h"
#include "agent/admission.h"
#include "agent/context.h"
#include "agent/awaits.h"
#include "agent/deferred.h"
#include "agent/environment.h"
#include "agent/leave.h"
#include "agent/member_events.h"
#include "agent/member_table.h"
#include "agent/receive.h"
#include "agent/send.h"
#include "net/transport/interfaces.h"

#include <assert.h>
#include <sched.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

static agent *make_agent(const join_options *o, const service *const *services, gw_error *error) {
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
    a->spare = send_make_spare();
    a->loopback_task.run = receive_loopback;
    a->mark = process_fork_mark_open();
    list_init(&a->loopback);
    list_init(&a->watches);
    list_init(&a->continuations);
    list_init(&a->let_go);
    list_init(&a->waits);
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
    if (a && !is_process_fork(a->mark)) return a;
    if (a) {
        scope_fail(
            s, GW_WRONG_STATE,
            "this process was forked from the one that called gw_rpc_init, which has the agent");
        return NULL;
    }
    scope_fail(s, GW_WRONG_STATE, "this scope has no agent: gw_rpc_init makes one");
    return NULL;
}

gw_scope *agent_scope_open(agent *a, uint64_t key, uint64_t id, int64_t deadline_ns) {
    gw_scope *s = gw_scope_open(NULL);
    if (s->error) return s;
    s->env = a->env;
    s->agent = a;
    s->remote = a->remote;
    s->ids = &a->ids;
    s->worker = a->name;
    s->own_random = (generator){ .key = key };
    s->id = id;
    s->deadline_ns = deadline_ns;
    return s;
}

// ---- Closing ------------------------------------------------------------------------------------

static void stop_on_loop(agent *a, const gw_error *why) {
    if (a->phase == AGENT_LEFT) return;
    a->phase = AGENT_LEFT;
    for (int i = 0; i < a->service_count; i++)
        if (a->services[i].service->stop) a->services[i].service->stop(a, why);
    watches_close_on_loop(a);
    awaits_stop_on_loop(a);
    admission_end_on_loop(a);
    pool_end_on_loop(&a->pool);
}

static void close_store_on_loop(agent *a) {
    if (a->peers) peers_serve_store(a->peers, NULL, NULL);  // no more connections for it
    store_close(a->store);
    a->store = NULL;
}

static void close_peers_on_loop(agent *a) {
    if (!a->peers) return;
    a->final_stats = peers_get_stats(a->peers);
    deferred_close_on_loop(a);
    member_table_close_on_loop(a);
    // A thread of this worker may wait for a store in a file, never for the one that it hosts.
    if (a->hosts_store) close_store_on_loop(a);
    peers_close(a->peers);
    a->peers = NULL;
}

static void cut(task *t) {
    agent *a = list_entry(t, agent, cutting);
    env_enter(a->env);
    close_peers_on_loop(a);
    env_leave(a->env);
}

void agent_fence_on_loop(agent *a, const gw_error *why) {
    if (a->fence.status || a->phase == AGENT_LEFT || a->leaving.says_goodbye) return;
    bool was_in = why->status != GW_DISCONNECTED;  // else it has lost the member that admitted it
    error_set(&a->fence, was_in ? GW_FENCED : GW_DISCONNECTED, "%s", why->text);
    a->fence.lost = why->lost;
    for (int rank = 0; rank < a->member_count; rank++)
        if (rank != a->rank && !agent_member(a, rank)->lost)
            member_table_lose_on_loop(a, rank, false, &a->fence);
    stop_on_loop(a, &a->fence);
    leaving_finish_on_loop(a, &a->fence);
    if (a->joining) env_wake(a->env, a->joining);
    a->cutting.run = cut;
    env_defer(a->env, &a->cutting);
}

gw_status agent_left_error(const agent *a, const char *what, gw_error *error) {
    if (!a->fence.status) return error_set(error, GW_WRONG_STATE, "%s after shutdown", what);
    if (error) *error = a->fence;
    return GW_FENCED;
}

void agent_leave_on_loop(agent *a) {
    gw_error error;
    // All have given theirs back by now.
    if (a->phase == AGENT_DRAINING && !a->leaving.error.status && !a->leaving.alone)
        for (int i = 0; i < a->service_count; i++)
            if (a->services[i].service->report) a->services[i].service->report(a);
    error_set(&error, GW_DISCONNECTED, "%s has left the job", a->name);
    error_set_lost(&error, GW_LOSS_LEFT, a->rank, a->incarnation, a->name);
    stop_on_loop(a, &error);
    admission_join_on_loop(a);
    close_peers_on_loop(a);
    close_store_on_loop(a);
}

// Runs the jobs that end objects and that no thread has taken.
static void run_left_jobs(agent *a) {
    for (;;) {
        env_enter(a->env);
        pool_job *j = pool_take_on_loop(&a->pool);
        env_leave(a->env);
        if (!j) return;
        j->run(j);
    }
}

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

// No visitor enters any more, and the present ones leave soon.
static void await_visitors(const agent *a) {
    while (atomic_load(&a->visitor_count)) sched_yield();
}

static void close_agent(agent *a) {
    env_enter(a->env);
    agent_leave_on_loop(a);
    pool_join_on_loop(&a->pool);
    send_drop_loopback(a);
    leaving_stop_on_loop(a);
    env_leave(a->env);
    run_left_jobs(a);
    for (int i = 0; i < a->service_count; i++)
        if (a->services[i].service->close) a->services[i].service->close(a);
    run_left_jobs(a);
    atomic_store(&a->closed, true);
    env_enter(a->env);
    connection_unprotect(a->env, &a->protection);
    env_leave(a->env);
    if (a->owns_env) {
        await_visitors(a);
        env_close(a->env);
    }
    protection_fini(&a->protection);
    agent_release(a);
}

// The scope is closing: its own turns first, while there are objects.
static void leave_scope(gw_scope *s, void *data) {
    if (s->slots[SCOPE_TURN].fini) s->slots[SCOPE_TURN].fini(s, s->slots[SCOPE_TURN].data);
    scope_set_slot(s, SCOPE_TURN, NULL, NULL);
    // A child has none of the agent's threads, and must not close its parent's sessions.
    if (!is_process_fork(((agent *)data)->mark)) close_agent(data);
    s->agent = NULL;
    s->remote = NULL;
    s->env = NULL;
}

// ---- Opening ------------------------------------------------------------------------------------

static gw_status open_services(agent *a, const gw_rpc_options *options, gw_error *error) {
    gw_status status = GW_OK;
    for (int i = 0; a->services[i].service && !status; i++) {
        const service *s = a->services[i].service;
        if (s->open) status = s->open(a, options, &a->services[i].state, error);
        if (!status) a->service_count++;
    }
    return status;
}

// Addresses on this host alone, or addresses that other hosts can reach.
static gw_status choose_places(const agent *a, const join_options *o, char out[ADDRESSES_MAX],
                               gw_error *error) {
    bool hosts = o->master[0] && !o->job && a->rank == 0;  // a group has a store of its own
    snprintf(out, ADDRESSES_MAX, "%s", hosts ? o->master : "");
    bool is_chosen = o->listen_addresses[0] || o->listen_interfaces[0];
    bool is_tcp = !strstr(o->master, "://");
    if (!o->goes_beyond && !is_chosen) return GW_OK;
    if (o->goes_beyond && o->protection.insecure)
        log_line("%s: connections leave this host without encryption, since insecure is set: "
                 "every host of the network can read and change their data",
                 a->name);
    char toward[ADDRESS_MAX];
    snprintf(toward, sizeof toward, "%.*s", (int)strcspn(o->master, ","), o->master);
    const places p = { .addresses = o->listen_addresses[0] ? o->listen_addresses : NULL,
                       .interfaces = o->listen_interfaces[0] ? o->listen_interfaces : NULL,
                       .toward = is_tcp ? toward : "",
                       .hosts = hosts && is_tcp };
    char chosen[ADDRESSES_MAX];
    gw_status status = places_choose(&p, chosen, error);
    if (status) return status;
    // An address that is on one host alone (not tcp) is added to the chosen ones.
    bool adds = hosts && !is_tcp;
    int size =
        snprintf(out, ADDRESSES_MAX, "%s%s%s", adds ? o->master : "", adds ? "," : "", chosen);
    return size < ADDRESSES_MAX
               ? GW_OK
               : error_set(error, GW_LIMIT, "more addresses to listen at than fit");
}

static gw_status open_peers(agent *a, const join_options *o, gw_error *error) {
    peers_options options = { .env = a->env,
                              .rank = a->rank,
                              .incarnation = a->incarnation,
                              .user = a,
                              .received = receive_message,
                              .lost = member_table_peer_lost,
                              .room = receive_writable };
    char listen[ADDRESSES_MAX];
    gw_status status = choose_places(a, o, listen, error);
    return status ? status : peers_open(options, listen, &a->peers, a->addresses, error);
}

static gw_status find_others(agent *a, const join_options *o, gw_error *error) {
    switch (o->job) {
    case GW_JOB_CREATE: return group_found_on_loop(a, o, error);
    case GW_JOB_JOIN: return group_join_on_loop(a, o, error);
    case GW_JOB_NONE: break;
    }
    return join_on_loop(a, o, error);
}

void agent_notify_launcher(agent *a, const char *what, uint64_t incarnation, const char *why) {
    char line[GW_ERROR_TEXT_MAX + 64];
    snprintf(line, sizeof line, "%s %016llx %s", what, (unsigned long long)incarnation, why);
    env_report_to_launcher(a->env, line);
}

// A job of known size joins whole or not at all, so one rank that has ended is enough (LAUN-9).
static void received_from_launcher(void *user, const char *line) {
    agent *a = user;
    int rank, world_size, at = 0;
    if (sscanf(line, "ended %d %d %n", &rank, &world_size, &at) != 2 || !at) return;
    if (a->job || world_size != a->world_size || rank == a->rank) return;
    error_set(&a->absence, GW_DISCONNECTED, "rank %d of %d cannot join: %s", rank, world_size,
              line + at);
    env_interrupt(a->env);
}

void agent_set_identity_on_loop(agent *a) {
    party *self = &a->protection.self;
    *self = (party){ .rank = a->rank < 0 ? PARTY_RANK_UNKNOWN : (uint32_t)a->rank,
                     .incarnation = a->incarnation };
    memcpy(self->name, a->name, sizeof self->name);
}

static gw_status protect(agent *a, gw_error *error) {
    const protection *p = &a->protection;
    agent_set_identity_on_loop(a);
    a->protection.meets_at_rank_0 = a->job == GW_JOB_NONE;
    if (p->insecure)
        log_line("%s runs insecure: every host of the network may read and change the data of its "
                 "connections beyond this host",
                 a->name);
    return connection_protect(a->env, &a->protection, error);
}

static gw_status start_on_loop(agent *a, const join_options *o, gw_error *error) {
    do a->incarnation = env_random_u64(a->env);
    while (!a->incarnation);
    // Ranks that options give are not those of the launcher.
    if (o->is_launched) env_listen_to_launcher(a->env, received_from_launcher, a);
    char group[16];
    snprintf(group, sizeof group, "%d", (int)getpgrp());
    agent_notify_launcher(a, "joins", a->incarnation, group);
    if (!a->name[0])
        snprintf(a->name, sizeof a->name, "worker-%016llx", (unsigned long long)a->incarnation);
    gw_status status = protect(a, error);
    if (!status) status = open_peers(a, o, error);
    // A worker that cannot run functions does not join; in a job of known size it publishes the reason (join.c).
    if (!status && o->job) status = pool_start_on_loop(&a->pool, error);
    if (!status) status = find_others(a, o, error);
    if (!status) a->phase = AGENT_SERVING;
    env_listen_to_launcher(a->env, NULL, NULL);
    agent_notify_launcher(a, status ? "refused" : "joined", a->incarnation, "");
    return status;
}

static gw_status start(agent *a, const join_options *o, const gw_rpc_options *options,
                       gw_error *error) {
    pool_init(&a->pool, a->env, o->threads);
    gw_status status = open_services(a, options, error);
    if (status) return status;
    env_enter(a->env);
    env_catch_signals(a->env);
    status = start_on_loop(a, o, error);
    const char *caught = env_release_signals(a->env);
    if (a->interrupted) caught = a->interrupted;
    env_leave(a->env);
    if (status && a->absence.status) return *error = a->absence, a->absence.status;
    if (status && caught) error_set(error, GW_CANCELLED, "joining was interrupted by %s", caught);
    return status;
}

gw_launch gw_rpc_launched(void) {
    return environment_launch(getenv);
}

static _Atomic int attached_count;  // of this process

static void detach(gw_scope *root, void *data) {
    atomic_fetch_sub(&attached_count, 1);
    leave_scope(root, data);
}

static void attach(gw_scope *root, agent *a) {
    atomic_fetch_add(&attached_count, 1);
    root->agent = a;
    root->remote = a->remote;
    root->env = a->env;
    root->ids = &a->ids;
    root->worker = a->name;
    root->id = 0;  // a new one, unique in the job
    scope_seed_worker(root, a->rank);
    scope_set_slot(root, SCOPE_AGENT, a, detach);
}

void agent_open_on(gw_scope *root, env *e, bool owns_env, gw_rpc_options options,
                   const service *const *services) {
    gw_error error;
    join_options o;
    if (root->error) {
        if (owns_env) env_close(e);
        return;
    }
    gw_status status = options_resolve(&options, getenv, &o, &error);
    agent *a = status ? NULL : make_agent(&o, services, &error);
    if (!a) {
        if (!status) protection_fini(&o.protection);
        scope_fail_with(root, &error);
        if (owns_env) env_close(e);
        return;
    }
    a->env = e;
    a->protection = o.protection;
    a->owns_env = owns_env;
    a->root = root;
    if (start(a, &o, &options, &error)) {
        close_agent(a);
        if (error.status == GW_ADDRESS_IN_USE && atomic_load(&attached_count))
            error_prefix(&error,
                         "this process has called gw_rpc_init before, on a scope that is open");
        scope_fail_with(root, &error);
    } else {
        attach(root, a);
    }
}
