// The leader's side of RPC collectives: rounds, and the participants that have entered them.
#include "collective/rpc/collective.h"

#include "agent/leaving/awaits.h"
#include "base/args.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/value.h"
#include "future/future.h"

#include <stdio.h>
#include <string.h>

// A participant of a round.
typedef struct participant {
    canceller gave_up;
    struct round *round;
    gw_future *future;  // one count; NULL: has not entered
    result *value;      // one count
    await await;        // for the participants that have not entered
} participant;

struct round {
    collective_group *group;
    collective_kind kind;
    int missing;
    timer timer;
    participant participants[];  // in the order of the group's ranks
};

static const char *const names[] = { "gw.all_gather", "gw.barrier" };

// ---- Rounds -------------------------------------------------------------------------------------

static bool has_answered(const round *r, int index) {
    return r->participants[index].future != NULL;
}

static round *take_round(collective_group *m) {
    round *r = m->current;
    env *e = m->agent->env;
    m->current = NULL;
    m->over++;
    if (r->timer.armed) env_set_timer(e, &r->timer, ENV_NEVER);
    for (int i = 0; i < m->count; i++) {
        awaits_close_on_loop(&r->participants[i].await);
        if (r->participants[i].future) r->participants[i].future->on_cancel = NULL;
    }
    return r;
}

// Takes |value|. Frees |r|.
static void end_round(round *r, result *value) {
    agent *a = r->group->agent;
    for (int i = 0; i < r->group->count; i++) {
        participant *x = &r->participants[i];
        if (!x->future) continue;
        x->future->makers--;
        future_complete_on_loop(x->future, result_retain(value));
        future_release_on_loop(x->future);
        result_release_on_loop(a, x->value);
    }
    result_release_on_loop(a, value);
    mem_free(r);
}

static void fail_round(collective_group *m, const gw_error *error) {
    end_round(take_round(m), result_of_error(error));
}

// "w3, w5 and 2 more".
static void name_missing(const round *r, char *out, size_t size) {
    const collective_group *m = r->group;
    size_t at = 0;
    int left = r->missing;
    out[0] = '\0';
    for (int i = 0; i < m->count; i++) {
        if (has_answered(r, i)) continue;
        const char *name = collective_name_of(m, i);
        if (at + strlen(name) + 32 > size) break;
        at += (size_t)snprintf(out + at, size - at, "%s%s", at ? ", " : "", name);
        left--;
    }
    if (left) snprintf(out + at, size - at, " and %d more", left);
}

static void time_out(timer *t) {
    round *r = list_entry(t, round, timer);
    gw_error error;
    char missing[512];
    name_missing(r, missing, sizeof missing);
    error_set(&error, GW_TIMEOUT, "%s did not enter within the deadline", missing);
    fail_round(r->group, &error);
}

// COL-6.
static int next_missing(const await *w, int *at) {
    const round *r = list_entry(w, const participant, await)->round;
    while (*at < r->group->count && has_answered(r, *at)) ++*at;
    return *at < r->group->count ? (int)r->group->members[(*at)++].rank : -1;
}

// Participants that enter later receive the same error.
static void end_await(await *w, int rank, const gw_error *why) {
    collective_group *m = list_entry(w, participant, await)->round->group;
    gw_error error = *why;
    (void)rank;
    if (!m->why || m->why_last != m->over) m->why_first = m->over + 1;
    m->why_last = m->over + 1;
    error_keep(&m->why, why);
    fail_round(m, &error);
}

static const await_class await_of_missing = { .next = next_missing, .end = end_await };

static void gave_up(canceller *c) {
    participant *x = list_entry(c, participant, gave_up);
    collective_group *m = x->round->group;
    gw_error error;
    int index = (int)(x - x->round->participants);
    error_set(&error, GW_CANCELLED, "%s has cancelled its part", collective_name_of(m, index));
    fail_round(m, &error);
}

static gw_status check_members(const collective_group *m, gw_error *error) {
    for (int i = 0; i < m->count; i++) {
        const member *x = agent_member(m->agent, (int)m->members[i].rank);
        if (!x->lost) continue;
        *error = agent_why_lost(x);
        return error->status;
    }
    return GW_OK;
}

