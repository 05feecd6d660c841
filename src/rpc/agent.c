#include "rpc/agent.h"

#include "base/mem.h"
#include "net/env_os.h"
#include "rpc/call.h"
#include "rpc/promise.h"
#include "rpc/serving.h"
#include "rpc/upward.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- Memory ----

agent *agent_retain(agent *a) {
    atomic_fetch_add_explicit(&a->count, 1, memory_order_relaxed);
    return a;
}

void agent_release(agent *a) {
    if (!a || atomic_fetch_sub_explicit(&a->count, 1, memory_order_acq_rel) != 1) return;
    references_free(a);
    message_release(a->spare);
    map_fini(&a->ranks);
    map_fini(&a->calls);
    map_fini(&a->strands);
    map_fini(&a->promises);
    handle_release(a->registry);
    mem_free(a->members);
    mem_free(a);
}

static message *make_spare(void) {
    message *m = message_open(KIND_REPLY);
    if (!m) return NULL;
    bytes_extend(&m->head, AGENT_SMALL_BYTES);
    m->head.size = 0;
    if (!m->head.failed) return m;
    message_release(m);
    return NULL;
}

static void init_member(agent *a, int rank) {
    member *m = agent_member(a, rank);
    m->worker = (gw_worker){ .name = m->name, .rank = rank };
    list_init(&m->calls);
    list_init(&m->served);
}

static agent *make_agent(const join_options *o, gw_error *error) {
    agent *a = mem_calloc(sizeof *a);
    member *members = mem_calloc((size_t)o->world_size * sizeof *members);
    if (!a || !members) {
        mem_free(members);
        mem_free(a);
        error_set(error, GW_NO_MEMORY, "no memory for an agent");
        return NULL;
    }
    atomic_init(&a->count, 1);
    a->members = members;
    a->rank = o->rank;
    a->world_size = o->world_size;
    a->timeout_ms = o->timeout_ms;
    a->ids.space = (uint64_t)o->rank + 1;
    a->spare = make_spare();
    list_init(&a->loopback);
    list_init(&a->unresolved);
    for (int rank = 0; rank < o->world_size; rank++) init_member(a, rank);
    return a;
}

// ---- Messages ----

// What does not fit is cut out of the middle of the trail: who asked, and what went wrong in the end, matter most.
static void prefix(gw_error *error, const char *name) {
    static const char cut[] = "...: ";
    size_t needed = strlen(name) + 2 + strlen(error->text), room = sizeof error->text - 1;
    if (needed > room) {
        const char *rest = strstr(error->text + (needed - room) + sizeof cut, ": ");
        if (rest) {
            char text[sizeof error->text];
            snprintf(text, sizeof text, "%s%s", cut, rest + 2);
            memcpy(error->text, text, sizeof text);
        }
    }
    error_prefix(error, name);
}

void error_add_trail(gw_error *error, const char *worker, const char *function) {
    if (!error->worker[0]) snprintf(error->worker, sizeof error->worker, "%s", worker);
    if (!error->function[0]) snprintf(error->function, sizeof error->function, "%.127s", function);
    // Operators and accessors say their own name already.
    size_t size = strlen(function);
    bool said = !strncmp(error->text, function, size) && !strncmp(error->text + size, ": ", 2);
    if (size && !said) prefix(error, function);
    prefix(error, worker);
}

message *agent_message_on_loop(agent *a, message_kind kind) {
    message *m = make_spare();
    if (!m) {
        m = a->spare;
        a->spare = NULL;
    } else if (!a->spare) {
        a->spare = make_spare();
    }
    if (m) m->kind = (uint8_t)kind;
    return m;
}

static gw_status dispatch(agent *a, int from, message *m, gw_error *error) {
    switch (m->kind) {
    case KIND_REQUEST: return serving_requested_on_loop(a, from, m, error);
    case KIND_REPLY: return call_replied_on_loop(a, from, m, error);
    case KIND_FORWARD: return serving_forward_on_loop(a, from, m, error);
    case KIND_PROMISE_VALUE: return promise_received_on_loop(a, from, m, error);
    case KIND_ASK_LEAVE:
    case KIND_ALL_ASKED:
    case KIND_WAVE:
    case KIND_STATE:
    case KIND_LEAVE: return leaving_received_on_loop(a, from, m, error);
    case KIND_ACCEPTED:
    case KIND_FORK_REQUEST:
    case KIND_FORK_ACK:
    case KIND_CHILD_ACCEPT:
    case KIND_RELEASE:
    case KIND_FETCH: return references_received_on_loop(a, from, m, error);
    default: break;
    }
    gw_status status = error_set(error, GW_PROTOCOL, "a message of kind %d", m->kind);
    message_release(m);
    return status;
}

