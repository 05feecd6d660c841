// The leader's side of agreements: when it decides, and when its decision is released.
#include "agent/state/agent.h"
#include "base/mem.h"
#include "base/mutation.h"
#include "base/status.h"
#include "collective/agree/agree.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

// GRP-12: the time until it polls members that have not proposed, and until it polls again.
#define PATIENCE_NS INT64_C(200000000)
#define AGAIN_NS INT64_C(1000000000)

// ---- Proposals ----------------------------------------------------------------------------------

// The proposal of member |i| for the next number; NULL: none has arrived.
static const proposal *proposal_of(const gw_group *g, int i) {
    const agreements *x = g->agreements;
    if (i == g->self) return agree_own_on_loop(x);
    const proposal *p = &x->proposals[i];
    return p->number == agree_number(x) ? p : NULL;
}

bool agree_is_silent_on_loop(const gw_group *g, int index) {
    const agreements *x = g->agreements;
    if (index == g->self || x->is_out[index]) return false;
    return x->leads ? !x->has_stored[index] : !proposal_of(g, index);
}

typedef struct survey {
    int proposed, not_called, unanswered;
    const proposal *first;           // of those that have arrived
    int first_index, differs_index;  // -1: all propose the same
    const proposal *differs, *failed;
    int agrees, reforms;  // counts, and the index of the first that re-forms
    int reforms_index;
    uint64_t flags;
} survey;

static bool is_same(const proposal *p, const proposal *q) {
    return p->what == q->what && p->min == q->min && p->grow == q->grow;
}

static survey take_survey(const gw_group *g) {
    survey v = { .flags = UINT64_MAX };
    for (int i = 0; i < g->count; i++) {
        if (g->agreements->is_out[i]) continue;
        const proposal *p = proposal_of(g, i);
        v.unanswered += !p;
        v.not_called += p && p->what == AGREE_NOT_CALLED;
        if (!p || p->what == AGREE_NOT_CALLED) continue;
        v.proposed++;
        v.flags &= p->flags;
        if (p->what == AGREE_REFORM && !v.reforms++) v.reforms_index = i;
        v.agrees += p->what == AGREE_FLAGS;
        if (p->error && !v.failed) v.failed = p;
        if (!v.first) {
            v.first = p;
            v.first_index = i;
        } else if (!v.differs && !is_same(v.first, p)) {
            v.differs = p;
            v.differs_index = i;
        }
    }
    return v;
}

// ---- Deciding -----------------------------------------------------------------------------------

static void no_memory(gw_group *g) {
    gw_error error;
    error_set(&error, GW_NO_MEMORY, "%s has no memory to decide an agreement",
              group_member_name(g, g->self));
    agree_give_up_on_loop(g, &error);
}

static void GW_PRINTF(2, 3) add(gw_error *e, const char *format, ...) {
    size_t at = strlen(e->text);
    va_list args;
    va_start(args, format);
    vsnprintf(e->text + at, sizeof e->text - at, format, args);
    va_end(args);
}

static void add_missing(const gw_group *g, gw_error *e) {
    int missing = 0;
    for (int i = 0; i < g->count; i++) {
        const proposal *p = g->agreements->is_out[i] ? NULL : proposal_of(g, i);
        if (!p || p->what != AGREE_NOT_CALLED) continue;
        add(e, "%s%s", missing++ ? ", " : "; ", group_member_name(g, i));
    }
    if (missing) add(e, missing > 1 ? " have not proposed" : " has not proposed");
}

static void add_proposal(const proposal *p, gw_error *e) {
    if (p->what == AGREE_FLAGS)
        add(e, "agrees on flags");
    else
        add(e, "re-forms the group with at least %u members%s", p->min, p->grow ? ", growing" : "");
}

static void compose(const gw_group *g, const survey *v, gw_error *out) {
    const gw_error *why = v->failed ? error_kept(v->failed->error) : NULL;
    *out = (gw_error){ .status = why ? why->status : GW_MISMATCH };
    add(out, "group \"%s\": agreement %llu: ", g->name,
        (unsigned long long)agree_number(g->agreements));
    if (why) {
        add(out, "%s", why->text);
        out->lost = why->lost;
        uint32_t there = (uint32_t)(v->proposed + join_request_count_on_loop(g));
        if (!v->not_called && why->status == GW_TIMEOUT && there < v->first->min)
            add(out, "; %u members take part, but .min is %u", there, v->first->min);
        add_missing(g, out);
        return;
    }
    add(out, "%s ", group_member_name(g, v->first_index));
    add_proposal(v->first, out);
    add(out, "; %s ", group_member_name(g, v->differs_index));
    add_proposal(v->differs, out);
}

// A member that is lost or absent; -1. Members may observe that at different times.
static int find_gone(const gw_group *g) {
    for (int i = 0; i < g->count; i++)
        if (g->agreements->is_out[i]) return i;
    return -1;
}

static void compose_for_those_that_agree(const gw_group *g, const survey *v, gw_error *out) {
    *out = (gw_error){ .status = GW_DISCONNECTED };
    add(out,
        "group \"%s\": agreement %llu: %s is gone, and %s re-forms the group instead of agreeing",
        g->name, (unsigned long long)agree_number(g->agreements),
        group_member_name(g, find_gone(g)), group_member_name(g, v->reforms_index));
}

