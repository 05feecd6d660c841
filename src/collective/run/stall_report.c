#include "collective/run/stall_report.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/mutation.h"
#include "collective/run/activity.h"
#include "collective/group/groups_state.h"
#include "collective/group/text.h"

#include <stdio.h>
#include <string.h>

// GRP-19.
#define LOGS_WITHIN_NS INT64_C(3000000000)
#define REPORTS_WITHIN_NS INT64_C(500000000)
#define AGAIN_NS INT64_C(9000000000)  // until the next query to a member for a log line
enum { QUESTIONS_MAX = 64, ANSWERS_MAX = 4 };

// |from| waits in a collective for |to|; the query to |to| is about that collective.
typedef struct question {
    int from, to;  // ranks in the job
    collective_id about;
    char group_name[LIMIT_NAME_BYTES + 1];
    int same_as;       // an earlier query to |to| about the same collective; -1
    activity *answer;  // NULL: not received
    bool holds;        // as far as this member can determine, |to| has not entered it
} question;

typedef struct inquiry {
    list_node link;
    agent *agent;
    uint64_t id;
    collective_id about;
    bool reports;
    int64_t began_ns;
    timer limit;
    int count, open;
    question questions[QUESTIONS_MAX];
} inquiry;

// ---- Queries ------------------------------------------------------------------------------------

// The first query to |to| about that collective; -1.
static int find_query(const inquiry *q, int to, const collective_id *about) {
    for (int i = 0; i < q->count; i++)
        if (q->questions[i].to == to && memcmp(&q->questions[i].about, about, sizeof *about) == 0)
            return i;
    return -1;
}

// A query to this worker itself is answered at once, without a message.
static void query(inquiry *q, int from, int to, const collective_id *about,
                  const char *group_name) {
    agent *a = q->agent;
    if (q->count == QUESTIONS_MAX) return;
    const member *m = to < a->member_count ? agent_member(a, to) : NULL;
    if (!m || !m->known || m->lost) return;
    int same_as = find_query(q, to, about);
    question *x = &q->questions[q->count++];
    *x = (question){ .from = from, .to = to, .about = *about, .same_as = same_as };
    snprintf(x->group_name, sizeof x->group_name, "%s", group_name);
    if (to == a->rank || same_as >= 0) return;
    message *out = agent_message_on_loop(a, KIND_STALL_QUERY);
    if (out) {
        bytes_put_u64(&out->head, q->id * QUESTIONS_MAX + (uint64_t)(q->count - 1));
        bytes_put_u64(&out->head, about->group);
        bytes_put_u64(&out->head, about->key);
        bytes_put_u64(&out->head, about->number);
    }
    q->open += agent_post_on_loop(a, to, out);
}

// The log line of one member serves all of the group that wait: the members are queried once.
static bool is_logged(const gw_group *g, int i) {
    int64_t now_ns = env_now_ns(g->agent->env);
    return g->queried_ns && g->queried_ns[i] && now_ns - g->queried_ns[i] < AGAIN_NS;
}

static bool has_something_to_log(const run *r) {
    for (int i = 0; i < r->group->count; i++)
        if (run_is_missing(r, i) && !is_logged(r->group, i)) return true;
    return false;
}

static void query_missing(inquiry *q, const run *r) {
    gw_group *g = r->group;
    if (!g->queried_ns) g->queried_ns = mem_calloc((size_t)g->count * sizeof *g->queried_ns);
    for (int i = 0; i < g->count; i++) {
        if (!run_is_missing(r, i) || (!q->reports && is_logged(g, i))) continue;
        if (g->queried_ns) g->queried_ns[i] = q->began_ns;
        query(q, q->agent->rank, g->members[i].rank, &q->about, g->name);
    }
}

// ---- Circles ------------------------------------------------------------------------------------

// The state of this worker itself: whether a thread |waits| in the collective, and what it has entered.
static void check_own(inquiry *q, bool waits) {
    for (int i = 0; i < q->count; i++) {
        question *x = &q->questions[i];
        if (x->same_as >= 0) x->holds = q->questions[x->same_as].holds;
    }
    for (int i = 0; i < q->count; i++) {
        question *x = &q->questions[i];
        if (x->from == q->agent->rank) x->holds &= waits;
        if (x->to != q->agent->rank) continue;
        activity own;
        activity_read_on_loop(q->agent, &x->about, &own);
        x->holds = !own.has_entered;
    }
}

