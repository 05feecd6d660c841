// A member's side of agreements: its proposals, their receivers, and the end of an agreement.
#include "collective/agree/agree.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/mutation.h"
#include "base/status.h"
#include "collective/group/groups_state.h"

// ---- The agreements of a group ------------------------------------------------------------------

static void fire_poll(timer *t) {
    agreements *x = list_entry(t, agreements, poll);
    x->is_impatient = true;
    agree_consider_on_loop(x->group);
}

static void free_agreements(agreements *x, int count) {
    for (int i = 0; x->proposals && i < count; i++) proposal_clear(&x->proposals[i]);
    error_forget(&x->missed);
    decision_release(x->stored);
    mem_free(x->is_out);
    mem_free(x->has_stored);
    mem_free(x->joining_stored);
    mem_free(x->proposals);
    mem_free(x);
}

agreements *agree_of_on_loop(gw_group *g) {
    if (g->agreements) return g->agreements;
    agreements *x = mem_calloc(sizeof *x);
    if (!x) return NULL;
    size_t count = (size_t)g->count;
    x->group = g;
    x->poll.fire = fire_poll;
    list_init(&x->calls);
    x->is_out = mem_calloc(count);
    x->has_stored = mem_calloc(count);
    x->proposals = mem_calloc(count * sizeof *x->proposals);
    if (!x->is_out || !x->has_stored || !x->proposals) {
        free_agreements(x, g->count);
        return NULL;
    }
    for (int i = 0; i < g->count; i++)
        x->is_out[i] = agent_member(g->agent, g->members[i].rank)->lost;
    return g->agreements = x;
}

void agree_free(gw_group *g) {
    if (g->agreements) free_agreements(g->agreements, g->count);
    g->agreements = NULL;
}

int agree_leader_on_loop(const gw_group *g) {
    for (int i = 0; i < g->count; i++)
        if (!g->agreements->is_out[i]) return i;
    return g->self;
}

agreement_call *agree_first_call(const agreements *x) {
    return list_is_empty(&x->calls) ? NULL : list_entry(x->calls.next, agreement_call, link);
}

const proposal *agree_own_on_loop(const agreements *x) {
    static const proposal not_called;
    const agreement_call *c = agree_first_call(x);
    return c ? &c->own : &not_called;
}

// ---- Proposing ----------------------------------------------------------------------------------

void agree_no_memory_on_loop(gw_group *g) {
    gw_error error;
    error_set(&error, GW_NO_MEMORY, "%s has no memory for an agreement",
              group_member_name(g, g->self));
    agree_give_up_on_loop(g, &error);
}

// GRP-11.
void agree_propose_on_loop(gw_group *g) {
    agreements *x = g->agreements;
    int leader = agree_leader_on_loop(g);
    if (leader == g->self) {
        agree_consider_on_loop(g);
        return;
    }
    message *m = group_message_on_loop(g, KIND_PROPOSE, 0, agree_number(x));
    if (m) proposal_put(&m->head, agree_own_on_loop(x));
    if (!agent_post_on_loop(g->agent, g->members[leader].rank, m)) agree_no_memory_on_loop(g);
}

// Whether the leader needs a message from this member.
static bool has_something_to_report(const agreements *x) {
    return !list_is_empty(&x->calls) || x->stored || x->polled == agree_number(x);
}

// ---- The end of a call --------------------------------------------------------------------------

void agree_free_call(agreement_call *c) {
    error_forget(&c->own.error);
    mem_free(c);
}

// Ends with |d| or with |error|. If its thread no longer waits, no program enters the next generation.
void agree_finish_call_on_loop(agreement_call *c, decision *d, const gw_error *error) {
    gw_group *g = c->group;
    env_set_timer(g->agent->env, &c->deadline, ENV_NEVER);
    awaits_close_on_loop(&c->await);
    list_remove(&c->link);
    if (error) c->error = *error;
    c->result = d ? decision_retain(d) : NULL;
    c->is_done = true;
    if (c->waiting) {
        env_wake(g->agent->env, c->waiting);
        return;
    }
    if (d && d->member_count) {
        gw_error gone;
        error_set(&gone, GW_CANCELLED, "%s has stopped re-forming the group",
                  group_member_name(g, g->self));
        reform_break_next_on_loop(g->agent, d, &gone);
    }
    decision_release(c->result);
    agree_free_call(c);
    group_release_on_loop(g);
}

void agree_fail_calls_on_loop(agreements *x, const gw_error *error) {
    for (agreement_call *c; (c = agree_first_call(x));) agree_finish_call_on_loop(c, NULL, error);
}

// ---- The end ------------------------------------------------------------------------------------

