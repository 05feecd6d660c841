// The headers of the messages of groups.
#include "collective/group/group.h"

void group_header_put(bytes *head, const group_header *h) {
    bytes_put_u64(head, h->group);
    bytes_put_u64(head, h->list);
    bytes_put_u64(head, h->key);
    bytes_put_u64(head, h->number);
    bytes_put_u32(head, 0);
}

void group_header_write(bytes *head, const gw_group *g, uint64_t key, uint64_t number) {
    group_header_put(head, &(group_header){ g->id, g->list, key, number, 0 });
}

bool group_header_read(reader *in, group_header *out) {
    out->group = reader_u64(in);
    out->list = reader_u64(in);
    out->key = reader_u64(in);
    out->number = reader_u64(in);
    out->attachments_at = reader_u32(in);
    return !in->failed;
}

message *group_message_on_loop(gw_group *g, uint8_t kind, uint64_t key, uint64_t number) {
    message *m = agent_message_on_loop(g->agent, kind);
    if (m) group_header_write(&m->head, g, key, number);
    return m;
}