// The queries of the shortest circle through |start|, the last one first; their count, 0 without one. A query is an
// edge from the worker that waits to the one that it waits for.
static int find_circle(const inquiry *q, int start, int out[QUESTIONS_MAX]) {
    int before[QUESTIONS_MAX], reached[QUESTIONS_MAX], count = 0;
    bool is_reached[QUESTIONS_MAX] = { false };
    for (int at = -1; at < count; at++) {
        int rank = at < 0 ? start : q->questions[reached[at]].to;
        for (int i = 0; i < q->count; i++) {
            const question *x = &q->questions[i];
            if (is_reached[i] || !x->holds || x->from != rank) continue;
            is_reached[i] = true;
            before[i] = at < 0 ? -1 : reached[at];
            reached[count++] = i;
            if (x->to != start) continue;
            int size = 0;
            for (int k = i; k >= 0; k = before[k]) out[size++] = k;
            return size;
        }
    }
    return 0;
}

// "w0 waits in "a" for w1, which waits in "b" for w0"; |verb|: "waits".
static bool put_circle(inquiry *q, const run *r, const char *verb, text_builder *t) {
    int circle[QUESTIONS_MAX], size = 0;
    const agent *a = q->agent;
    check_own(q, activity_waits_for(r));
    for (int rank = 0; rank < a->member_count && !size; rank++) size = find_circle(q, rank, circle);
    for (int i = size - 1; i >= 0; i--) {
        const question *x = &q->questions[circle[i]];
        if (i == size - 1) text_put(t, "%s", agent_member(a, x->from)->name);
        text_put(t, "%s %s in \"%s\" for %s", i < size - 1 ? ", which" : "", verb, x->group_name,
                 agent_member(a, x->to)->name);
    }
    return size;
}

// ---- The end ------------------------------------------------------------------------------------

static void put_answers(const inquiry *q, text_builder *t) {
    const agent *a = q->agent;
    int listed = 0;
    for (int i = 0; i < q->count && listed < ANSWERS_MAX; i++) {
        const question *x = &q->questions[i];
        if (x->from != a->rank || x->to == a->rank) continue;
        text_put(t, "%s%s ", listed++ ? "; " : ": ", agent_member(a, x->to)->name);
        if (x->answer) {
            text_put(t, "%s", x->answer->text);
        } else {
            text_put(t, "has not answered for ");
            text_put_time(t, env_now_ns(a->env) - q->began_ns);
        }
    }
}

static void write_log(inquiry *q, const run *r) {
    char what[SIGNATURE_TEXT_MAX], missing[256], line[1024];
    text_builder t = { line, 0, sizeof line };
    signature_text(&r->signature, r->detail, r->origin, what);
    run_name_missing(r, missing, sizeof missing);
    text_put(&t, "group \"%s\": %s has waited ", r->group->name, what);
    text_put_time(&t, env_now_ns(q->agent->env) - r->began_ns);
    text_put(&t, " for %s", missing);
    put_answers(q, &t);
    size_t at = t.at;
    text_put(&t, "; in a circle: ");
    if (!put_circle(q, r, "waits", &t) && at < sizeof line) line[at] = '\0';
    log_line("%s", line);
}

static void report_late(inquiry *q, run *r) {
    gw_group *g = r->group;
    gw_error error;
    char circle[GW_ERROR_TEXT_MAX / 2] = "";
    text_builder t = { circle, 0, sizeof circle };
    // The circle of that time: the activities in the abort may be newer, since the circle may have ended elsewhere.
    if (q) put_circle(q, r, "waited", &t);
    error_set(&error, GW_TIMEOUT, "the deadline of %s has passed%s%s",
              group_member_name(g, g->self), circle[0] ? "; at that time, in a circle: " : "",
              circle);
    group_report_on_loop(g, r->sequence->key, r->number, &error);
}

static void drop(inquiry *q) {
    env_set_timer(q->agent->env, &q->limit, ENV_NEVER);
    list_remove(&q->link);
    for (int i = 0; i < q->count; i++) mem_free(q->questions[i].answer);
    mem_free(q);
}

// In one sequence one run at a time queries before it reports its deadline. The first of the others queries now if
// its number is lower; else once the abort has arrived, which may end it, too.
static void query_next(gw_group *g, uint64_t key, uint64_t reported) {
    run *next = NULL;
    list_each(l, &g->runs) {
        run *r = list_entry(l, run, link);
        if (r->sequence->key != key || !r->queries_later || r->state != RUN_UNDER_WAY) continue;
        if (r->number < reported && (!next || r->number < next->number)) next = r;
    }
    if (!next) return;
    next->queries_later = false;
    stall_report_late_on_loop(next);
}

void stall_report_others_on_loop(gw_group *g, uint64_t key) {
    query_next(g, key, UINT64_MAX);
}