static decision *decide_error(gw_group *g, const survey *v) {
    decision *d = decision_open(g->count, 0);
    gw_error error;
    if (!d) return NULL;
    d->spares_reforms = !v->failed && v->agrees && v->reforms && find_gone(g) >= 0;
    if (d->spares_reforms)
        compose_for_those_that_agree(g, v, &error);
    else
        compose(g, v, &error);
    error_keep(&d->error, &error);
    return d;
}

static void mark_proposers(const gw_group *g, decision *d) {
    for (int i = 0; i < g->count; i++) {
        const proposal *p = g->agreements->is_out[i] ? NULL : proposal_of(g, i);
        d->here[i] = p && p->what != AGREE_NOT_CALLED;
    }
}

static void poll(gw_group *g) {
    agreements *x = g->agreements;
    x->is_impatient = false;
    for (int i = 0; i < g->count; i++) {
        const proposal *p = x->is_out[i] ? NULL : proposal_of(g, i);
        if (i == g->self || x->is_out[i] || (p && p->what != AGREE_NOT_CALLED)) continue;
        agent_post_on_loop(g->agent, g->members[i].rank,
                           group_message_on_loop(g, KIND_POLL, 0, agree_number(x)));
    }
    env_set_timer(g->agent->env, &x->poll, env_now_ns(g->agent->env) + AGAIN_NS);
}

// Members that have not proposed are polled at once if the decision is an error, else after a while; and again, since
// they may no longer participate.
static void wait_for_all(gw_group *g, const survey *v) {
    agreements *x = g->agreements;
    env *e = g->agent->env;
    bool hurries = v->failed && v->unanswered && !x->has_hurried;
    if (!v->unanswered && !v->not_called) return;
    if (hurries || x->is_impatient)
        poll(g);
    else if (!x->poll.armed)
        env_set_timer(e, &x->poll, env_now_ns(e) + PATIENCE_NS);
    x->has_hurried |= hurries;
}

// GRP-12. False: not yet.
static bool decide(gw_group *g) {
    agreements *x = g->agreements;
    survey v = take_survey(g);
    if (!v.proposed) return false;
    bool fails = v.failed || v.differs, has_failed = false;
    if (v.unanswered || (v.not_called && !fails)) {
        wait_for_all(g, &v);
        return false;
    }
    decision *d;
    if (fails) {
        d = decide_error(g, &v);
    } else if (v.first->what == AGREE_REFORM) {
        d = reform_choose_on_loop(g, v.first->min, v.first->grow, &has_failed);
        if (!d && !has_failed) return false;
    } else {
        d = decision_open(g->count, 0);
        if (d) d->flags = v.flags;
    }
    if (!d) {
        no_memory(g);
        return false;
    }
    mark_proposers(g, d);
    x->stored = d;
    return true;
}

// ---- Sending decisions --------------------------------------------------------------------------

static bool is_joining(const gw_group *g, int rank) {
    return group_index_of(g, rank) < 0;
}

// To all members that live and to joining members. False if allocation fails.
static bool broadcast(gw_group *g, uint8_t kind, const decision *d) {
    agreements *x = g->agreements;
    agent *a = g->agent;
    uint64_t number = agree_number(x);
    bool all = true;
    for (int i = 0; i < g->count + d->member_count; i++) {
        int rank = i < g->count ? g->members[i].rank : d->members[i - g->count].rank;
        bool skips = i < g->count ? i == g->self || x->is_out[i] : !is_joining(g, rank);
        if (skips || agent_member(a, rank)->lost) continue;
        message *m = group_message_on_loop(g, kind, 0, number);
        if (m && kind == KIND_DECIDED) decision_encode(&m->head, d);
        all &= agent_post_on_loop(a, rank, m);
    }
    return all;
}

static bool lead(gw_group *g) {
    agreements *x = g->agreements;
    x->leads = true;
    memset(x->has_stored, 0, (size_t)g->count);
    mem_free(x->joining_stored);
    x->joining_stored = mem_calloc((size_t)x->stored->member_count + 1);
    if (x->joining_stored && broadcast(g, KIND_DECIDED, x->stored)) return true;
    no_memory(g);
    return false;
}

static bool all_have_stored(const gw_group *g) {
    const agreements *x = g->agreements;
    for (int i = 0; i < g->count; i++)
        if (i != g->self && !x->is_out[i] && !x->has_stored[i]) return false;
    for (int i = 0; i < x->stored->member_count; i++) {
        int rank = x->stored->members[i].rank;
        if (is_joining(g, rank) && !agent_member(g->agent, rank)->lost && !x->joining_stored[i])
            return false;
    }
    return true;
}

void agree_joining_stored_on_loop(gw_group *g, int rank, uint64_t number) {
    agreements *x = g->agreements;
    if (!x || !x->leads || !x->stored || number != agree_number(x)) return;
    for (int i = 0; i < x->stored->member_count; i++)
        if (x->stored->members[i].rank == rank) x->joining_stored[i] = true;
    agree_consider_on_loop(g);
}

void agree_consider_on_loop(gw_group *g) {
    agreements *x = g->agreements;
    if (!x || g->is_absent || g->is_over || agree_leader_on_loop(g) != g->self) return;
    if (!x->stored && !decide(g)) return;  // GRP-14
    if (!x->leads && !lead(g)) return;
    if (!all_have_stored(g)) return;
    broadcast(g, KIND_RELEASED, x->stored);
    agree_released_on_loop(g);
}
