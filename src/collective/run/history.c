#include "collective/run/history.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/scope.h"
#include "collective/group/groups_state.h"
#include "collective/group/text.h"
#include "trace/record.h"

#include <string.h>

enum { LINE_BYTES = 400 };

// ---- Keeping ------------------------------------------------------------------------------------

history *history_open(void) {
    history *h = mem_alloc(sizeof *h);
    if (h) h->count = 0;
    return h;
}

static uint64_t trace_id(const run *r) {
    return trace_collective_id(r->group->id, r->sequence->key, r->number);
}

// The name of |o| in records, which is looked up once.
static uint32_t name_of(uint8_t o) {
    static _Atomic uint32_t names[OPERATION_COUNT];
    uint32_t name = atomic_load_explicit(&names[o], memory_order_relaxed);
    if (!name) name = trace_name(operation_name(o));
    atomic_store_explicit(&names[o], name, memory_order_relaxed);
    return name;
}

// Of this member's input, as far as its signature has them.
static uint64_t count_bytes(const collective_signature *x) {
    if (x->content != CONTENT_TENSOR || x->dims == SIGNATURE_OPEN) return 0;
    uint64_t bytes = gw_dtype_size(x->dtype);
    for (int i = 0; i < x->dims; i++) bytes *= (uint64_t)x->sizes[i];
    return bytes;
}

void history_begin_on_loop(run *r) {
    agent *a = r->group->agent;
    if (trace_is_on(TRACE_COLL))
        trace_record(TRACE_COLLECTIVE_ENTERED, a->observer.row, trace_id(r),
                     count_bytes(&r->signature), name_of(r->signature.operation));
    history *h = r->group->history;
    if (!h) return;
    history_record *x = &h->records[h->count % HISTORY_SIZE];
    r->record = ++h->count;
    x->key = r->sequence->key;
    x->number = r->number;
    x->began_ns = r->began_ns;
    x->ended_ns = 0;
    x->status = GW_OK;
    x->is_printed = false;
    x->signature = r->signature;
    memcpy(x->origin, r->origin, sizeof x->origin);
}

static void note_end(const run *r, gw_status status) {
    agent *a = r->group->agent;
    groups_of(a)->ended_count++;
    trace_sums_add(&groups_of(a)->ended, operation_name(r->signature.operation), r->group->name,
                   status, env_now_ns(a->env) - r->began_ns);
    if (trace_is_on(TRACE_COLL))
        trace_record(TRACE_COLLECTIVE_ENDED, a->observer.row, trace_id(r), status,
                     r->group->record_name);
}

void history_end_on_loop(const run *r, gw_status status) {
    history *h = r->group->history;
    if (r->state == RUN_UNDER_WAY) note_end(r, status);
    if (!h || !r->record || h->count - r->record >= HISTORY_SIZE) return;
    history_record *x = &h->records[(r->record - 1) % HISTORY_SIZE];
    if (x->ended_ns) return;
    x->ended_ns = env_now_ns(r->group->agent->env);
    x->status = status;
}

static history_record *record_at(history *h, uint64_t i) {
    return &h->records[i % HISTORY_SIZE];
}

static uint64_t first_of(const history *h) {
    return h->count > HISTORY_SIZE ? h->count - HISTORY_SIZE : 0;
}

const history_record *history_last_ended_on_loop(const gw_group *g, uint64_t key) {
    history *h = g->history;
    const history_record *last = NULL;
    for (uint64_t i = h ? first_of(h) : 0; h && i < h->count; i++) {
        const history_record *x = record_at(h, i);
        bool is_like =
            x->key == key || (key_is_final_sequence(x->key) && key_is_final_sequence(key));
        if (x->ended_ns && is_like && (!last || x->ended_ns >= last->ended_ns)) last = x;
    }
    return last;
}

const history_record *history_find_on_loop(const gw_group *g, uint64_t key, uint64_t number) {
    history *h = g->history;
    uint64_t first = h && h->count > HISTORY_SIZE ? h->count - HISTORY_SIZE : 0;
    for (uint64_t i = h ? h->count : 0; i > first; i--) {
        const history_record *x = record_at(h, i - 1);
        if (x->key == key && x->number == number) return x;
    }
    return NULL;
}

void history_put_last(const gw_group *g, uint64_t key, uint64_t number, text_builder *out) {
    const history_record *x = number > 1 ? history_find_on_loop(g, key, number - 1) : NULL;
    char what[SIGNATURE_TEXT_MAX];
    if (!x) return;
    signature_text(&x->signature, NULL, x->origin, what);
    text_put(out, "; collective %llu of %s was %s", (unsigned long long)x->number,
             group_member_name(g, g->self), what);
}

// ---- Printing -----------------------------------------------------------------------------------

// "collective 41: all_reduce sum f32 1000 (train.c:40): under way for 10 s, waits for w1".
static void put_record(const gw_group *g, const history_record *x, text_builder *out) {
    char what[SIGNATURE_TEXT_MAX], missing[256] = "";
    int64_t now_ns = env_now_ns(g->agent->env);
    const run *r = x->ended_ns ? NULL : group_find_run_on_loop(g, x->key, x->number);
    signature_text(&x->signature, r ? r->detail : NULL, x->origin, what);
    final_put_collective(g, (run_place){ x->key, x->number }, out);
    text_put(out, ": %s: ", what);
    if (!x->ended_ns) {
        if (r) run_name_missing(r, missing, sizeof missing);
        text_put(out, "under way for ");
        text_put_time(out, now_ns - x->began_ns);
        if (missing[0]) text_put(out, ", waits for %s", missing);
        return;
    }
    if (x->status)
        text_put(out, "failed (%s) after ", gw_status_name(x->status));
    else
        text_put(out, "done in ");
    text_put_time(out, x->ended_ns - x->began_ns);
    text_put(out, ", ");
    text_put_time(out, now_ns - x->ended_ns);
    text_put(out, " ago");
}