static bool is_counted(const message *m) {
    return m->kind < KIND_ASK_LEAVE || m->kind > KIND_LEAVE;
}

// A peer that cannot be understood is lost, since what it meant can no longer be known.
static void blame(agent *a, int rank, const gw_error *why) {
    gw_error error;
    error_set(&error, GW_PROTOCOL, "%s (rank %d) broke the protocol: %s",
              agent_member(a, rank)->name, rank, why->text);
    if (rank != a->rank && a->peers) peers_lose(a->peers, rank, &error);
}

static void receive(void *user, int from, message *m) {
    agent *a = user;
    gw_error error;
    if (is_counted(m)) agent_member(a, from)->received++;
    if (dispatch(a, from, m, &error)) blame(a, from, &error);
}

static void lose(void *user, int rank, const gw_error *why) {
    agent *a = user;
    member *m = agent_member(a, rank);
    m->lost = true;
    m->why = *why;
    calls_lost_on_loop(a, rank);
    servings_lost_on_loop(a, rank);
    promises_lost_on_loop(a, rank);
    references_lost_on_loop(a, rank);
    leaving_lost_on_loop(a, rank);
}

// One message at a time: what it leads to comes before the next one, as with messages of others.
static void run_loopback(task *t) {
    agent *a = list_entry(t, agent, loopback_task);
    env_enter(a->env);
    a->loopback_deferred = false;
    list_node *l = list_take(&a->loopback);
    if (!list_is_empty(&a->loopback)) {
        a->loopback_deferred = true;
        env_defer(a->env, &a->loopback_task);
    }
    if (l) receive(a, a->rank, list_entry(l, message, link));
    leaving_check_on_loop(a);
    env_leave(a->env);
}

// A copy is received: the caller may write what it sent, and its message pins what it was sent from.
static gw_status send_to_self(agent *a, message *m, gw_error *error) {
    message *copy = message_copy(m);
    message_release(m);
    if (!copy) return error_set(error, GW_NO_MEMORY, "no memory for a message");
    list_append(&a->loopback, &copy->link);
    if (!a->loopback_deferred) {
        a->loopback_deferred = true;
        a->loopback_task.run = run_loopback;
        env_defer(a->env, &a->loopback_task);
    }
    return GW_OK;
}

gw_status agent_send_on_loop(agent *a, int rank, message *m, bool flush, gw_error *error) {
    assert(env_held(a->env));
    bool counted = is_counted(m);
    gw_status status;
    if (rank == a->rank) {
        status = send_to_self(a, m, error);
    } else if (a->peers) {
        status = peers_send(a->peers, rank, m, flush, error);
    } else {
        message_release(m);
        status = error_set(error, GW_WRONG_STATE, "a message after shutdown");
    }
    if (!status && counted) agent_member(a, rank)->sent++;
    return status;
}

gw_status agent_check_on_loop(agent *a, int rank, gw_error *error) {
    const member *m = agent_member(a, rank);
    if (a->phase == AGENT_LEFT) return error_set(error, GW_WRONG_STATE, "a call after shutdown");
    if (!m->lost) return GW_OK;
    *error = m->why;
    error_prefix(error, m->name);
    return error->status;
}

// ---- Scopes ----

agent *agent_of(gw_scope *s) {
    if (s->agent) return s->agent;
    scope_fail(s, GW_WRONG_STATE, "this scope has no agent: gw_rpc_init makes one");
    return NULL;
}

gw_scope *agent_scope_open(agent *a, uint64_t key, uint64_t id, int64_t deadline_ns) {
    gw_scope *s = gw_scope_open(NULL);
    if (s->error) return s;
    s->env = a->env;
    s->agent = a;
    s->ids = &a->ids;
    s->worker = agent_member(a, a->rank)->name;
    s->own_random = (generator){ .key = key };
    s->id = id;
    s->deadline_ns = deadline_ns;
    return s;
}

// ---- Closing ----

static void drop_loopback(agent *a) {
    for (list_node *l; (l = list_take(&a->loopback));)
        message_release(list_entry(l, message, link));
}

static void stop_on_loop(agent *a) {
    gw_error error;
    if (a->phase == AGENT_LEFT) return;
    error_set(&error, GW_DISCONNECTED, "%s has left the job", agent_member(a, a->rank)->name);
    a->phase = AGENT_LEFT;
    servings_close_on_loop(a, &error);
    calls_close_on_loop(a, &error);
    promises_close_on_loop(a, &error);
    futures_close_on_loop(a, &error);
    references_stop_on_loop(a, &error);
    pool_end_on_loop(&a->pool);
}

