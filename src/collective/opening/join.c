// Joining a group: what the requests of other workers cause, and the attempts of this one.
#include "agent/bodies/context.h"
#include "base/status.h"
#include "collective/agree/agree.h"
#include "collective/group/groups_state.h"
#include "collective/opening/join.h"
#include "collective/opening/opening.h"

#include <string.h>

#define AGAIN_NS INT64_C(1000000000)  // until a joining member polls for the release of a decision

// A waiting call of this worker's program; on its stack.
typedef struct join_attempt {
    list_node link;
    const char *name;
    waiter waiter;
    agent *agent;
    decision *stored;    // one count
    group_header about;  // the group and number of the decision
    timer again;
    bool is_released;
    await await;  // for any other worker
    gw_error error;
    join_stop *stop;  // NULL: it has none
} join_attempt;

// ---- Requests of other workers ------------------------------------------------------------------

// A request that ends leaves the table, so the search begins again: considering a group twice has no effect.
static void consider_all(const agent *a) {
    for (map_cursor e = { 0 }; map_next(&groups_of(a)->groups, &e);) {
        gw_group *g = e.value;
        bool was_over = g->is_over;
        handle_retain(g);
        agree_consider_on_loop(g);
        if (g->is_over && !was_over) e.index = 0;
        group_release_on_loop(g);
    }
}

bool join_request_received_on_loop(agent *a, int from, reader *in) {
    char name[LIMIT_NAME_BYTES + 1];
    bool named = reader_text(in, name, sizeof name) && name[0];
    uint8_t wants = reader_u8(in);
    if (!named || in->failed || wants > 1) return false;
    bool is_new = false;
    if (!wants) {
        join_request_drop_on_loop(a, from, name);
        return true;
    }
    if (!join_request_keep_on_loop(a, from, name, &is_new)) return false;
    if (is_new) consider_all(a);
    return true;
}

void join_request_lost_on_loop(agent *a, int rank) {
    join_request_drop_on_loop(a, rank, NULL);
    consider_all(a);
}

// ---- Requests of this worker --------------------------------------------------------------------

static void send_join_request(agent *a, int rank, const char *name, bool wants) {
    message *m = agent_message_on_loop(a, KIND_JOIN_REQUEST);
    if (m) bytes_put_text(&m->head, name);
    if (m) bytes_put_u8(&m->head, wants);
    agent_post_on_loop(a, rank, m);
}

static void send_all(agent *a, const char *name, bool wants) {
    for (int rank = 0; rank < a->member_count; rank++) {
        const member *m = agent_member(a, rank);
        if (rank != a->rank && m && m->known && !m->lost) send_join_request(a, rank, name, wants);
    }
}

void join_request_joined_on_loop(agent *a, int rank) {
    list_each(l, &groups_of(a)->join_attempts) {
        const join_attempt *k = list_entry(l, join_attempt, link);
        if (!k->is_released) send_join_request(a, rank, k->name, true);
    }
}

static join_attempt *find_own(const agent *a, const char *name) {
    list_each(l, &groups_of(a)->join_attempts) {
        join_attempt *k = list_entry(l, join_attempt, link);
        if (strcmp(k->name, name) == 0) return k;
    }
    return NULL;
}

// GRP-17.
static void refuse(agent *a, const decision *d) {
    gw_error error;
    if (groups_has_met_on_loop(a, d->id)) return;
    error_set(&error, GW_CANCELLED, "%s has withdrawn its join request", a->name);
    reform_break_next_on_loop(a, d, &error);
}

// GRP-17: its leader may be lost, and the members that it has released do not notify the joining member.
static void poll_again(timer *t) {
    join_attempt *k = list_entry(t, join_attempt, again);
    agent *a = k->agent;
    group_header h = k->about;
    h.key = k->stored->id;
    for (int i = 0; i < k->stored->member_count; i++) {
        int rank = k->stored->members[i].rank;
        if (rank != a->rank && !agent_member(a, rank)->lost)
            agree_answer_on_loop(a, rank, KIND_POLL, &h);
    }
    env_set_timer(a->env, &k->again, env_now_ns(a->env) + AGAIN_NS);
}

void join_request_decided_on_loop(agent *a, const group_header *h, decision *d) {
    join_attempt *k = find_own(a, d->name);
    if (!k) refuse(a, d);
    if (!k || k->is_released) {
        decision_release(d);
        return;
    }
    decision_release(k->stored);
    k->stored = d;
    k->about = *h;
    env_set_timer(a->env, &k->again, env_now_ns(a->env) + AGAIN_NS);
}

void join_request_polled_on_loop(agent *a, int from, const group_header *h) {
    if (groups_has_met_on_loop(a, h->key)) agree_answer_on_loop(a, from, KIND_RELEASED, h);
}

bool join_request_released_on_loop(agent *a, const group_header *h) {
    list_each(l, &groups_of(a)->join_attempts) {
        join_attempt *k = list_entry(l, join_attempt, link);
        if (!k->stored || k->about.group != h->group || k->about.number != h->number ||
            k->waiter.woken)
            continue;
        k->is_released = true;
        env_wake(a->env, &k->waiter);
        return true;
    }
    return false;
}

