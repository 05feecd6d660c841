// Calls of the program that agree: how long they wait, and for which members.
#include "agent/bodies/observe.h"
#include "base/mem.h"
#include "base/status.h"
#include "base/value.h"
#include "collective/agree/agree.h"

#include <stdio.h>

#define RELEASE_NS INT64_C(30000000000)  // GRP-18

static void propose_if_first(agreement_call *c) {
    if (agree_first_call(c->group->agreements) == c) agree_propose_on_loop(c->group);
}

static void arm(agreement_call *c, int64_t after_ns) {
    env *e = c->group->agent->env;
    env_set_timer(e, &c->deadline, env_now_ns(e) + after_ns);
}

static void fire_deadline(timer *t) {
    agreement_call *c = list_entry(t, agreement_call, deadline);
    gw_group *g = c->group;
    gw_error error;
    handle_retain(g);
    if (c->is_late) {
        char silent[GW_ERROR_TEXT_MAX] = "";
        text_builder t = { silent, 0, sizeof silent };
        group_put_silent_on_loop(g, agree_leader_on_loop(g), agree_is_silent_on_loop, &t);
        error_set(&error, GW_TIMEOUT, "group \"%s\": %sagreement %llu has not ended", g->name,
                  silent, (unsigned long long)agree_number(g->agreements));
        agree_give_up_on_loop(g, &error);
    } else {
        c->is_late = true;
        error_set(&error, GW_TIMEOUT, "the deadline of %s has passed",
                  group_member_name(g, g->self));
        error_keep(&c->own.error, &error);
        arm(c, RELEASE_NS);
        propose_if_first(c);
    }
    group_release_on_loop(g);
}

static gw_status check_agrees(gw_group *g, agreement_kind what, gw_error *error) {
    const agent *a = g->agent;
    if (a->phase == AGENT_LEFT) return agent_left_error(a, "an agreement", error);
    if (awaits_check_acts_on_loop(a, error)) return error->status;
    if (g->is_over)
        return error_set(error, GW_WRONG_STATE,
                         "group \"%s\" was re-formed: use the group that gw_group_reform returned",
                         g->name);
    if (g->is_absent)
        return error_set(error, GW_WRONG_STATE,
                         "%s has ended its part in the agreements of group \"%s\"",
                         group_member_name(g, g->self), g->name);
    agreements *x = agree_of_on_loop(g);
    if (!x) {
        agree_no_memory_on_loop(g);
        return error_set(error, GW_NO_MEMORY, "no memory for an agreement");
    }
    if (!x->missed) return GW_OK;
    bool spares = x->missed_spares_reforms && what == AGREE_REFORM;
    *error = *error_kept(x->missed);
    error_forget(&x->missed);
    return spares ? GW_OK : error->status;
}

// Members that have not proposed, and those that have: their programs wait, so that they are not idle.
static int next_member(const await *w, int *at) {
    const gw_group *g = list_entry(w, const agreement_call, await)->group;
    for (; *at < g->count; ++*at)
        if (*at != g->self && !g->agreements->is_out[*at]) return g->members[(*at)++].rank;
    return -1;
}

// GRP-18: the dismissed member sends to all that it is absent, unless it has proposed meanwhile.
static void dismiss(await *w, int rank, const gw_error *why) {
    gw_group *g = list_entry(w, agreement_call, await)->group;
    (void)why;
    agent_post_on_loop(g->agent, rank,
                       group_message_on_loop(g, KIND_DISMISS, 0, agree_number(g->agreements)));
}

static const await_class await_of_members = { .next = next_member, .end = dismiss };

static gw_status start_on_loop(agreement_call *c, gw_scope *s, int64_t after_ns, gw_error *error) {
    gw_group *g = c->group;
    agent *a = g->agent;
    gw_status status = check_agrees(g, (agreement_kind)c->own.what, error);
    if (status) return status;
    handle_retain(g);
    c->deadline.fire = fire_deadline;
    arm(c, after_ns);
    list_append(&g->agreements->calls, &c->link);
    awaits_open_on_loop(a, &c->await, &await_of_members, a->rank, awaits_caller_on_loop(a, s));
    propose_if_first(c);
    return GW_OK;
}

// The thread no longer waits; the other members receive |why|.
static void abandon(agreement_call *c, const gw_error *why) {
    gw_error error = group_error_of_self(c->group, why);
    c->waiting = NULL;
    error_keep(&c->own.error, &error);
    c->is_late = true;
    arm(c, RELEASE_NS);
    propose_if_first(c);
}

