// The messages of aborts, broken groups, and the identities of errors. GRP-5, GRP-7.
// GRP-5, GRP-7.
#include "collective/abort.h"

#include "agent/dispatch.h"
#include "base/log.h"
#include "base/mem.h"
#include "collective/backend_run.h"
#include "collective/activity.h"
#include "collective/groups_state.h"
#include "collective/history.h"
#include "wire/codec.h"

#include <stdio.h>

void group_blame_on_loop(gw_group *g, int rank, const gw_error *error) {
    dispatch_protocol_error_on_loop(g->agent, rank, error);
}

// GRP-5. The list distinguishes groups of one name that this worker has opened one after the other.
static uint64_t group_identity(const gw_group *g) {
    uint64_t both = hash_u64(g->id + g->list);
    return both ? both : 1;
}

gw_abort abort_identity(const gw_group *g, uint64_t key, uint64_t number) {
    return (gw_abort){ .group = group_identity(g), .key = key, .number = number };
}

// The number in an error about the group as a whole.
enum { NUMBER_OF_GROUP = 0 };
// The number in an error that a member has reported before its own number is known.
#define NUMBER_OF_REPORT UINT64_MAX

bool group_has_reported(const gw_group *g, const gw_error *error) {
    uint64_t own = group_identity(g);
    int count = error_abort_count(error);
    for (int i = 0; i < count; i++) {
        const gw_abort *x = &error->aborts[i];
        if (x->group == own && x->number != NUMBER_OF_GROUP && x->number != NUMBER_OF_REPORT)
            return true;
    }
    return false;
}

bool sequence_has_reported(const gw_group *g, const sequence *t, const gw_error *error) {
    uint64_t own = group_identity(g);
    int count = error_abort_count(error);
    for (int i = 0; i < count; i++) {
        const gw_abort *x = &error->aborts[i];
        if (x->group != own || x->key != t->key || x->number == NUMBER_OF_GROUP) continue;
        if (x->number < t->next_then || x->number == NUMBER_OF_REPORT) return true;
    }
    return false;
}

void sequence_note_report(const gw_group *g, const sequence *t, gw_error *error) {
    error_add_abort(error, abort_identity(g, t->key, NUMBER_OF_REPORT));
}

// Done once: members send each other the error that has broken the group.
static void name_group(const gw_group *g, gw_error *error) {
    uint64_t own = group_identity(g);
    int count = error_abort_count(error);
    for (int i = 0; i < count; i++)
        if (error->aborts[i].group == own && error->aborts[i].number == NUMBER_OF_GROUP) return;
    char title[LIMIT_NAME_BYTES + 16];
    snprintf(title, sizeof title, "group \"%s\"", g->name);
    error_prefix(error, title);
    error_add_abort(error, abort_identity(g, 0, NUMBER_OF_GROUP));
}

// ---- Messages -----------------------------------------------------------------------------------

message *abort_open_message(gw_group *g, uint8_t kind, uint64_t key, uint64_t number) {
    message *m = agent_message_on_loop(g->agent, kind);
    if (m) group_header_write(&m->head, g, key, number);
    return m;
}

// If allocation fails, the other members wait until their deadlines.
void abort_send_on_loop(gw_group *g, int rank, message *m) {
    if (m && m->head.failed) {
        message_release(m);
        m = NULL;
    }
    if (m)
        agent_send_on_loop(g->agent, rank, m, true, NULL);
    else
        log_error("group \"%s\": no memory to notify %s that a collective has ended", g->name,
                  agent_member(g->agent, rank)->name);
}

void abort_send_to_others_on_loop(gw_group *g, uint8_t kind, run_place about,
                                  const collective_abort *ab, const gw_error *error) {
    for (int i = 0; i < g->count; i++) {
        int rank = g->members[i].rank;
        if (i == g->self || agent_member(g->agent, rank)->lost) continue;
        message *m = abort_open_message(g, kind, about.key, about.number);
        if (m && ab) bytes_put_u64(&m->head, ab->next);
        if (m && ab) bytes_put_u64(&m->head, ab->all);
        if (m && ab) bytes_put_u64(&m->head, ab->ahead);
        if (m && ab) bytes_put_u64(&m->head, ab->failed);
        if (m && ab) bytes_put_u8(&m->head, ab->level);
        if (m && error) encode_error(&m->head, error);
        abort_send_on_loop(g, rank, m);
    }
}

// ---- Breaking -----------------------------------------------------------------------------------

void group_break_on_loop(gw_group *g, const gw_error *error) {
    if (g->broken.status) return;
    handle_retain(g);
    g->broken = *error;
    name_group(g, &g->broken);
    bool fails = !list_is_empty(&g->runs) || !list_is_empty(&g->waiting);
    g->break_is_known = fails;
    if (fails && g->agent->phase != AGENT_LEFT) history_print_on_loop(g, &g->broken);
    while (!list_is_empty(&g->runs))
        run_fail_by_abort_on_loop(list_entry(g->runs.next, run, link), UINT64_MAX, &g->broken);
    while (!list_is_empty(&g->waiting))
        run_fail_on_loop(list_entry(g->waiting.next, run, link), &g->broken);
    while (!list_is_empty(&g->unexpected))
        unexpected_drop_on_loop(g->agent, list_entry(g->unexpected.next, unexpected_message, link));
    for (list_node *l; (l = list_take(&g->reports));) mem_free(list_entry(l, report, link));
    mem_free(g->testimonies);
    g->testimonies = NULL;
    group_release_on_loop(g);
}