// Finds or opens the round |number|, and ends the rounds before it.
static gw_status find_round(collective_group *m, collective_kind kind, uint64_t number, int index,
                            round **out, gw_error *error) {
    if (m->why && number >= m->why_first && number <= m->why_last)
        return error_copy(error, error_kept(m->why));
    if (number <= m->over)
        return error_set(error, GW_TIMEOUT, "the others have continued without %s",
                         collective_name_of(m, index));
    if (number > m->over + 1 && m->current) {
        gw_error ahead;
        error_set(&ahead, GW_MISMATCH, "%s has entered the next RPC collective",
                  collective_name_of(m, index));
        fail_round(m, &ahead);
    }
    m->over = number - 1;
    if (!m->current) {
        m->current = mem_calloc(sizeof(round) + (size_t)m->count * sizeof(participant));
        if (!m->current) return error_set(error, GW_NO_MEMORY, "no memory for a collective");
        m->current->group = m;
        m->current->kind = kind;
        m->current->missing = m->count;
        m->current->timer.fire = time_out;
    }
    *out = m->current;
    if ((*out)->participants[index].future)
        return error_set(error, GW_INVALID, "this worker waits in the same RPC collective already");
    if ((*out)->kind == kind) return GW_OK;
    gw_error other;
    error_set(&other, GW_MISMATCH, "%s is in %s", collective_name_of(m, index), names[kind]);
    error_set(error, GW_MISMATCH, "others are in %s", names[(*out)->kind]);
    fail_round(m, &other);  // they would wait for it until their deadlines
    return GW_MISMATCH;
}

static void add_participant(round *r, int index, gw_future *f, result *value,
                            const collective_request *request) {
    agent *a = r->group->agent;
    participant *x = &r->participants[index];
    *x = (participant){
        .gave_up.run = gave_up, .round = r, .future = handle_retain(f), .value = value
    };
    f->makers = 1;
    f->on_cancel = &x->gave_up;
    r->missing--;
    awaits_open_on_loop(a, &x->await, &await_of_missing, request->caller, request->called_by);
    int64_t due_ns, timeout_ns = request->timeout_ns;
    if (timeout_ns < 0 || __builtin_add_overflow(env_now_ns(a->env), timeout_ns, &due_ns)) return;
    if (!r->timer.armed || due_ns < r->timer.due_ns) env_set_timer(a->env, &r->timer, due_ns);
}

// Takes |value|, unless it fails. Sets |out_full| to the round, taken out of the group, if all participants have
// entered.
static gw_status enter(agent *a, const collective_request *x, gw_future *f, result *value,
                       round **out_full, gw_error *error) {
    round *r = NULL;
    collective_group *m = collective_group_of_on_loop(a, x->ranks, x->count);
    if (!m)
        return error_set(
            error, GW_LIMIT,
            "this worker has RPC collectives of more than %d different lists of workers",
            LIMIT_COLLECTIVE_GROUPS);
    int index = collective_index_of(m, x->caller);
    gw_status status = check_members(m, error);
    if (!status) status = find_round(m, x->kind, x->number, index, &r, error);
    if (status) return status;
    add_participant(r, index, f, value, x);
    if (r->missing == 0) *out_full = take_round(m);
    return GW_OK;
}

// ---- The function -------------------------------------------------------------------------------

static gw_status read_request(agent *a, gw_scope *s, const gw_args *args, collective_request *out,
                              gw_error *error) {
    gw_value ranks = gw_arg(s, args, 0);
    out->number = (uint64_t)gw_arg_int(s, args, 1);
    out->timeout_ns = gw_arg_int(s, args, 2);
    out->caller = args->caller.rank;
    int64_t called_by = gw_arg_int(s, args, 4);
    out->called_by = called_by >= 0 && called_by < LIMIT_WORKERS ? (int)called_by : -1;
    if (s->error) return error_copy(error, s->error);
    out->count = (int)(ranks.size / sizeof *out->ranks);
    out->ranks = ranks.as.bytes;
    bool inside = false, valid = ranks.size && ranks.size % sizeof *out->ranks == 0 &&
                                 out->count <= LIMIT_WORKERS && out->number &&
                                 out->number <= INT64_MAX;
    for (int i = 0; valid && i < out->count; i++) {
        valid = out->ranks[i] < (uint32_t)a->member_count &&
                (i ? out->ranks[i] > out->ranks[i - 1] : out->ranks[i] == (uint32_t)a->rank);
        inside = inside || out->ranks[i] == (uint32_t)out->caller;
    }
    return valid && inside
               ? GW_OK
               : error_set(error, GW_INVALID,
                           "RPC collective: the participants or the round number are invalid");
}