// A run that has ended meanwhile reports nothing.
static void conclude(inquiry *q) {
    gw_group *g = group_find_on_loop(q->agent, q->about.group);
    run *r = g ? group_find_run_on_loop(g, q->about.key, q->about.number) : NULL;
    bool waits = r && r->state == RUN_UNDER_WAY, reports = q->reports;
    uint64_t key = q->about.key, reported = waits ? q->about.number : UINT64_MAX;
    if (g) handle_retain(g);
    if (waits && reports)
        report_late(q, r);
    else if (waits)
        write_log(q, r);
    drop(q);
    if (g && reports) query_next(g, key, reported);
    if (g) group_release_on_loop(g);
}

static void fire(timer *t) {
    conclude(list_entry(t, inquiry, limit));
}

static inquiry *begin(run *r, bool reports) {
    agent *a = r->group->agent;
    groups *x = groups_of(a);
    inquiry *q = mem_alloc(sizeof *q);
    if (!q) return NULL;
    q->agent = a;
    q->id = ++x->last_inquiry;
    q->about = (collective_id){ r->group->id, r->sequence->key, r->number };
    q->reports = reports;
    q->began_ns = env_now_ns(a->env);
    q->limit = (timer){ .fire = fire };
    q->count = q->open = 0;
    list_append(&x->inquiries, &q->link);
    query_missing(q, r);
    return q;
}

static void inquire(run *r, bool reports) {
    inquiry *q = begin(r, reports);
    if (!q && reports) report_late(NULL, r);
    if (!q) return;
    if (q->open)
        env_set_timer(q->agent->env, &q->limit,
                      q->began_ns + (reports ? REPORTS_WITHIN_NS : LOGS_WITHIN_NS));
    else
        conclude(q);
}

static bool is_querying(const agent *a, const run *r) {
    list_each(l, &groups_of(a)->inquiries) {
        const inquiry *q = list_entry(l, inquiry, link);
        if (q->reports && q->about.group == r->group->id && q->about.key == r->sequence->key)
            return true;
    }
    return false;
}

void stall_log_on_loop(run *r) {
    if (has_something_to_log(r)) inquire(r, false);
}

void stall_report_late_on_loop(run *r) {
    r->queries_later = is_querying(r->group->agent, r);
    if (!r->queries_later) inquire(r, true);
}

void stall_stop_on_loop(agent *a) {
    for (list_node *l, *all = &groups_of(a)->inquiries; !list_is_empty(all);) {
        l = all->next;
        drop(list_entry(l, inquiry, link));
    }
}

// ---- Received messages --------------------------------------------------------------------------

static void answer(agent *a, int to, uint64_t id, const collective_id *about) {
    activity own;
    message *m = agent_message_on_loop(a, KIND_STALL_ANSWER);
    if (!m) return;
    activity_read_on_loop(a, about, &own);
    bytes_put_u64(&m->head, id);
    activity_encode(&m->head, &own);
    agent_post_on_loop(a, to, m);
}

// A member that has not entered, and waits elsewhere, adds queries to the members that it waits for.
static void take_answer(inquiry *q, question *x, activity *d) {
    x->answer = d;
    x->holds = !d->has_entered || has_mutation(MUTATION_CIRCLE_NOT_PROVEN);
    int from = x->to;
    for (int i = 0; x->holds && i < d->wait_count; i++)
        for (int j = 0; j < d->waits[i].count; j++)
            query(q, from, d->waits[i].ranks[j], &d->waits[i].in, d->waits[i].group_name);
    if (--q->open == 0) conclude(q);
}

static void answer_received(agent *a, int from, uint64_t id, const activity *listed) {
    list_each(l, &groups_of(a)->inquiries) {
        inquiry *q = list_entry(l, inquiry, link);
        if (q->id != id / QUESTIONS_MAX) continue;
        uint64_t index = id % QUESTIONS_MAX;
        question *x = index < (uint64_t)q->count ? &q->questions[index] : NULL;
        activity *kept = x && x->to == from && !x->answer ? mem_alloc(sizeof *kept) : NULL;
        if (!kept) return;
        *kept = *listed;
        take_answer(q, x, kept);
        return;
    }
}

bool stall_received_on_loop(agent *a, int from, uint8_t kind, reader *in) {
    uint64_t id = reader_u64(in);
    if (kind == KIND_STALL_QUERY) {
        collective_id about = { .group = reader_u64(in) };
        about.key = reader_u64(in);
        about.number = reader_u64(in);
        if (in->failed) return false;
        answer(a, from, id, &about);
        return true;
    }
    activity listed;
    if (!activity_decode(in, &listed)) return false;
    answer_received(a, from, id, &listed);
    return true;
}
