// The states of a participant's part of a pass, how it ends, and what ends it: failures, and passes that are over. With
// the loop lock held, unless a comment states otherwise.
#include "distributed/autograd/passes.h"

#include "base/machine.h"
#include "base/mem.h"
#include "base/mutation.h"

#include <assert.h>

// ---- Ending, after the thread that runs the part has left it ------------------------------------

static void free_grads(distributed_pass *x) {
    for (int i = 0; i < x->grad_count; i++) {
        handle_release(x->grads[i].leaf);
        handle_release(x->grads[i].grad);
    }
    mem_free(x->grads);
    x->grads = NULL;
    x->grad_count = 0;
}

static void run_held(agent *a, int from) {
    list_each(l, &graphs_of(a)->passes) {
        distributed_pass *x = list_entry(l, distributed_pass, link);
        if (x->initiator == from) distributed_pass_schedule_on_loop(x, 0);
    }
}

// Without the loop lock, because it may run a user's destructors.
void distributed_pass_end(distributed_pass *x) {
    env *e = x->agent->env;
    env_enter(e);
    bool dropped = x->state == DISTRIBUTED_PASS_DROPPED, settled = x->settled;
    env_leave(e);
    if (settled) distributed_pass_give_up_graph(x);
    distributed_pass_fini(x);
    env_enter(e);
    // Another thread may have dropped the settled part meanwhile.
    bool again = !dropped && x->state == DISTRIBUTED_PASS_DROPPED;
    agent *a = x->agent;
    int from = x->initiator;
    x->ends = x->settled = false;
    list_remove(&x->ending);
    if (settled) run_held(a, from);
    env_leave(e);
    if (!dropped && !again) return;
    free_grads(x);
    mem_free(x);
}

static void end_task(task *t) {
    distributed_pass_end(list_entry(t, distributed_pass, task));
}

static void end_soon(distributed_pass *x) {
    if (x->ends) return;
    x->ends = true;
    list_append(&graphs_of(x->agent)->ending, &x->ending);
    if (x->runs) return;  // the thread that runs it calls distributed_pass_end
    x->task.run = end_task;
    env_defer(x->agent->env, &x->task);
}

// ---- Actions ------------------------------------------------------------------------------------

static void nothing(distributed_pass *x) {
    (void)x;
}

// Stops counting the gradients in |inbox| as unexpected, because the marks have arrived.
static void expect_inbox(distributed_pass *x) {
    list_each(l, &x->inbox) {
        const distributed_pass_mail *mail = list_entry(l, distributed_pass_mail, link);
        passes_peer *p = passes_peer_find_on_loop(x->agent, mail->peer);
        if (!p) continue;
        p->unexpected_count--;
        p->unexpected_bytes -= message_size(mail->message);
    }
}

// The number of gradients to await follows from the marks, so those in |inbox| are no longer unexpected.
static void begin(distributed_pass *x) {
    expect_inbox(x);
    for (uint32_t i = 0; i < x->marks.count; i++)
        x->awaited += x->marks.items[i].rank == (uint32_t)x->agent->rank;
}

static void send_done(distributed_pass *x) {
    passes_report_on_loop(x->agent,
                          (pass_report){ .kind = KIND_PASS_DONE,
                                         .to = x->initiator,
                                         .initiator = x->initiator,
                                         .number = x->number },
                          NULL);
    leaving_check_on_loop(x->agent);
}

static void forget_marks(distributed_pass *x) {
    passes_peer *by = x->by >= 0 ? passes_peer_find_on_loop(x->agent, x->by) : NULL;
    if (by) by->mark_count -= x->counted_marks;
    x->counted_marks = 0;
}

static void settle(distributed_pass *x) {
    forget_marks(x);
    x->settled = true;
    end_soon(x);
}

static void drop(distributed_pass *x) {
    passes_peer *by = x->by >= 0 ? passes_peer_find_on_loop(x->agent, x->by) : NULL;
    if (by) by->open_count--;
    forget_marks(x);
    list_remove(&x->link);
    end_soon(x);
    leaving_check_on_loop(x->agent);
}

static void drop_unmarked(distributed_pass *x) {
    expect_inbox(x);
    drop(x);
}

static void settle_and_drop(distributed_pass *x) {
    x->settled = true;
    drop(x);
}

// Other workers may have received that the pass succeeded. They will not release the sends that it
// went through, so this worker deletes them.
static void give_up_sends_and_drop(distributed_pass *x) {
    x->unsure = true;
    settle_and_drop(x);
}

// ---- The table ----------------------------------------------------------------------------------

typedef MACHINE_RULE(distributed_pass_state, distributed_pass_event, distributed_pass *x) rule;

