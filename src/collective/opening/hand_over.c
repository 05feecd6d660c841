// What a group receives when its program opens it: the state of the pending group, and messages that arrived before.
#include "agent/dispatch/dispatch.h"
#include "base/mem.h"
#include "base/mutation.h"
#include "collective/abort/abort.h"
#include "collective/agree/agree.h"
#include "collective/group/groups_state.h"
#include "collective/opening/opening.h"

static void break_if_dropped(groups *x, gw_group *g) {
    gw_error error;
    for (int i = 0; i < DROPPED_GROUPS; i++) {
        if (x->dropped[i] != g->id) continue;
        x->dropped[i] = 0;
        error_set(&error, GW_NO_MEMORY,
                  "%s had no memory to keep messages that arrived before it opened the group",
                  g->agent->name);
        group_break_all_on_loop(g, &error);
    }
}

static bool take_about_abort(gw_group *g, int index, uint8_t kind, const group_header *h,
                             reader *in) {
    if (kind >= KIND_PROPOSE) return agree_received_on_loop(g, index, kind, h, in);
    if (kind == KIND_QUERY) return abort_queried_before_on_loop(g, index, h, in);
    return abort_received_on_loop(g, index, kind, h, in);
}

// A report, query, abort or break that has arrived before the group was opened.
static void take_unexpected_abort(gw_group *g, unexpected_message *x) {
    int from = x->from;
    group_header h = x->header;
    uint8_t kind = x->kind;
    incoming *p = unexpected_open_on_loop(g->agent, x);
    const bytes *head = &p->message->head;
    reader in = reader_of(head->data + GROUP_HEADER_BYTES, head->size - GROUP_HEADER_BYTES);
    int index = h.list == g->list ? group_index_of(g, from) : -1;
    if (index >= 0 && !take_about_abort(g, index, kind, &h, &in)) {
        gw_error error;
        error_set(&error, GW_PROTOCOL, "collective: malformed fields");
        dispatch_protocol_error_on_loop(g->agent, from, &error);
    }
    incoming_close_on_loop(g->agent, p);
}

static void hand_over(groups *x, gw_group *g) {
    list_each(l, &x->unexpected) {
        unexpected_message *m = list_entry(l, unexpected_message, link);
        if (m->header.group != g->id) continue;
        int from = m->from;
        if (!unexpected_is_value(m)) {
            if (!has_mutation(MUTATION_UNEXPECTED_BREAK_FORGOTTEN)) take_unexpected_abort(g, m);
        } else if (m->header.list != g->list || group_index_of(g, from) < 0) {
            unexpected_drop_on_loop(g->agent, m);
            group_refuse_list_on_loop(g, from);
        } else if (g->broken.status) {  // by an earlier message
            unexpected_drop_on_loop(g->agent, m);
            abort_send_break_on_loop(g, from, &g->broken);
        } else {
            list_remove(l);
            if (has_mutation(MUTATION_UNEXPECTED_REVERSED))
                list_prepend(&g->unexpected, l);
            else
                list_append(&g->unexpected, l);
        }
    }
}

void unexpected_hand_over_on_loop(gw_group *g) {
    groups *x = groups_of(g->agent);
    pending_group_hand_over_on_loop(g);
    hand_over(x, g);
    break_if_dropped(x, g);
}
