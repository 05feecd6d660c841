#include "rpc/object.h"

#include "base/mem.h"
#include "rpc/context.h"

#include <assert.h>

// ---- Objects ----

static void lead_to(object *o, context *c) {
    scope_set_slot(o->own, SCOPE_TURN, c, NULL);
    o->own->may_wait = c && c->may_wait;
}

static void free_object(object *o) {
    o->own->is_lent = false;
    gw_error ignored = gw_scope_close(o->own);
    (void)ignored;
    mem_free(o->self);
    mem_free(o);
}

object *object_open(agent *a, gw_scope *s, const class *c, uint64_t key, context *during,
                    const gw_args *args) {
    object *o = mem_calloc(sizeof *o);
    if (!o) {
        scope_fail(s, GW_NO_MEMORY, "no memory for an object");
        return NULL;
    }
    o->agent = a;
    o->class = c;
    list_init(&o->waiting);
    o->self = mem_calloc(c->options.size ? c->options.size : 1);
    o->own = agent_scope_open(a, key, 0, ENV_NEVER);
    o->own->is_lent = !o->own->error;
    if (!o->self) scope_fail(s, GW_NO_MEMORY, "no memory for an object");
    if (o->own->error) scope_fail_with(s, o->own->error);
    if (!s->error) {
        lead_to(o, during);
        c->options.open(o->own, o->self, args);
        object_settle(o, s);
        lead_to(o, NULL);
    }
    if (!s->error) {
        env_enter(a->env);
        o->number = ++a->last_object;
        env_leave(a->env);
        return o;
    }
    free_object(o);  // what was not made whole is not closed by its class
    return NULL;
}

static void close_object(object *o) {
    if (o->class->options.close) o->class->options.close(o->own, o->self);
    free_object(o);
}

void object_close(object *o) {
    lead_to(o, NULL);
    close_object(o);
}

// docs/PROTOCOL.md, O4.
static void run_end(object *o, bool has_place) {
    agent *a = o->agent;
    context c = { .scope = o->own,
                  .agent = a,
                  .may_wait = has_place,
                  .has_place = has_place,
                  .hops = 1,  // a body like others: what it calls is served while the job drains
                  .deadline_ns = ENV_NEVER,
                  .function = o->class->name };
    list_init(&c.turns);
    lead_to(o, &c);
    if (a->timeout_ms > 0) gw_scope_set_timeout(o->own, a->timeout_ms);
    close_object(o);
    env_enter(a->env);
    a->body_count--;
    leaving_check_on_loop(a);
    env_leave(a->env);
}

static void run_end_job(pool_job *j) {
    run_end(list_entry(j, object, end), true);
}

static bool end_taken(pool_job *j) {
    (void)j;
    return true;
}

static void run_end_task(task *t) {
    run_end(list_entry(t, object, end_task), false);
}

void object_end_on_loop(object *o) {
    agent *a = o->agent;
    a->body_count++;
    if (a->pool.ending) {
        o->end_task.run = run_end_task;
        env_defer(a->env, &o->end_task);
    } else {
        o->end = (pool_job){ .taken = end_taken, .run = run_end_job };
        pool_submit_on_loop(&a->pool, &o->end);
    }
}

void object_settle(object *o, gw_scope *s) {
    if (!o->own->error) return;
    scope_fail_with(s, o->own->error);
    gw_scope_clear(o->own);
}

// ---- Turns ----

bool turn_take_on_loop(object *o, turn_request *r) {
    if (!o->taken) {
        assert(list_is_empty(&o->waiting));
        o->taken = true;
        return true;
    }
    list_append(&o->waiting, &r->link);
    return false;
}

// Straight to the next: whoever comes now is behind.
void turn_give_on_loop(object *o) {
    assert(o->taken);
    list_node *l = list_take(&o->waiting);
    o->taken = l != NULL;
    if (!l) return;
    turn_request *r = list_entry(l, turn_request, link);
    r->granted(r);
}

void turn_cancel_on_loop(turn_request *r) {
    list_remove(&r->link);
}

void turn_begin_on_loop(held_turn *h, object *o, context *c, bool holds) {
    h->object = o;
    h->holds = false;
    list_append(&c->turns, &h->link);
    if (holds) turn_resume_on_loop(h, c);
}

void turn_resume_on_loop(held_turn *h, context *c) {
    h->holds = true;
    lead_to(h->object, c);
}

void turn_pause_on_loop(held_turn *h) {
    if (!h->holds) return;
    h->holds = false;
    lead_to(h->object, NULL);
    turn_give_on_loop(h->object);
}

void turn_end_on_loop(held_turn *h) {
    turn_pause_on_loop(h);
    list_remove(&h->link);
}
