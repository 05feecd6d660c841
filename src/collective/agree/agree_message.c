// The messages of agreements: their encoding.
#include "agent/dispatch/deferred.h"
#include "base/mem.h"
#include "base/status.h"
#include "collective/agree/agree.h"
#include "wire/codec.h"

void agree_answer_on_loop(agent *a, int to, uint8_t kind, const group_header *h) {
    message *m = agent_message_on_loop(a, kind);
    if (!m) return;
    group_header answer = *h;
    if (kind == KIND_ABSENT) answer.number = 0;
    if (kind != KIND_POLL) answer.key = 0;
    group_header_put(&m->head, &answer);
    agent_post_on_loop(a, to, m);
}

void proposal_put(bytes *out, const proposal *p) {
    bytes_put_u8(out, p->what);
    bytes_put_u64(out, p->flags);
    bytes_put_u32(out, p->min);
    bytes_put_u8(out, p->grow);
    bytes_put_u8(out, p->error != NULL);
    if (p->error) encode_error(out, error_kept(p->error));
}

void proposal_clear(proposal *p) {
    error_forget(&p->error);
    *p = (proposal){ 0 };
}

bool proposal_read(reader *in, proposal *out) {
    gw_error error, ignored;
    *out = (proposal){ .what = reader_u8(in) };
    out->flags = reader_u64(in);
    out->min = reader_u32(in);
    uint8_t grow = reader_u8(in), fails = reader_u8(in);
    if (in->failed || out->what > AGREE_REFORM || grow > 1 || fails > 1) return false;
    out->grow = grow;
    if (fails && decode_error(in, &error, &ignored)) return false;
    if (fails) error_keep(&out->error, &error);
    return true;
}

bool agree_names_unknown(const agent *a, const message *m) {
    decision *d = NULL;
    bool is_unknown = false;
    if (m->kind != KIND_DECIDED || m->head.size < GROUP_HEADER_BYTES) return false;
    reader in = reader_of(m->head.data + GROUP_HEADER_BYTES, m->head.size - GROUP_HEADER_BYTES);
    decision_decode(&in, &d);
    for (int i = 0; d && i < d->member_count; i++)
        is_unknown |= deferred_is_unknown(a, (uint64_t)d->members[i].rank);
    decision_release(d);
    return is_unknown;
}