// clang-format off
static const rule rules[] = {
    { DISTRIBUTED_PASS_MARKING,  DISTRIBUTED_PASS_MARKED,    DISTRIBUTED_PASS_RUNNING,  begin,                  "the marks name the gradients that this worker awaits" },
    { DISTRIBUTED_PASS_MARKING,  DISTRIBUTED_PASS_SUCCEEDED, DISTRIBUTED_PASS_DROPPED,  drop_unmarked,             "a pass that ends before this worker is COMPLETE has failed" },
    { DISTRIBUTED_PASS_MARKING,  DISTRIBUTED_PASS_RELAYED,     DISTRIBUTED_PASS_MARKING,  nothing,                "only a COMPLETE part accepts a relayed end; other parts wait for the initiator" },
    { DISTRIBUTED_PASS_MARKING,  DISTRIBUTED_PASS_FAILED,    DISTRIBUTED_PASS_DROPPED,  drop_unmarked,             "no node has run" },
    { DISTRIBUTED_PASS_MARKING,  DISTRIBUTED_PASS_CLOSED,    DISTRIBUTED_PASS_MARKING,  nothing,                "the initiator reports the end of the pass now, or when an older pass has ended" },
    { DISTRIBUTED_PASS_MARKING,  DISTRIBUTED_PASS_LOST,      DISTRIBUTED_PASS_DROPPED,  drop_unmarked,             "only the initiator uses the result" },

    { DISTRIBUTED_PASS_RUNNING,  DISTRIBUTED_PASS_DONE,      DISTRIBUTED_PASS_COMPLETE, send_done,              "all marked slots have their gradients, and the next gradients are sent" },
    { DISTRIBUTED_PASS_RUNNING,  DISTRIBUTED_PASS_SUCCEEDED, DISTRIBUTED_PASS_DROPPED,  drop,                   "a pass that ends before this worker is COMPLETE has failed" },
    { DISTRIBUTED_PASS_RUNNING,  DISTRIBUTED_PASS_RELAYED,     DISTRIBUTED_PASS_RUNNING,  nothing,                "only a COMPLETE part accepts a relayed end; other parts wait for the initiator" },
    { DISTRIBUTED_PASS_RUNNING,  DISTRIBUTED_PASS_FAILED,    DISTRIBUTED_PASS_DROPPED,  drop,                   "the pass failed here or on another worker; the graph stays as it was" },
    { DISTRIBUTED_PASS_RUNNING,  DISTRIBUTED_PASS_CLOSED,    DISTRIBUTED_PASS_RUNNING,  nothing,                "the initiator reports the end of the pass now, or when an older pass has ended" },
    { DISTRIBUTED_PASS_RUNNING,  DISTRIBUTED_PASS_LOST,      DISTRIBUTED_PASS_DROPPED,  drop,                   "only the initiator uses the result" },

    { DISTRIBUTED_PASS_RUNNING,  DISTRIBUTED_PASS_REDUCES,   DISTRIBUTED_PASS_REDUCING, nothing,                "the means of this worker's buckets are missing; no thread waits for them" },
    { DISTRIBUTED_PASS_REDUCING, DISTRIBUTED_PASS_DONE,      DISTRIBUTED_PASS_COMPLETE, send_done,              "the means have arrived, and the next gradients are sent" },
    { DISTRIBUTED_PASS_REDUCING, DISTRIBUTED_PASS_SUCCEEDED, DISTRIBUTED_PASS_DROPPED,  drop,                   "a pass that ends before this worker is COMPLETE has failed" },
    { DISTRIBUTED_PASS_REDUCING, DISTRIBUTED_PASS_RELAYED,     DISTRIBUTED_PASS_REDUCING, nothing,                "only a COMPLETE part accepts a relayed end; other parts wait for the initiator" },
    { DISTRIBUTED_PASS_REDUCING, DISTRIBUTED_PASS_FAILED,    DISTRIBUTED_PASS_DROPPED,  drop,                   "the pass failed here or on another worker; the gates of models are notified" },
    { DISTRIBUTED_PASS_REDUCING, DISTRIBUTED_PASS_CLOSED,    DISTRIBUTED_PASS_REDUCING, nothing,                "the initiator reports the end of the pass now, or when an older pass has ended" },
    { DISTRIBUTED_PASS_REDUCING, DISTRIBUTED_PASS_LOST,      DISTRIBUTED_PASS_DROPPED,  drop,                   "only the initiator uses the result; the gates of models are notified" },

    { DISTRIBUTED_PASS_COMPLETE, DISTRIBUTED_PASS_SUCCEEDED, DISTRIBUTED_PASS_SETTLED,  settle,                 "the pass has succeeded everywhere: the graph is freed, the gradients stay" },
    { DISTRIBUTED_PASS_COMPLETE, DISTRIBUTED_PASS_RELAYED,     DISTRIBUTED_PASS_SETTLED,  settle,                 "the graph is freed before the initiator's next pass walks it" },
    { DISTRIBUTED_PASS_COMPLETE, DISTRIBUTED_PASS_FAILED,    DISTRIBUTED_PASS_DROPPED,  drop,                   "the pass failed on another worker; the graph stays as it was" },
    { DISTRIBUTED_PASS_COMPLETE, DISTRIBUTED_PASS_CLOSED,    DISTRIBUTED_PASS_DROPPED,  settle_and_drop,        "the pass was not aborted, so it has succeeded; a closed scope needs no gradients" },
    { DISTRIBUTED_PASS_COMPLETE, DISTRIBUTED_PASS_LOST,      DISTRIBUTED_PASS_DROPPED,  give_up_sends_and_drop, "only the initiator knew whether the pass has succeeded" },

    { DISTRIBUTED_PASS_SETTLED,  DISTRIBUTED_PASS_SUCCEEDED, DISTRIBUTED_PASS_SETTLED,  nothing,                "the initiator confirms the relayed end" },
    { DISTRIBUTED_PASS_SETTLED,  DISTRIBUTED_PASS_RELAYED,     DISTRIBUTED_PASS_SETTLED,  nothing,                "this part of the pass is settled already" },
    { DISTRIBUTED_PASS_SETTLED,  DISTRIBUTED_PASS_FAILED,    DISTRIBUTED_PASS_DROPPED,  drop,                   "the initiator contradicts the relayed end" },
    { DISTRIBUTED_PASS_SETTLED,  DISTRIBUTED_PASS_FOLDED,    DISTRIBUTED_PASS_DROPPED,  drop,                   "an older pass of the same scope has taken over the gradients of this pass" },
    { DISTRIBUTED_PASS_SETTLED,  DISTRIBUTED_PASS_CLOSED,    DISTRIBUTED_PASS_DROPPED,  drop,                   "a closed scope needs no gradients" },
    { DISTRIBUTED_PASS_SETTLED,  DISTRIBUTED_PASS_LOST,      DISTRIBUTED_PASS_DROPPED,  drop,                   "only calls of the initiator use the gradients" },

    { DISTRIBUTED_PASS_DROPPED,  DISTRIBUTED_PASS_REDUCES,   DISTRIBUTED_PASS_DROPPED,  nothing,                "this part of the pass was dropped while it ran" },
    { DISTRIBUTED_PASS_DROPPED,  DISTRIBUTED_PASS_DONE,      DISTRIBUTED_PASS_DROPPED,  nothing,                "this part of the pass was dropped while it ran" },
    { DISTRIBUTED_PASS_DROPPED,  DISTRIBUTED_PASS_FAILED,    DISTRIBUTED_PASS_DROPPED,  nothing,                "this part of the pass was dropped while it ran" },
};
// clang-format on

