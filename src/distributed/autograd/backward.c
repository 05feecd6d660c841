// The initiator's side of a distributed pass.
#include "distributed/autograd/distributed_pass.h"

#include "base/failpoint.h"
#include "base/mem.h"
#include "base/mutation.h"
#include "base/value.h"
#include "agent/bodies/observe.h"
#include <gradwire/rpc.h>

#include <string.h>

// ---- The workers that the passes of a scope have visited ----------------------------------------

static void close_visited(gw_scope *s, void *data) {
    (void)s;
    pass_visited_close(data);
}

static pass_visited *visited_of(gw_scope *s, agent *a) {
    pass_visited *v = s->slots[SCOPE_VISITED].data;
    if (v || !(v = mem_calloc(sizeof *v))) return v;
    v->agent = agent_retain(a);
    v->scope = gw_scope_id(s);
    scope_set_slot(s, SCOPE_VISITED, v, close_visited);
    return v;
}

// ---- Executing ----------------------------------------------------------------------------------

static bool has_own(const distributed_pass *x) {
    for (uint32_t i = 0; i < x->marks.count; i++)
        if (x->marks.items[i].rank == (uint32_t)x->agent->rank) return true;
    return false;
}

// Plans this worker's part. If other workers' graphs lead back here, gradients are expected here
// too, and the plan is made again with them.
static bool plan(distributed_pass *x, pass *p, gw_tensor *const *roots, part *parts, int count) {
    x->pass = p;
    p->keeps = true;
    scope_set_slot(p->work, SCOPE_PASS, x, NULL);
    if (!has_own(x) && !x->fast) {
        distributed_pass_expect_answers(x);
        return true;
    }
    if (!distributed_pass_plan(x, p->scope, p->options)) return false;
    for (int i = 0; i < count; i++) parts[i] = pass_expect(x->pass, edge_to(roots[i]));
    distributed_pass_expect_answers(x);
    return pass_plan(x->pass);
}

// Fails if a participant is lost: its sends are gone, so no plan can be made of them.
static bool check_participants(const distributed_pass *x, gw_scope *s) {
    agent *a = x->agent;
    gw_error error = { 0 };
    env_enter(a->env);
    for (uint32_t i = 0; i < x->marks.count && !error.status; i++)
        if ((int)x->marks.items[i].rank != a->rank)
            agent_check_on_loop(a, (int)x->marks.items[i].rank, &error);
    env_leave(a->env);
    if (!error.status) return true;
    error_prefix_function(&error, "backward");
    return scope_fail_with(s, &error);
}

// Notes the participants that must send done. Fails if one of them is lost.
static bool expect_participants(distributed_pass *x, pass_visited *v) {
    agent *a = x->agent;
    gw_error error = { 0 };
    for (uint32_t i = 0; i < x->marks.count && !error.status; i++) {
        int rank = (int)x->marks.items[i].rank;
        if (rank == a->rank || worker_set_has(&x->undone, rank)) continue;
        worker_set_add(&x->undone, rank);
        worker_set_add(&v->workers, rank);
        x->undone_count++;
        agent_check_on_loop(a, rank, &error);
    }
    if (a->phase == AGENT_LEFT) agent_left_error(a, "a backward pass", &error);
    if (error.status) distributed_pass_fail_on_loop(x, &error);
    return !error.status;
}

static bool begin(distributed_pass *x, pass_visited *v) {
    agent *a = x->agent;
    env_enter(a->env);
    x->number = ++graphs_of(a)->last_pass;
    distributed_pass_apply_on_loop(x, DISTRIBUTED_PASS_MARKED);
    list_append(&graphs_of(a)->passes, &x->link);
    bool ok = expect_participants(x, v);
    env_leave(a->env);
    return ok;
}