static int64_t time_left_ns(gw_scope *s, const gw_group *g, int64_t timeout_ms) {
    int64_t left_ns = timeout_ms > INT64_MAX / 1000000 ? INT64_MAX / 4 : timeout_ms * 1000000;
    if (!timeout_ms) left_ns = INT64_MAX / 4;
    int64_t until_ns = context_deadline_ns(s), now_ns = env_now_ns(g->agent->env);
    if (until_ns - now_ns < left_ns) left_ns = until_ns - now_ns;
    return left_ns > 0 ? left_ns : 0;
}

// A scope that has failed enters as failed: no thread waits.
static void start_failed(gw_scope *s, agreement_call *c) {
    gw_error error = group_error_of_self(c->group, s->error), ignored;
    env *e = c->group->agent->env;
    env_enter(e);
    error_keep(&c->own.error, &error);
    c->is_late = true;
    if (start_on_loop(c, s, RELEASE_NS, &ignored)) agree_free_call(c);
    env_leave(e);  // |c| may be over, in a group of one
}

typedef struct agree_wait {
    waiter waiter;
    const agreement_call *call;
} agree_wait;

static void describe(const waiter *w, trace_activity *out) {
    const agreement_call *c = list_entry(w, agree_wait, waiter)->call;
    out->kind = TRACE_WAITS_COLLECTIVE;
    out->number = c->group->agreements->released + 1;
    snprintf(out->what, sizeof out->what, "agreement");
    snprintf(out->in, sizeof out->in, "%.90s", c->group->name);
    activity_add_await(out, &c->await);
}

static decision *wait_for(gw_scope *s, agreement_call *c, int64_t timeout_ms) {
    gw_group *g = c->group;
    gw_error error;
    agree_wait w = { .waiter = { .what = "an agreement", .patient = true, .describe = describe },
                     .call = c };
    c->waiting = &w.waiter;
    env_enter(g->agent->env);
    gw_status status = start_on_loop(c, s, time_left_ns(s, g, timeout_ms), &error);
    bool is_done =
        !status && (c->is_done || context_wait_on_loop(g->agent, s, &w.waiter, ENV_NEVER));
    if (!status && !is_done && !c->is_done) {
        if (!context_check_cancelled(s, &error))
            error_set(&error, GW_CANCELLED, "the wait has ended");
        abandon(c, &error);
        c = NULL;
        status = error.status;
    }
    if (!status) error = c->error;
    decision *d = status ? NULL : c->result;
    if (!status) group_release_on_loop(g);
    env_leave(g->agent->env);
    if (c) agree_free_call(c);
    if (error.status && !d) scope_fail_with(s, &error);
    return d;
}

decision *agree_call(gw_scope *s, gw_group *g, const char *what, const proposal *own,
                     int64_t timeout_ms) {
    gw_error error;
    bool failed = s->error;
    awaits_note_root(s);
    if (!failed && context_check_wait(s, &error)) {
        error_prefix(&error, what);
        scope_fail_with(s, &error);
        failed = true;
    }
    agreement_call *c = mem_calloc(sizeof *c);
    if (!c) {  // no thread waits for it
        if (!failed) scope_fail(s, GW_NO_MEMORY, "%s: no memory for an agreement", what);
        env_enter(g->agent->env);
        agree_no_memory_on_loop(g);
        env_leave(g->agent->env);
        return NULL;
    }
    c->group = g;
    c->own = *own;
    if (failed) {
        start_failed(s, c);
        return NULL;
    }
    decision *d = wait_for(s, c, timeout_ms);
    if (!d || !d->error) return d;
    scope_fail_with(s, error_kept(d->error));
    agree_release(g, d);
    return NULL;
}

void agree_release(gw_group *g, decision *d) {
    env_enter(g->agent->env);
    decision_release(d);
    env_leave(g->agent->env);
}

// ---- Public functions ---------------------------------------------------------------------------

gw_agreement gw_group_agree(gw_scope *s, gw_group *g, uint64_t flags) {
    gw_agreement out = { 0 };
    if (!group_is_given(s, g, "gw_group_agree")) return out;
    const proposal own = { .what = AGREE_FLAGS, .flags = flags };
    decision *d = agree_call(s, g, "gw_group_agree", &own, g->timeout_ms);
    if (!d) return out;
    int count = 0;
    for (int i = 0; i < d->size; i++) count += !d->here[i];
    int *missing = count ? gw_alloc(s, (size_t)count * sizeof *missing) : NULL;
    for (int i = 0; missing && i < d->size; i++)
        if (!d->here[i]) missing[out.missing_count++] = i;
    out.missing = missing;
    out.flags = gw_ok(s) ? d->flags : 0;
    agree_release(g, d);
    return out;
}