void group_break_all_on_loop(gw_group *g, const gw_error *error) {
    if (g->broken.status) return;
    abort_send_to_others_on_loop(g, KIND_BREAK, (run_place){ .key = g->backend_is_down }, NULL,
                                 error);
    group_break_on_loop(g, error);
}

void abort_send_break_on_loop(gw_group *g, int rank, const gw_error *error) {
    message *m = abort_open_message(g, KIND_BREAK, g->backend_is_down, 0);
    if (m) encode_error(&m->head, error);
    abort_send_on_loop(g, rank, m);
}

void group_dropped_on_loop(gw_group *g, uint64_t key, uint64_t number, const gw_error *error) {
    sequence *t = group_sequence_on_loop(g, key);
    if (!t) {
        group_break_all_on_loop(g, error);
        return;
    }
    t->has_dropped = true;
    group_report_on_loop(g, key, number, error);
}

// ---- Received messages --------------------------------------------------------------------------

// GRP-10: |from| has not received that the group is broken.
static void answer_for_broken(gw_group *g, int from, uint8_t kind) {
    if (kind == KIND_REPORT || kind == KIND_QUERY)
        abort_send_break_on_loop(g, g->members[from].rank, &g->broken);
}

void abort_put_about(bytes *out, const report_about *x) {
    bytes_put_u8(out, (uint8_t)x->cause);
    bytes_put_u64(out, x->next);
    bytes_put_u64(out, x->failed);
    bytes_put_u8(out, x->level);
}

static bool read_about(reader *in, const group_header *h, report_about *out) {
    uint8_t cause = reader_u8(in);
    *out = (report_about){ .key = h->key, .number = h->number, .cause = (report_cause)cause };
    out->next = reader_u64(in);
    out->failed = reader_u64(in);
    out->level = reader_u8(in);
    bool has_left = cause == REPORT_LEFT;
    return !in->failed && cause < REPORT_CAUSE_COUNT && out->level <= SCOPE_PATH_CALL &&
           (has_left ? out->failed && out->next == out->number : out->next > out->number);
}

static bool read_error(reader *in, gw_error *out) {
    gw_error ignored;
    return !decode_error(in, out, &ignored) && out->status != GW_OK;
}

// GRP-7: this member may not have received yet that the members before it have left.
static bool may_lead(const gw_group *g, int from) {
    for (int i = 0; i < from; i++) {
        int rank = g->members[i].rank;
        if (!agent_member(g->agent, rank)->lost && !groups_part_of(g->agent, rank)->has_departed)
            return false;
    }
    return true;
}

bool abort_received_on_loop(gw_group *g, int from, uint8_t kind, const group_header *h,
                            reader *in) {
    gw_error error;
    collective_abort ab;
    report_about about;
    if (kind == KIND_BREAK && h->key) backend_group_down_on_loop(g);
    if (g->broken.status) {
        answer_for_broken(g, from, kind);
        return true;
    }
    switch (kind) {
    case KIND_REPORT:
        if (!read_about(in, h, &about) || !pending_group_skip(in) || !read_error(in, &error))
            return false;
        abort_take_report_on_loop(g, &about, &error);
        return true;
    case KIND_QUERY:
        if (!may_lead(g, from) || !read_about(in, h, &about)) return false;
        abort_send_answer_on_loop(g, from, &about);
        return true;
    case KIND_ANSWER: return abort_take_answer_on_loop(g, from, h, in);
    case KIND_ABORT:
        ab = (collective_abort){ .key = h->key, .number = h->number, .next = reader_u64(in) };
        ab.all = reader_u64(in);
        ab.ahead = reader_u64(in);
        ab.failed = reader_u64(in);
        ab.level = reader_u8(in);
        if (!may_lead(g, from) || ab.next < ab.number || (ab.next == ab.number && !ab.failed) ||
            ab.all > ab.next || ab.ahead < ab.next || ab.level > SCOPE_PATH_CALL ||
            !read_error(in, &ab.error))
            return false;
        handle_retain(g);
        abort_apply_on_loop(g, &ab);
        group_release_on_loop(g);
        return true;
    case KIND_BREAK:
        if (!read_error(in, &error)) return false;
        if (g->testimonies)  // a member that has answered waits for an abort
            group_break_all_on_loop(g, &error);
        else
            group_break_on_loop(g, &error);
        return true;
    }
    return false;
}

bool abort_queried_before_on_loop(gw_group *g, int from, const group_header *h, reader *in) {
    report_about about;
    testimony answered;
    if (!may_lead(g, from) || !read_about(in, h, &about)) return false;
    if (!g->broken.status) abort_testify_on_loop(g, &about, &answered);
    return true;
}

void abort_answer_unknown_on_loop(agent *a, int to, const group_header *h) {
    activity own;
    message *m = agent_message_on_loop(a, KIND_ANSWER);
    if (!m) return;
    group_header_put(&m->head, h);
    bytes_put_u64(&m->head, 1);  // next
    bytes_put_u64(&m->head, 0);  // last
    bytes_put_u64(&m->head, 0);  // call
    bytes_put_u8(&m->head, NOT_CALLED);
    activity_read_on_loop(a, &(collective_id){ h->group, h->key, h->number }, &own);
    bytes_put_text(&m->head, own.text);
    if (m->head.failed)
        message_release(m);
    else
        agent_send_on_loop(a, to, m, true, NULL);
}
