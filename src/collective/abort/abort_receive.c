// The messages of aborts that a member receives.
#include "collective/abort/abort.h"

#include "base/mem.h"
#include "collective/run/activity.h"
#include "collective/run/run.h"
#include "collective/group/groups_state.h"
#include "collective/group/roster.h"
#include "wire/codec.h"

// GRP-10: |from| has not received that the group is broken.
static void answer_for_broken(gw_group *g, int from, uint8_t kind) {
    if (kind == KIND_REPORT || kind == KIND_QUERY)
        abort_send_break_on_loop(g, g->members[from].rank, &g->broken);
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
    roster members;  // for a leader that has not opened the group
    if (kind == KIND_BREAK && h->key) backend_group_down_on_loop(g);
    if (g->broken.status) {
        answer_for_broken(g, from, kind);
        return true;
    }
    switch (kind) {
    case KIND_REPORT:
        if (!abort_read_about(in, h, &about) || !roster_read(in, &members) ||
            !read_error(in, &error))
            return false;
        abort_take_report_on_loop(g, &about, &error);
        return true;
    case KIND_QUERY:
        if (!may_lead(g, from) || !abort_read_about(in, h, &about)) return false;
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
    if (!may_lead(g, from) || !abort_read_about(in, h, &about)) return false;
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
    agent_post_on_loop(a, to, m);
}
