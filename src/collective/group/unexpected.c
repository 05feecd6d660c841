// Unexpected messages: those of a collective that this member has not entered, or of a group that it has not opened.
#include "base/mem.h"
#include "collective/group/groups_state.h"

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
        return error_set(
            error, status,
            status == GW_LIMIT
                ? "too many bytes have arrived for collectives that this worker has not entered"
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

void unexpected_drop_between_on_loop(gw_group *g, uint64_t key, uint64_t from, uint64_t next) {
    list_node *all = g->is_pending ? &groups_of(g->agent)->unexpected : &g->unexpected;
    list_each(l, all) {
        unexpected_message *x = list_entry(l, unexpected_message, link);
        bool is_of =
            x->header.group == g->id && x->header.list == g->list && unexpected_is_value(x);
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

void shadow_enters_on_loop(gw_group *g) {
    if (!g->shadows || g->is_shadowing || list_is_empty(&g->unexpected)) return;
    handle_retain(g);
    g->is_shadowing = true;
    env_defer(g->agent->env, &g->shadow_task);
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