static bool send_marks(distributed_pass *x) {
    worker_set notified = { { 0 } };
    if (x->marks.count <= LIMIT_MARKS) return true;
    for (uint32_t i = 0; i < x->marks.count; i++) {
        int rank = (int)x->marks.items[i].rank;
        if (rank == x->agent->rank || worker_set_has(&notified, rank)) continue;
        worker_set_add(&notified, rank);
        if (!distributed_pass_send_marks(x, rank)) return false;
    }
    return true;
}

static bool start(distributed_pass *x, gw_tensor *const *roots, const part *parts, int count) {
    pass *p = x->pass;
    if (!send_marks(x) || !gates_begin(p)) return false;
    for (int i = 0; i < count; i++)
        if (!pass_deliver(p, parts[i], pass_first_gradient(p, roots[i], p->options.gradient)))
            return false;
    return pass_run(p);
}

static void send_out(distributed_pass *x) {
    agent *a = x->agent;
    gw_error error;
    env_enter(a->env);
    if (!x->error.status && !distributed_pass_send_outbox_on_loop(x, &x->outbox, &error))
        distributed_pass_fail_on_loop(x, &error);
    env_leave(a->env);
    distributed_pass_mail_free(&x->outbox);
}

static bool is_over(const distributed_pass *x) {
    bool all_done = !x->undone_count || has_mutation(MUTATION_FINAL_BEFORE_DONE);
    return x->error.status || (!x->missing && all_done && !x->pass->late_count);
}

// The name of one worker that has not sent done; this worker's, if all others have.
static const char *name_of_pending(const distributed_pass *x) {
    const agent *a = x->agent;
    for (int rank = 0; x->undone_count && rank < a->member_count; rank++)
        if (worker_set_has(&x->undone, rank)) return a->members[rank]->name;
    return a->members[a->rank]->name;
}

typedef struct pass_wait {
    waiter waiter;
    const distributed_pass *pass;
} pass_wait;

static void describe(const waiter *w, trace_activity *out) {
    const distributed_pass *x = list_entry(w, pass_wait, waiter)->pass;
    out->kind = TRACE_WAITS_PASS;
    out->number = x->number;
    for (int rank = 0; x->undone_count && rank < x->agent->member_count; rank++)
        if (worker_set_has(&x->undone, rank)) trace_activity_add_rank(out, rank);
}

static void wait_for_more(distributed_pass *x, gw_scope *s) {
    agent *a = x->agent;
    gw_error error;
    while (!is_over(x) && list_is_empty(&x->inbox) && !x->answered) {
        pass_wait here = { .waiter = { .what = "the other workers of a backward pass",
                                       .runs_pass = true,
                                       .describe = describe },
                           .pass = x };
        x->waiting = &here.waiter;
        bool only_late = !x->missing && !x->undone_count;
        int64_t until_ns = only_late ? distributed_late_until_ns(a, s) : context_until_ns(a, s);
        bool woken = context_wait_on_loop(a, s, &here.waiter, until_ns);
        x->waiting = NULL;
        if (woken || is_over(x)) continue;
        if (!context_check_cancelled(s, &error))
            error_set(&error, GW_TIMEOUT,
                      context_deadline_ns(s) == ENV_NEVER
                          ? "no message has arrived from other workers within the timeout of a "
                            "call, and %s has not ended its part of the pass"
                          : "the pass has not ended on %s within the deadline",
                      name_of_pending(x));
        distributed_pass_fail_on_loop(x, &error);
    }
}

static bool run(distributed_pass *x, gw_scope *s) {
    agent *a = x->agent;
    for (bool ok = true; ok;) {
        list_node arrived;
        list_init(&arrived);
        send_out(x);
        failpoint("pass_begun");
        env_enter(a->env);
        wait_for_more(x, s);
        list_splice(&arrived, &x->inbox);
        list_init(&x->inbox);
        x->answered = false;
        bool over = is_over(x);
        env_leave(a->env);
        if (over) {
            distributed_pass_mail_free(&arrived);
            break;
        }
        ok = distributed_pass_run(x, &arrived);
    }
    return gw_ok(s) && !x->error.status;
}