void group_end_on_loop(gw_group *g) {
    if (!list_is_empty(&g->detached))
        return;  // its messages still need the group: called again when they have ended
    groups_remove_on_loop(g, agree_released(g));
    group_free_records(g);
    agree_free(g);
}

static void end_group(gw_group *g, const decision *d) {
    gw_error error;
    g->is_over = true;
    error_set(&error, GW_WRONG_STATE,
              "group \"%s\" was re-formed: use the group that gw_group_reform returned", d->name);
    agree_fail_calls_on_loop(g->agreements, &error);
    error_set(&error, GW_WRONG_STATE,
              "the group was re-formed: use the group that gw_group_reform returned");
    group_break_on_loop(g, &error);
    group_end_on_loop(g);
}

// GRP-15: members that have proposed to this member, and that the leader before it has not notified.
static void notify_proposers(gw_group *g) {
    agreements *x = g->agreements;
    for (int i = 0; i < g->count && !x->leads; i++) {
        if (x->proposals[i].number != agree_number(x)) continue;
        agent_post_on_loop(g->agent, g->members[i].rank,
                           group_message_on_loop(g, KIND_RELEASED, 0, agree_number(x)));
    }
}

// Its program has not called.
static void miss(agreements *x, const decision *d) {
    error_forget(&x->missed);
    error_keep(&x->missed, error_kept(d->error));
    x->missed_spares_reforms = d->spares_reforms;
}

void agree_released_on_loop(gw_group *g) {
    agreements *x = g->agreements;
    decision *d = x->stored;
    agreement_call *c = agree_first_call(x);
    bool continues = c && d->spares_reforms && c->own.what == AGREE_REFORM;
    handle_retain(g);
    notify_proposers(g);
    x->stored = NULL;
    x->leads = x->has_hurried = x->is_impatient = false;
    x->released++;
    env_set_timer(g->agent->env, &x->poll, ENV_NEVER);
    if (c && !continues)
        agree_finish_call_on_loop(c, d, NULL);
    else if (!c && d->error)
        miss(x, d);
    if (d->member_count)
        end_group(g, d);
    else if (has_something_to_report(x))
        agree_propose_on_loop(g);
    decision_release(d);
    group_release_on_loop(g);
}

// To all members that are present.
static void send_absent(gw_group *g) {
    for (int i = 0; i < g->count; i++) {
        int rank = g->members[i].rank;
        if (i == g->self || agent_member(g->agent, rank)->lost) continue;
        agent_post_on_loop(g->agent, rank, group_message_on_loop(g, KIND_ABSENT, 0, 0));
    }
}

void agree_give_up_on_loop(gw_group *g, const gw_error *error) {
    if (g->is_absent) return;
    handle_retain(g);
    g->is_absent = true;
    log_error("%s", error->text);
    send_absent(g);
    if (!g->agreements) {  // their allocation had failed
        group_release_on_loop(g);
        return;
    }
    const decision *d = g->agreements->stored;
    if (d && d->member_count) reform_break_next_on_loop(g->agent, d, error);
    env_set_timer(g->agent->env, &g->agreements->poll, ENV_NEVER);
    agree_fail_calls_on_loop(g->agreements, error);
    group_release_on_loop(g);
}

void agree_leaving_on_loop(gw_group *g) {
    if (!g->agreements || g->is_absent || g->is_over || !list_is_empty(&g->agreements->calls))
        return;
    g->is_absent = true;
    env_set_timer(g->agent->env, &g->agreements->poll, ENV_NEVER);
    send_absent(g);
}

void agree_stop_on_loop(gw_group *g, const gw_error *why) {
    if (!g->agreements) return;
    handle_retain(g);
    g->is_absent = true;
    env_set_timer(g->agent->env, &g->agreements->poll, ENV_NEVER);
    agree_fail_calls_on_loop(g->agreements, why);
    group_release_on_loop(g);
}

// ---- Members that no longer participate ---------------------------------------------------------

// A member no longer participates.
void agree_is_out_on_loop(gw_group *g, int index) {
    agreements *x = g->agreements;
    if (x->is_out[index]) return;
    int before = agree_leader_on_loop(g);
    x->is_out[index] = true;
    proposal_clear(&x->proposals[index]);
    if (g->is_absent) return;
    bool is_led_by_another = agree_leader_on_loop(g) != before;
    if (is_led_by_another && has_mutation(MUTATION_DECISION_NOT_STORED)) {
        decision_release(x->stored);
        x->stored = NULL;
    }
    if (is_led_by_another && has_something_to_report(x))
        agree_propose_on_loop(g);
    else
        agree_consider_on_loop(g);
}

void agree_lost_on_loop(gw_group *g, int index) {
    if (!g->agreements) return;
    handle_retain(g);
    agree_is_out_on_loop(g, index);
    group_release_on_loop(g);
}
