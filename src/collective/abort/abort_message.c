// The messages of aborts and broken groups: their encoding, sending them. GRP-5, GRP-7.
#include "collective/abort/abort.h"

#include "base/log.h"
#include "wire/codec.h"

// If allocation fails, the other members wait until their deadlines.
void abort_send_on_loop(gw_group *g, int rank, message *m) {
    if (!agent_post_on_loop(g->agent, rank, m))
        log_error("group \"%s\": no memory to notify %s that a collective has ended", g->name,
                  agent_member(g->agent, rank)->name);
}

void abort_send_to_others_on_loop(gw_group *g, uint8_t kind, run_place about,
                                  const collective_abort *ab, const gw_error *error) {
    for (int i = 0; i < g->count; i++) {
        int rank = g->members[i].rank;
        if (i == g->self || agent_member(g->agent, rank)->lost) continue;
        message *m = group_message_on_loop(g, kind, about.key, about.number);
        if (m && ab) bytes_put_u64(&m->head, ab->next);
        if (m && ab) bytes_put_u64(&m->head, ab->all);
        if (m && ab) bytes_put_u64(&m->head, ab->ahead);
        if (m && ab) bytes_put_u64(&m->head, ab->failed);
        if (m && ab) bytes_put_u8(&m->head, ab->level);
        if (m && error) encode_error(&m->head, error);
        abort_send_on_loop(g, rank, m);
    }
}

void abort_send_break_on_loop(gw_group *g, int rank, const gw_error *error) {
    message *m = group_message_on_loop(g, KIND_BREAK, g->backend_is_down, 0);
    if (m) encode_error(&m->head, error);
    abort_send_on_loop(g, rank, m);
}

void abort_put_about(bytes *out, const report_about *x) {
    bytes_put_u8(out, (uint8_t)x->cause);
    bytes_put_u64(out, x->next);
    bytes_put_u64(out, x->failed);
    bytes_put_u8(out, x->level);
}

bool abort_read_about(reader *in, const group_header *h, report_about *out) {
    uint8_t cause = reader_u8(in);
    *out = (report_about){ .key = h->key, .number = h->number, .cause = (report_cause)cause };
    out->next = reader_u64(in);
    out->failed = reader_u64(in);
    out->level = reader_u8(in);
    bool has_left = cause == REPORT_LEFT;
    return !in->failed && cause < REPORT_CAUSE_COUNT && out->level <= SCOPE_PATH_CALL &&
           (has_left ? out->failed && out->next == out->number : out->next > out->number);
}
