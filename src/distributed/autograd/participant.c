// Runs a participant's part: on the thread of the loop that received gradients, or on the pool.
#include "distributed/autograd/accumulated.h"
#include "distributed/autograd/passes.h"

#include "call/error_trace.h"

#include "base/failpoint.h"
#include "base/mutation.h"
#include "trace/record.h"

// The loop runs parts whose gradients, received or accumulated, have at most this size; the pool
// runs larger ones.
enum { INLINE_BYTES = 64 << 10 };

static void fail(distributed_pass *x) {
    agent *a = x->agent;
    gw_error error = *scope_error(x->root);
    error_add_trace(&error, a->name, "backward");
    env_enter(a->env);
    distributed_pass_fail_part_on_loop(x, &error);
    env_leave(a->env);
}

static bool plan(distributed_pass *x) {
    x->root = agent_scope_open(x->agent, 0, x->scope, ENV_NEVER);
    // Other calls may wait for this thread, so a hook that waited for them here would never end.
    if (gw_ok(x->root)) x->root->may_wait = false;
    static gw_tensor *const none[1];
    gw_backward_options options = GW_OPTIONS(gw_backward_options, .retain_graph = x->retains,
                                             .inputs = x->leafless ? none : NULL);
    x->root->not_synchronised = x->not_synchronised;
    bool ok = distributed_pass_plan(x, x->root, options) && pass_plan(x->pass);
    if (ok) distributed_pass_expect_answers(x);
    if (ok && x->pass->gates) {
        accumulated_import((accumulated){ x->agent, x->initiator, x->scope }, x->root);
        ok = gates_begin(x->pass);
    }
    x->planned = true;
    x->is_large = ok && pass_leaf_bytes(x->pass) > INLINE_BYTES;
    return ok;
}

static void send_out(distributed_pass *x) {
    agent *a = x->agent;
    gw_error error;
    env_enter(a->env);
    if (!distributed_pass_send_outbox_on_loop(x, &x->outbox, &error))
        distributed_pass_fail_part_on_loop(x, &error);
    bool late = x->pass->late_count && !has_mutation(MUTATION_DONE_WHILE_REDUCING);
    bool begins = x->state == DISTRIBUTED_PASS_RUNNING;
    if (!x->missing && !late)
        distributed_pass_apply_on_loop(x, DISTRIBUTED_PASS_DONE);
    else if (!x->missing && begins)
        distributed_pass_apply_on_loop(x, DISTRIBUTED_PASS_REDUCES);
    env_leave(a->env);
    distributed_pass_mail_free(&x->outbox);
}

// Whether threads run the part, or may run it again.
static bool is_under_way(const distributed_pass *x) {
    return x->state == DISTRIBUTED_PASS_RUNNING || x->state == DISTRIBUTED_PASS_REDUCING;
}

static bool take_inbox(distributed_pass *x, list_node *out) {
    env *e = x->agent->env;
    list_init(out);
    env_enter(e);
    list_splice(out, &x->inbox);
    list_init(&x->inbox);
    bool continues = (!list_is_empty(out) || x->answered) && is_under_way(x);
    x->answered = false;
    bool ends = !continues && x->ends;
    if (!continues) x->runs = false;
    env_leave(e);
    if (continues) return true;
    distributed_pass_mail_free(out);
    if (ends) distributed_pass_end(x);
    return false;
}

static void run(distributed_pass *x) {
    list_node arrived;
    // |x| may be gone at the end.
    int row = x->agent->observer.row, initiator = x->initiator;
    uint64_t scope = x->scope;
    bool is_recorded = trace_is_on(TRACE_PASS);
    uint32_t name = is_recorded ? trace_name(agent_member(x->agent, initiator)->name) : 0;
    if (is_recorded) trace_record(TRACE_PART_BEGUN, row, scope, (uint64_t)initiator, name);
    // The older passes of the scope are over, most often, and their gradients can be summed.
    if (!x->folded) accumulated_fold((accumulated){ x->agent, x->initiator, x->scope });
    x->folded = true;
    while (take_inbox(x, &arrived)) {
        bool ok = x->planned ? gw_ok(x->root) : plan(x);
        if (!ok) distributed_pass_mail_free(&arrived);
        failpoint("pass_part");
        ok = ok && distributed_pass_run(x, &arrived);
        bool done = ok && !x->missing && !x->pass->late_count;
        if (done) failpoint("pass_done");
        if (done) ok = distributed_pass_finish(x);
        if (ok)
            send_out(x);
        else
            fail(x);
    }
    if (is_recorded) trace_record(TRACE_PART_ENDED, row, scope, (uint64_t)initiator, name);
}

static void run_job(pool_job *j) {
    run(list_entry(j, distributed_pass, job));
}

static bool job_taken(pool_job *j) {
    (void)j;
    return true;
}

static void submit_on_loop(distributed_pass *x) {
    x->job = (pool_job){ .depth = 1, .taken = job_taken, .run = run_job };
    pool_submit_on_loop(&x->agent->pool, &x->job);
}

// The plan decides whether the part is large: a small gradient may lead to a large model.
static void run_task(task *t) {
    distributed_pass *x = list_entry(t, distributed_pass, task);
    if (!x->planned) plan(x);
    if (!x->is_large) {
        run(x);
        return;
    }
    env_enter(x->agent->env);
    submit_on_loop(x);
    env_leave(x->agent->env);
}

// Whether an older pass of the initiator is settled and has not given up its graph yet: it must do
// so before |x| walks the graph.
static bool is_held(const distributed_pass *x) {
    list_each(l, &graphs_of(x->agent)->ending) {
        const distributed_pass *other = list_entry(l, distributed_pass, ending);
        if (other->settled && other->initiator == x->initiator) return true;
    }
    return false;
}

void distributed_pass_schedule_on_loop(distributed_pass *x, uint64_t size) {
    if (x->initiator == x->agent->rank) {
        if (x->waiting) env_wake(x->agent->env, x->waiting);
        return;
    }
    if (x->runs || !is_under_way(x) || (list_is_empty(&x->inbox) && !x->answered)) return;
    if (!x->planned && is_held(x)) return;
    x->runs = true;
    if (x->is_large || size > INLINE_BYTES) {
        submit_on_loop(x);
    } else {
        x->task.run = run_task;
        pool_run_soon_on_loop(&x->agent->pool, &x->task);
    }
}

// ---- Late answers -------------------------------------------------------------------------------

static void answer_arrived(pass *p) {
    distributed_pass *x = p->runner;
    x->answered = true;
    distributed_pass_schedule_on_loop(x, 0);
}

void distributed_pass_expect_answers(distributed_pass *x) {
    x->pass->runner = x;
    x->pass->on_answer = answer_arrived;
}
