#include "agent/bodies/turn.h"

#include "agent/bodies/context.h"
#include "base/mem.h"

#include <assert.h>

turn *turn_open_on_loop(agent *a) {
    turn *t = mem_calloc(sizeof *t);
    if (!t) return NULL;
    atomic_init(&t->count, 1);
    t->number = ++a->last_turn;
    list_init(&t->waiting);
    return t;
}

turn *turn_retain(turn *t) {
    atomic_fetch_add_explicit(&t->count, 1, memory_order_relaxed);
    return t;
}

void turn_release(turn *t) {
    if (t && atomic_fetch_sub_explicit(&t->count, 1, memory_order_acq_rel) == 1) mem_free(t);
}

bool turn_take_on_loop(turn *t, turn_request *r) {
    if (!t->taken) {
        assert(list_is_empty(&t->waiting));
        t->taken = true;
        return true;
    }
    list_append(&t->waiting, &r->link);
    return false;
}

// Passes the turn directly to the next request: a request that is made now is queued behind it.
void turn_give_on_loop(turn *t) {
    assert(t->taken);
    list_node *l = list_take(&t->waiting);
    t->taken = l != NULL;
    if (!l) return;
    turn_request *r = list_entry(l, turn_request, link);
    r->granted(r);
}

void turn_cancel_on_loop(turn_request *r) {
    list_remove(&r->link);
}

void turn_lead_to(const turn *t, context *c) {
    if (!t->own) return;
    scope_set_slot(t->own, SCOPE_TURN, c, NULL);
    t->own->may_wait = c && c->may_wait;
}

void turn_begin_on_loop(held_turn *h, turn *t, context *c, bool holds) {
    h->turn = t;
    h->holds = false;
    list_append(&c->turns, &h->link);
    if (holds) turn_resume_on_loop(h, c);
}

void turn_resume_on_loop(held_turn *h, context *c) {
    h->holds = true;
    turn_lead_to(h->turn, c);
}

void turn_pause_on_loop(held_turn *h) {
    if (!h->holds) return;
    h->holds = false;
    turn_lead_to(h->turn, NULL);
    turn_give_on_loop(h->turn);
}

void turn_end_on_loop(held_turn *h) {
    turn_pause_on_loop(h);
    list_remove(&h->link);
}
