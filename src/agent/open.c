// The life of an agent: opening it on a scope, and closing it with the scope.
#include "agent/open.h"

#include "agent/bodies/observe.h"
#include "agent/changes/stop.h"
#include "agent/dispatch/receive.h"
#include "agent/joining/joining.h"
#include "agent/leaving/leave.h"
#include "agent/members/member_table.h"
#include "agent/messages/send.h"
#include "agent/settings/environment.h"
#include "agent/settings/error_file.h"
#include "base/log.h"
#include "net/transport/interfaces.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// ---- Closing ------------------------------------------------------------------------------------

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

// No visitor enters any more, and the present ones leave soon.
static void await_visitors(const agent *a) {
    while (atomic_load(&a->visitor_count)) sched_yield();
}

static void close_agent(agent *a) {
    env_enter(a->env);
    agent_leave_on_loop(a);
    observe_close_on_loop(a);
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
        a->owns_env = env_end(a->env);
    }
    protection_fini(&a->protection);
    agent_release(a);
}

// The scope is closing: its own turns first, while there are objects.
static void leave_scope(gw_scope *s, void *data) {
    if (s->slots[SCOPE_TURN].fini) s->slots[SCOPE_TURN].fini(s, s->slots[SCOPE_TURN].data);
    scope_set_slot(s, SCOPE_TURN, NULL, NULL);
    // A child has none of the agent's threads, and must not close its parent's sessions.
    if (!is_process_fork(((agent *)data)->mark)) {
        if (s->error) error_file_report(((agent *)data)->name, s->error);
        close_agent(data);
    }
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
        log_line("%s: connections to other hosts are not encrypted, because insecure is set: every "
                 "host of the network can read and change their data",
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
               : error_set(error, GW_LIMIT, "there are too many addresses to listen at");
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

// A job of known size joins whole or not at all, so one rank that has ended is enough (LAUN-9). A job that has finished
// its work may have no member that could refuse this worker (LAUN-23).
static void received_from_launcher(void *user, const char *line) {
    agent *a = user;
    int rank, world_size, at = 0;
    if (a->job == GW_JOB_JOIN && !strcmp(line, "finished")) {
        error_set(&a->absence, GW_WRONG_STATE, "the job has finished its work");
        env_interrupt(a->env);
        return;
    }
    if (sscanf(line, "ended %d %d %n", &rank, &world_size, &at) != 2 || !at) return;
    if (a->job || world_size != a->world_size || rank == a->rank) return;
    error_set(&a->absence, GW_DISCONNECTED, "rank %d of %d cannot join: %s", rank, world_size,
              line + at);
    env_interrupt(a->env);
}

static gw_status protect(agent *a, gw_error *error) {
    const protection *p = &a->protection;
    agent_set_identity_on_loop(a);
    a->protection.meets_at_rank_0 = a->job == GW_JOB_NONE;
    if (p->insecure)
        log_line("%s has set insecure: every host of the network can read and change the data of "
                 "its connections to other hosts",
                 a->name);
    return connection_protect(a->env, &a->protection, error);
}

static gw_status start_on_loop(agent *a, const join_options *o, gw_error *error) {
    do a->incarnation = env_random_u64(a->env);
    while (!a->incarnation);
    // Ranks that options give are not those of the launcher.
    if (o->is_launched || o->job == GW_JOB_JOIN)
        env_listen_to_launcher(a->env, received_from_launcher, a);
    char group[16];
    snprintf(group, sizeof group, "%d", (int)getpgrp());
    agent_notify_launcher(a, "joins", a->incarnation, group);
    if (!a->name[0])
        snprintf(a->name, sizeof a->name, "worker-%016llx", (unsigned long long)a->incarnation);
    observe_identify(a);
    observe_begin_on_loop(a);
    gw_status status = protect(a, error);
    if (!status) status = open_peers(a, o, error);
    // A worker that cannot run functions does not join; in a job of known size it publishes the reason (join.c).
    if (!status && o->job) status = pool_add_thread_on_loop(&a->pool, error);
    if (!status) status = find_others(a, o, error);
    if (!status) a->phase = AGENT_SERVING;
    if (!status) observe_identify(a);
    env_listen_to_launcher(a->env, NULL, NULL);
    agent_notify_launcher(a, status ? "refused" : "joined", a->incarnation, "");
    if (!status && a->job)
        agent_notify_launcher(a, "elastic", a->incarnation, o->lacks_state ? "without state" : "");
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
    root->remote = &a->remote;
    root->env = a->env;
    root->ids = &a->ids;
    root->worker = a->name;
    root->id = 0;  // a new one, unique in the job
    scope_seed_worker(root, a->rank);
    scope_set_slot(root, SCOPE_AGENT, a, detach);
}

void agent_open_on(gw_scope *root, env *e, bool owns_env, gw_rpc_options options,
                   const service *const *services, bool lacks_state) {
    gw_error error;
    join_options o;
    if (root->error) {
        if (owns_env) env_close(e);
        return;
    }
    gw_status status = options_resolve(&options, getenv, &o, &error);
    o.lacks_state = lacks_state;
    agent *a = status ? NULL : agent_make(&o, services, &error);
    if (!a) {
        if (!status) protection_fini(&o.protection);
        scope_fail_with(root, &error);
        error_file_report("", &error);
        if (owns_env) env_close(e);
        return;
    }
    a->env = e;
    a->protection = o.protection;
    a->owns_env = owns_env;
    a->root = root;
    observe_open(a);
    a->spare = send_make_spare();
    a->loopback_task.run = receive_loopback;
    if (start(a, &o, &options, &error)) {
        close_agent(a);
        if (error.status == GW_ADDRESS_IN_USE && atomic_load(&attached_count))
            error_prefix(&error, "this process has an agent already: gw_rpc_init was called on a "
                                 "scope that is still open");
        scope_fail_with(root, &error);
        error_file_report(o.name, &error);
    } else {
        attach(root, a);
    }
}