static void abort_all(distributed_pass *x, gw_scope *s) {
    agent *a = x->agent;
    gw_error error = gw_ok(s) ? x->error : *scope_error(s);
    worker_set notified = { { 0 } };
    env_enter(a->env);
    distributed_pass_note_failed_on_loop(x);
    for (uint32_t i = 0; i < x->marks.count && a->phase != AGENT_LEFT; i++) {
        int rank = (int)x->marks.items[i].rank;
        if (rank == a->rank || worker_set_has(&notified, rank) || agent_member(a, rank)->lost)
            continue;
        worker_set_add(&notified, rank);
        distributed_pass_abort_on_loop(x, rank, &error);
    }
    env_leave(a->env);
    if (!gw_ok(s)) return;
    error_prefix_function(&error, "backward");
    scope_fail_with(s, &error);
}

static void execute(distributed_pass *x, gw_tensor *const *roots, const part *parts, int count) {
    agent *a = x->agent;
    gw_scope *s = x->pass->scope;
    pass_visited *v = visited_of(s, a);
    bool ok = v || distributed_pass_fail_memory(s);
    ok = ok && begin(x, v) && start(x, roots, parts, count) && run(x, s) && pass_commit(x->pass);
    if (!ok) abort_all(x, s);
    env_enter(a->env);
    if (list_has(&x->link)) distributed_pass_unlist_on_loop(x);
    env_leave(a->env);
    if (ok) distributed_pass_give_up_graph(x);
}

// ---- Beginning ----------------------------------------------------------------------------------

static agent *agent_behind(const pass *p) {
    for (uint32_t i = 0; i < p->target_count; i++) {
        const node *n = pass_remote_node(p, i);
        if (n) return receive_of(n)->agent;
    }
    return NULL;
}

static bool check(gw_scope *s, const agent *a) {
    gw_error error = { 0 };
    if (agent_is_closed(a)) {
        error_set(&error, GW_WRONG_STATE,
                  "the graph leads to other workers, which cannot be reached after shutdown");
    } else if (s->agent != a) {
        error_set(&error, GW_INVALID,
                  "the graph leads to other workers, but the scope belongs to another agent");
    } else {
        context_check_wait(s, &error);
    }
    if (!error.status) return true;
    error_prefix_function(&error, "backward");
    return scope_fail_with(s, &error);
}

// All bodies that are called in one scope of a caller have its id. A body that begins a pass takes
// an id of its own, so that the gradients of several bodies do not mix.
static void take_own_id(gw_scope *s) {
    const context *c = context_of(s);
    if (c && c->serves && c->scope == s && c->caller_scope == s->id) s->id = 0;
}

void distributed_pass_run_from(pass *p, gw_tensor *const *roots, const part *parts, int count) {
    gw_scope *s = p->scope;
    agent *a = agent_behind(p);
    if (!a || !check(s, a)) return;
    take_own_id(s);
    distributed_pass *x = distributed_pass_open(a, a->rank, 0, gw_scope_id(s));
    part *own = gw_alloc(s, (size_t)count * sizeof *own);
    if (!x || !own) {
        mem_free(x);
        distributed_pass_fail_memory(s);
        return;
    }
    memcpy(own, parts, (size_t)count * sizeof *own);
    x->retains = p->options.retain_graph;
    x->fast = p->options.fast;
    x->leafless = p->options.inputs != NULL;
    x->not_synchronised = s->not_synchronised;
    agent_retain(a);
    if (distributed_pass_find_marks(x, p) && check_participants(x, s) &&
        plan(x, p, roots, own, count))
        execute(x, roots, own, count);
    scope_set_slot(p->work, SCOPE_PASS, NULL, NULL);
    distributed_pass_fini(x);
    mem_free(x);
    agent_release(a);
}