void distributed_pass_apply_on_loop(distributed_pass *x, distributed_pass_event event) {
    const rule *r = machine_find(rules, sizeof rules, sizeof *rules, x->state, event);
    assert(r);  // a message becomes an event only in states that have a rule for it
    x->state = r->to;
    r->action(x);
}

// ---- Failing ------------------------------------------------------------------------------------

void distributed_pass_fail_on_loop(distributed_pass *x, const gw_error *why) {
    if (!x->error.status) x->error = *why;
    if (x->waiting) env_wake(x->agent->env, x->waiting);
}

void distributed_pass_fail_part_on_loop(distributed_pass *x, const gw_error *why) {
    agent *a = x->agent;
    if (x->initiator == a->rank) {
        distributed_pass_fail_on_loop(x, why);
        return;
    }
    if (x->state != DISTRIBUTED_PASS_DROPPED) {
        passes_peer *in = passes_peer_of_on_loop(a, x->initiator);
        if (in) passes_peer_remember_aborted(in, x->number);
        distributed_pass_abort_on_loop(x, x->initiator, why);
    }
    distributed_pass_apply_on_loop(x, DISTRIBUTED_PASS_FAILED);
}

// ---- Passes that are over -----------------------------------------------------------------------

static bool has_failed(const distributed_pass *x, const passes_ended *ended) {
    uint64_t before = ended->settled - 1 - x->number;
    return before < PASSES_FAILED_BITS && (ended->failed >> before & 1) &&
           !has_mutation(MUTATION_FAILED_OMITTED);
}

void passes_note_ended_on_loop(agent *a, int from, passes_ended ended) {
    passes_peer *in = from == a->rank ? NULL : passes_peer_of_on_loop(a, from);
    if (!in) return;
    if (ended.settled > in->ended.settled) {
        in->ended = ended;
        uint32_t left = 0;
        for (uint32_t i = 0; i < in->count; i++)
            if (in->aborted[i] >= ended.settled) in->aborted[left++] = in->aborted[i];
        in->count = left;
    }
    list_each(l, &graphs_of(a)->passes) {
        distributed_pass *x = list_entry(l, distributed_pass, link);
        if (x->initiator == from && x->number < ended.settled)
            distributed_pass_apply_on_loop(x, has_failed(x, &ended) ? DISTRIBUTED_PASS_FAILED
                                                                    : DISTRIBUTED_PASS_SUCCEEDED);
    }
}

// A participant that relays an end may be faster than the initiator, and may be
// wrong. So only the initiator's report counts for failures, and for passes too old for the 64 bits
// of |failed|.
void passes_note_relayed_on_loop(agent *a, int from, passes_ended ended) {
    list_each(l, &graphs_of(a)->passes) {
        distributed_pass *x = list_entry(l, distributed_pass, link);
        if (x->initiator != from || from == a->rank || x->number >= ended.settled ||
            ended.settled - x->number > PASSES_FAILED_BITS || has_failed(x, &ended))
            continue;
        distributed_pass_apply_on_loop(x, DISTRIBUTED_PASS_RELAYED);
    }
}