void join_request_stop_on_loop(agent *a, const gw_error *why) {
    list_each(l, &groups_of(a)->join_attempts) {
        join_attempt *k = list_entry(l, join_attempt, link);
        k->error = *why;
        if (!k->waiter.woken) env_wake(a->env, &k->waiter);
    }
}

void join_stop_on_loop(const agent *a, join_stop *stop, const gw_error *why) {
    join_attempt *k = stop->attempt;
    stop->why = *why;
    if (!k || k->is_released) return;
    k->error = *why;
    if (!k->waiter.woken) env_wake(a->env, &k->waiter);
}

static bool check(gw_scope *s, const char *name, gw_group_join_options o) {
    size_t size = name ? strlen(name) : 0;
    gw_error error;
    if (size == 0 || size > LIMIT_NAME_BYTES)
        scope_fail(s, GW_INVALID, "gw_group_join: the name of a group has 1 to %d bytes",
                   LIMIT_NAME_BYTES);
    else if (!text_may_quote(name))
        scope_fail(s, GW_INVALID,
                   "gw_group_join: the name of a group has control characters, a %%, or "
                   "is not UTF-8");
    else if (o.timeout_ms < 0 || o.collective_timeout_ms < 0)
        scope_fail(s, GW_INVALID, "gw_group_join: a timeout is negative");
    else if (context_check_wait(s, &error)) {
        error_prefix(&error, "gw_group_join");
        scope_fail_with(s, &error);
    }
    return gw_ok(s);
}

static gw_status check_on_loop(const agent *a, const join_attempt *k, gw_error *error) {
    if (a->phase == AGENT_LEFT) return agent_left_error(a, "a group", error);
    if (find_own(a, k->name))
        return error_set(error, GW_DUPLICATE, "gw_group_join: %s is already joining \"%s\"",
                         a->name, k->name);
    if (k->stop && k->stop->why.status) *error = k->stop->why;
    return k->stop ? k->stop->why.status : GW_OK;
}

static int next_other(const await *w, int *at) {
    const agent *a = w->agent;
    if (*at == a->rank) ++*at;
    return *at < a->member_count ? (*at)++ : -1;
}

static void end_await(await *w, int rank, const gw_error *why) {
    join_attempt *k = list_entry(w, join_attempt, await);
    (void)rank;
    error_set(&k->error, GW_DISCONNECTED,
              "gw_group_join: no member is left to admit %s to group \"%s\": %s", k->agent->name,
              k->name, why->text);
    k->error.lost = why->lost;
    awaits_close_on_loop(w);
    if (!k->waiter.woken) env_wake(k->agent->env, &k->waiter);
}

static const await_class await_of_others = { .any = true, .next = next_other, .end = end_await };

static gw_status begin_on_loop(gw_scope *s, agent *a, join_attempt *k, gw_error *error) {
    gw_status status = check_on_loop(a, k, error);
    if (status) return status;
    if (k->stop) k->stop->attempt = k;
    awaits_open_on_loop(a, &k->await, &await_of_others, a->rank, awaits_caller_on_loop(a, s));
    list_append(&groups_of(a)->join_attempts, &k->link);
    send_all(a, k->name, true);
    return GW_OK;
}

// GW_OK: it is admitted.
static gw_status wait_on_loop(gw_scope *s, agent *a, join_attempt *k, int64_t timeout_ms,
                              gw_error *error) {
    context_wait_on_loop(a, s, &k->waiter, context_deadline_within_ns(a, s, timeout_ms));
    if (k->is_released) return GW_OK;
    if (k->error.status)
        *error = k->error;
    else if (!context_check_cancelled(s, error))
        error_set(error, GW_TIMEOUT, "gw_group_join: no member has admitted %s to group \"%s\"",
                  a->name, k->name);
    return error->status;
}

static void end_on_loop(agent *a, join_attempt *k) {
    list_remove(&k->link);
    if (k->stop) k->stop->attempt = NULL;
    awaits_close_on_loop(&k->await);
    env_set_timer(a->env, &k->again, ENV_NEVER);
    send_all(a, k->name, false);
    decision_release(k->stored);
}

// On failure the attempt ends in one critical section: a later decision is refused. On success it ends when the group
// is open.
gw_group *join_until(gw_scope *s, const char *name, gw_group_join_options options,
                     join_stop *stop) {
    agent *a = s->error ? NULL : agent_of(s);
    gw_error error;
    if (!a || !check(s, name, options)) return &group_poison;
    join_attempt k = { .name = name,
                       .agent = a,
                       .stop = stop,
                       .again.fire = poll_again,
                       .waiter = { .what = "admission to a group", .patient = true } };
    env_enter(a->env);
    gw_status status = begin_on_loop(s, a, &k, &error);
    if (!status) {
        status = wait_on_loop(s, a, &k, options.timeout_ms, &error);
        if (status && k.stored) refuse(a, k.stored);
        if (status) end_on_loop(a, &k);
    }
    env_leave(a->env);
    if (status) {
        scope_fail_with(s, &error);
        return &group_poison;
    }
    gw_group *g = group_open_next(s, a, k.stored, true, options.collective_timeout_ms);
    env_enter(a->env);
    end_on_loop(a, &k);
    env_leave(a->env);
    return g;
}

gw_group *gw_group_join_with(gw_scope *s, const char *name, gw_group_join_options options) {
    return join_until(s, name, options, NULL);
}
