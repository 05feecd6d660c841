// Replies to members that enter collectives of a group that this member has closed, or has with other members.
#include "collective/abort/abort.h"

#include "collective/group/roster.h"
#include "wire/codec.h"

// GRP-9.
void group_refuse_list_on_loop(gw_group *g, int from) {
    gw_error error;
    error_set(&error, GW_MISMATCH, "the members of the group on %s differ from those on %s",
              agent_member(g->agent, from)->name, g->agent->name);
    abort_send_break_on_loop(g, from, &error);
    group_break_on_loop(g, &error);
}

// GRP-8: no member waits for one that has closed the group, nor for its abort. The leader is notified, after earlier
// reports; if this member was the leader, there is none.
void group_refuse_closed_on_loop(agent *a, int from, int leader, const group_header *h) {
    gw_error error;
    bool leads = leader == a->rank || agent_member(a, leader)->lost;
    group_header about = *h;
    if (leads) about.key = about.number = 0;
    error_set(&error, GW_DISCONNECTED, "%s has closed the group", a->name);
    message *m = agent_message_on_loop(a, leads ? KIND_BREAK : KIND_REPORT);
    if (!m) return;
    group_header_put(&m->head, &about);
    if (!leads)
        abort_put_about(
            &m->head, &(report_about){ h->key, h->number, h->number + 1, REPORT_COLLECTIVE, 0, 0 });
    if (!leads) roster_put_none(&m->head);
    encode_error(&m->head, &error);
    agent_post_on_loop(a, leads ? from : leader, m);
}
