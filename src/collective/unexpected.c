// Unexpected messages: those of a collective that this member has not entered, or of a group that it has not opened.
#include "base/mem.h"
#include "base/mutation.h"
#include "collective/abort.h"
#include "collective/agree.h"
#include "collective/groups_state.h"

// ---- Kept messages ------------------------------------------------------------------------------

gw_status unexpected_keep_on_loop(agent *a, list_node *list, int from, uint8_t kind,
                                  const group_header *h, incoming *p, gw_error *error) {
    groups_part *part = groups_part_of(a, from);
    uint64_t size =
        sizeof(unexpected_message) + message_size(p->message) + p->message->fetched_bytes;
    unexpected_message *x = mem_alloc(sizeof *x);
    if (!x || size > LIMIT_UNEXPECTED_COLLECTIVE_BYTES - part->unexpected_bytes) {
        gw_status status = x ? GW_LIMIT : GW_NO_MEMORY;
        mem_free(x);
        incoming_close_on_loop(a, p);
        return error_set(error, status,
                         status == GW_LIMIT
                             ? "too many bytes of collectives that this worker has not entered"
                             : "no memory for a collective");
    }
    part->unexpected_bytes += size;
    *x = (unexpected_message){
        .header = *h, .kind = kind, .from = from, .size = size, .incoming = p
    };
    list_append(list, &x->link);
    return GW_OK;
}

unexpected_message *unexpected_take_on_loop(const gw_group *g, uint64_t key, uint64_t number) {
    list_each(l, &g->unexpected) {
        unexpected_message *x = list_entry(l, unexpected_message, link);
        if (x->header.key != key || x->header.number != number) continue;
        list_remove(l);
        return x;
    }
    return NULL;
}

incoming *unexpected_open_on_loop(agent *a, unexpected_message *x) {
    groups_part *part = groups_part_of(a, x->from);
    incoming *p = x->incoming;
    part->unexpected_bytes -= x->size;
    list_remove(&x->link);
    mem_free(x);
    return p;
}

void unexpected_drop_on_loop(agent *a, unexpected_message *x) {
    incoming_close_on_loop(a, unexpected_open_on_loop(a, x));
}

static bool is_value(const unexpected_message *x) {
    return x->kind == KIND_ENTER || x->kind == KIND_PART;
}

void unexpected_drop_between_on_loop(gw_group *g, uint64_t key, uint64_t from, uint64_t next) {
    list_node *all = g->is_pending ? &groups_of(g->agent)->unexpected : &g->unexpected;
    list_each(l, all) {
        unexpected_message *x = list_entry(l, unexpected_message, link);
        bool is_of = x->header.group == g->id && x->header.list == g->list && is_value(x);
        uint64_t number = x->header.number;
        if (is_of && x->header.key == key && number >= from && number < next)
            unexpected_drop_on_loop(g->agent, x);
    }
}

void unexpected_drop_all_on_loop(agent *a) {
    list_node *all = &groups_of(a)->unexpected;
    while (!list_is_empty(all))
        unexpected_drop_on_loop(a, list_entry(all->next, unexpected_message, link));
}

// ---- Failed allocations -------------------------------------------------------------------------

void unexpected_dropped_on_loop(agent *a, int from, gw_group *g, const group_header *h,
                                const gw_error *error) {
    groups *x = groups_of(a);
    bool is_member = g && g->list == h->list && group_index_of(g, from) >= 0;
    if (!g)
        x->dropped[x->dropped_count++ % DROPPED_GROUPS] = h->group;
    else if (is_member && !g->broken.status)
        group_dropped_on_loop(g, h->key, h->number, error);
}

static void break_if_dropped(groups *x, gw_group *g) {
    gw_error error;
    for (int i = 0; i < DROPPED_GROUPS; i++) {
        if (x->dropped[i] != g->id) continue;
        x->dropped[i] = 0;
        error_set(&error, GW_NO_MEMORY,
                  "%s had no memory for messages that arrived before it opened the group",
                  g->agent->name);
        group_break_all_on_loop(g, &error);
    }
}

// ---- Opening a group ----------------------------------------------------------------------------

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
        group_blame_on_loop(g, from, &error);
    }
    incoming_close_on_loop(g->agent, p);
}

static void hand_over(groups *x, gw_group *g) {
    list_each(l, &x->unexpected) {
        unexpected_message *m = list_entry(l, unexpected_message, link);
        if (m->header.group != g->id) continue;
        int from = m->from;
        if (!is_value(m)) {
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