// Whether |b| follows |a|: the same call, with the next number of its key or in the next final sequence.
static bool continues(const history_record *a, const history_record *b) {
    char what[2][SIGNATURE_TEXT_MAX];
    bool is_next = a->key == b->key ? b->number == a->number + 1
                                    : key_is_final_sequence(a->key) && b->key == a->key + 1 &&
                                          b->number == a->number;
    if (!is_next || !a->ended_ns || a->status || !b->ended_ns || b->status) return false;
    signature_text(&a->signature, NULL, a->origin, what[0]);
    signature_text(&b->signature, NULL, b->origin, what[1]);
    return strcmp(what[0], what[1]) == 0;
}

// How many records from |i| on were not printed and are alike.
static uint64_t count_alike(history *h, uint64_t i) {
    uint64_t n = 1;
    bool repeats = i + 1 < h->count && record_at(h, i)->key != record_at(h, i + 1)->key;
    for (; i + n < h->count; n++) {
        const history_record *a = record_at(h, i + n - 1), *b = record_at(h, i + n);
        if (b->is_printed || (a->key != b->key) != repeats || !continues(a, b)) break;
    }
    return n;
}

// "collectives 1 to 40: barrier (train.c:40): 40 done, each in 297 us to 7.9 ms, the last 4.1 ms ago".
static void put_alike(const gw_group *g, uint64_t i, uint64_t n, text_builder *out) {
    const history_record *first = record_at(g->history, i),
                         *last = record_at(g->history, i + n - 1);
    int64_t shortest_ns = INT64_MAX, longest_ns = 0;
    for (uint64_t k = i; k < i + n; k++) {
        const history_record *x = record_at(g->history, k);
        int64_t ns = x->ended_ns - x->began_ns;
        if (ns < shortest_ns) shortest_ns = ns;
        if (ns > longest_ns) longest_ns = ns;
    }
    char what[SIGNATURE_TEXT_MAX];
    signature_text(&first->signature, NULL, first->origin, what);
    bool repeats = first->key != last->key;
    if (repeats) {
        final_put_collective(g, (run_place){ first->key, first->number }, out);
        text_put(out, " to %llu", (unsigned long long)(last->key - GROUP_KEY_FINAL));
    } else {
        text_put(out, "collectives %llu to %llu", (unsigned long long)first->number,
                 (unsigned long long)last->number);
        final_put_key(g, first->key, out);
    }
    text_put(out, ": %s: %llu done, each in ", what, (unsigned long long)n);
    text_put_time(out, shortest_ns);
    text_put(out, " to ");
    text_put_time(out, longest_ns);
    text_put(out, ", the last ");
    text_put_time(out, env_now_ns(g->agent->env) - last->ended_ns);
    text_put(out, " ago");
}

enum { ALIKE_MIN = 3 };  // as many make a line of their own

// Lines, each after |before|. With |only_new| it skips printed records and marks the rest as printed; repeated
// collectives of a loop are one line.
static int put_records(const gw_group *g, const char *before, bool only_new, text_builder *out) {
    history *h = g->history;
    int count = 0;
    for (uint64_t i = h ? first_of(h) : 0, n; h && i < h->count; i += n) {
        n = 1;
        if (only_new && record_at(h, i)->is_printed) continue;
        char line[LINE_BYTES];
        text_builder t = { line, 0, sizeof line };
        if (only_new) n = count_alike(h, i);
        if (n < ALIKE_MIN) n = 1;
        if (n > 1)
            put_alike(g, i, n, &t);
        else
            put_record(g, record_at(h, i), &t);
        for (uint64_t k = i; k < i + n; k++)
            record_at(h, k)->is_printed |= only_new && record_at(h, k)->ended_ns;
        text_put(out, "%s%s", before, line);
        count++;
    }
    return count;
}

static bool is_lowest_that_lives(const gw_group *g) {
    for (int i = 0; i < g->self; i++)
        if (!agent_member(g->agent, g->members[i].rank)->lost) return false;
    return true;
}

static const size_t text_bytes = GW_ERROR_TEXT_MAX + 256 + (LINE_BYTES + 8) * HISTORY_SIZE;

void history_print_on_loop(gw_group *g, const gw_error *why) {
    bool is_death = why->lost.how && why->lost.how != GW_LOSS_LEFT;  // whose line is enough
    if (!g->history || is_death || !is_lowest_that_lives(g)) return;
    char *text = mem_alloc(text_bytes);
    if (!text) return;
    text_builder t = { text, 0, text_bytes };
    text_put(&t, "%s; the last collectives of group \"%s\" on %s:", why->text, g->name,
             group_member_name(g, g->self));
    if (put_records(g, "\n    ", true, &t)) log_block(text);
    mem_free(text);
}

const char *gw_group_history(gw_scope *s, gw_group *g) {
    if (!group_is_given(s, g, "gw_group_history") || s->error) return "";
    char *text = gw_alloc(s, text_bytes);
    if (!text) return "";
    text[0] = '\0';
    text_builder t = { text, 0, text_bytes };
    env_enter(g->agent->env);
    put_records(g, "\n", false, &t);
    env_leave(g->agent->env);
    return text[0] ? text + 1 : text;
}