static void close_peers_on_loop(agent *a) {
    if (!a->peers) return;
    a->final_stats = peers_get_stats(a->peers);
    store_close(a->store);
    peers_close(a->peers);
    a->store = NULL;
    a->peers = NULL;
}

void agent_leave_on_loop(agent *a) {
    stop_on_loop(a);
    close_peers_on_loop(a);
}

// Ends of objects that no thread has come to.
static void run_left_jobs(agent *a) {
    for (;;) {
        env_enter(a->env);
        pool_job *j = pool_take_on_loop(&a->pool);
        env_leave(a->env);
        if (!j) return;
        j->run(j);
    }
}

static void close_agent(agent *a) {
    env_enter(a->env);
    agent_leave_on_loop(a);
    pool_join_on_loop(&a->pool);
    drop_loopback(a);
    leaving_stop_on_loop(a);
    env_leave(a->env);
    run_left_jobs(a);
    references_close(a);
    run_left_jobs(a);
    atomic_store_explicit(&a->closed, true, memory_order_release);
    if (a->owns_env) env_close(a->env);
    agent_release(a);
}

// The scope is closing: its own turns first, while there are objects.
static void leave_scope(gw_scope *s, void *data) {
    if (s->slots[SCOPE_TURN].fini) s->slots[SCOPE_TURN].fini(s, s->slots[SCOPE_TURN].data);
    scope_set_slot(s, SCOPE_TURN, NULL, NULL);
    close_agent(data);
    s->agent = NULL;
    s->env = NULL;
}

// ---- Opening ----

static gw_status take_registry(agent *a, const gw_registry *given, gw_error *error) {
    if (!given) return registry_open_process(&a->registry, error);
    a->registry = handle_retain((gw_registry *)given);
    a->registry->frozen = true;
    return GW_OK;
}

static gw_status open_peers(agent *a, const join_options *o, gw_error *error) {
    peers_options options = { .env = a->env,
                              .rank = a->rank,
                              .incarnation = a->incarnation,
                              .user = a,
                              .received = receive,
                              .lost = lose };
    bool hosts = o->master[0] && a->rank == 0;
    return peers_open(options, hosts ? o->master : "127.0.0.1:0", &a->peers,
                      agent_member(a, a->rank)->address, error);
}

static gw_status start_on_loop(agent *a, const join_options *o, gw_error *error) {
    do a->incarnation = env_random_u64(a->env);
    while (!a->incarnation);
    gw_status status = open_peers(a, o, error);
    if (!status) status = join_on_loop(a, o, error);
    if (!status) status = pool_start_on_loop(&a->pool, error);
    if (!status) a->phase = AGENT_SERVING;
    return status;
}

static gw_status start(agent *a, const join_options *o, const gw_registry *registry,
                       gw_error *error) {
    pool_init(&a->pool, a->env, o->threads);
    gw_status status = take_registry(a, registry, error);
    if (!status) status = references_open(a, error);
    if (status) return status;
    env_enter(a->env);
    status = start_on_loop(a, o, error);
    env_leave(a->env);
    return status;
}

static void attach(gw_scope *root, agent *a) {
    root->agent = a;
    root->env = a->env;
    root->ids = &a->ids;
    root->worker = agent_member(a, a->rank)->name;
    root->id = 0;  // a new one, unique in the job
    scope_set_slot(root, SCOPE_AGENT, a, leave_scope);
}

void agent_open_on(gw_scope *root, env *e, bool owns_env, gw_rpc_options options) {
    gw_error error;
    join_options o;
    if (root->error) {
        if (owns_env) env_close(e);
        return;
    }
    gw_status status = options_resolve(&options, getenv, &o, &error);
    agent *a = status ? NULL : make_agent(&o, &error);
    if (!a) {
        scope_fail_with(root, &error);
        if (owns_env) env_close(e);
        return;
    }
    a->env = e;
    a->owns_env = owns_env;
    a->root = root;
    snprintf(agent_member(a, a->rank)->name, sizeof a->members->name, "%s", o.name);
    if (start(a, &o, options.registry, &error)) {
        close_agent(a);
        scope_fail_with(root, &error);
    } else {
        attach(root, a);
    }
}

void gw_rpc_init(gw_scope *root, gw_rpc_options options) {
    gw_error error;
    env *e;
    if (root->error) return;
    if (root->agent) {
        scope_fail(root, GW_WRONG_STATE, "this scope has an agent already");
    } else if (env_os_open(&e, &error)) {
        scope_fail_with(root, &error);
    } else {
        agent_open_on(root, e, true, options);
    }
}