static result *list_all(gw_scope *s, const round *r) {
    gw_list *list = gw_list_open(s);
    for (int i = 0; i < r->group->count; i++)
        gw_list_add_with(s, list, result_give(r->participants[i].value, s));
    result *out = s->error ? NULL : result_of_value(gw_value_of_list(list));
    if (!out) scope_fail(s, GW_NO_MEMORY, "no memory for the values of all participants");
    return out ? out : result_of_error(s->error);
}

static gw_value run_collective(gw_scope *s, const gw_args *args, collective_kind kind) {
    agent *a = s->agent;
    collective_request x = { .kind = kind };
    gw_error error;
    round *full = NULL;
    gw_status status = read_request(a, s, args, &x, &error);
    gw_future *f = status ? NULL : scope_own(s, future_open(a, ""));
    result *value = f ? result_of_value(gw_arg(s, args, 3)) : NULL;
    if (!status && !value) status = error_set(&error, GW_NO_MEMORY, "no memory for a collective");
    env_enter(a->env);
    if (!status) status = enter(a, &x, f, value, &full, &error);
    env_leave(a->env);
    if (status) {
        if (value) result_release(value);
        scope_fail_with(s, &error);
        return gw_none();
    }
    if (full) {
        result *all = list_all(s, full);
        env_enter(a->env);
        end_round(full, all);
        env_leave(a->env);
    }
    return gw_value_of(f);
}

static gw_value all_gather(gw_scope *s, const gw_args *a) {
    return run_collective(s, a, COLLECTIVE_ALL_GATHER);
}

static gw_value barrier(gw_scope *s, const gw_args *a) {
    return run_collective(s, a, COLLECTIVE_BARRIER);
}

#define TAKES_COLLECTIVE TAKES(1 << GW_BYTES, 1 << GW_INT, 1 << GW_INT, TAKES_ANY, 1 << GW_INT)
static const function collective_functions[] = {
    { .name = (char *)"gw.all_gather",
      .where = GW_INLINE,
      .signature = TAKES_COLLECTIVE,
      .body = all_gather,
      .starts_unserved = true },
    { .name = (char *)"gw.barrier",
      .where = GW_INLINE,
      .signature = TAKES_COLLECTIVE,
      .body = barrier,
      .starts_unserved = true },
    { 0 },
};

// ---- Lost participants --------------------------------------------------------------------------

// A round that fails may run bodies that open other rounds, so the search begins again after each.
static collective_group *find_open(agent *a, int rank) {
    for (map_cursor e = { 0 }; map_next(collective_groups_of(a), &e);) {
        collective_group *m = e.value;
        if (m->current && (rank < 0 || collective_index_of(m, rank) >= 0)) return m;
    }
    return NULL;
}

static void lost(agent *a, int rank) {
    for (collective_group *m; (m = find_open(a, rank));) {
        gw_error error = agent_why_lost(agent_member(a, rank));
        fail_round(m, &error);
    }
}

static void stop(agent *a, const gw_error *why) {
    for (collective_group *m; (m = find_open(a, -1));) fail_round(m, why);
}

// A thread of this worker is in a collective, and its request may be under way.
static bool acts(const agent *a) {
    for (map_cursor e = { 0 }; map_next(collective_groups_of(a), &e);)
        if (((const collective_group *)e.value)->inside) return true;
    return false;
}

// ---- The service --------------------------------------------------------------------------------

static gw_status open(agent *a, const gw_rpc_options *options, void **state, gw_error *error) {
    (void)a, (void)options;
    *state = mem_calloc(sizeof(map));
    return *state ? GW_OK : error_set(error, GW_NO_MEMORY, "no memory for collectives");
}

static void free_groups(void *state) {
    map *groups = state;
    for (map_cursor e = { 0 }; map_next(groups, &e);) {
        error_forget(&((collective_group *)e.value)->why);
        mem_free(e.value);
    }
    map_fini(groups);
    mem_free(groups);
}

static const function *const functions[] = { collective_functions, NULL };

const service collective_service = {
    .name = "collective",
    .data = &collective_data,
    .functions = functions,
    .open = open,
    .acts = acts,
    .lost = lost,
    .stop = stop,
    .free = free_groups,
};
