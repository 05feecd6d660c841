#include "call/object.h"

#include "agent/bodies/context.h"
#include "base/log.h"
#include "base/mem.h"
#include "call/calls.h"

// ---- Objects ------------------------------------------------------------------------------------

// A call that gets its turn from here on, or looks up its object, finds none.
static void part_from_turn(const object *o) {
    bool is_closed = agent_is_closed(o->agent);
    if (!is_closed) env_enter(o->agent->env);
    o->turn->own = NULL;
    if (!is_closed) env_leave(o->agent->env);
}

static void free_object(object *o) {
    if (o->turn) part_from_turn(o);
    o->own->is_lent = false;
    scope_close_unread(o->own);
    turn_release(o->turn);
    mem_free(o->self);
    mem_free(o);
}

static object *alloc_object(agent *a, gw_scope *s, const class *c, uint64_t key) {
    object *o = mem_calloc(sizeof *o);
    if (!o) {
        scope_fail(s, GW_NO_MEMORY, "no memory for an object");
        return NULL;
    }
    o->agent = a;
    o->class = c;
    o->self = mem_calloc(c->options.size ? c->options.size : 1);
    o->own = agent_scope_open(a, key, 0, ENV_NEVER);
    o->own->is_lent = !o->own->error;
    env_enter(a->env);
    o->turn = turn_open_on_loop(a);
    if (o->turn) {
        o->turn->own = o->own;
        o->turn->class_name = c->name;
    }
    env_leave(a->env);
    if (!o->self || !o->turn) scope_fail(s, GW_NO_MEMORY, "no memory for an object");
    if (o->own->error) scope_fail_with(s, o->own->error);
    return o;
}

typedef struct opening {
    object *object;
    const gw_args *args;
} opening;

static void run_open(void *context) {
    const opening *x = context;
    x->object->class->options.open(x->object->own, x->object->self, x->args);
}

static void run_close(void *context) {
    const object *o = context;
    o->class->options.close(o->own, o->self);
}

object *object_open(agent *a, gw_scope *s, const class *c, uint64_t key, context *during,
                    const gw_args *args) {
    object *o = alloc_object(a, s, c, key);
    if (!o) return NULL;
    if (!s->error) {
        held_turn h = { .scope = s };
        env_enter(a->env);
        o->turn->taken = true;
        turn_begin_on_loop(&h, o->turn, during, true);
        env_leave(a->env);
        scope_run(o->own, run_open, &(opening){ o, args });
        object_report_error(o, s);
        env_enter(a->env);
        if (s->error) o->turn->own = NULL;
        turn_end_on_loop(&h);
        env_leave(a->env);
    }
    if (!s->error) return o;
    free_object(o);  // an object whose constructor failed is not closed by its class
    return NULL;
}

static void close_object(object *o) {
    if (o->class->options.close) scope_run(o->own, run_close, o);
    if (o->own->error) log_error("closing a %s: %s", o->class->name, o->own->error->text);
    free_object(o);
}

void object_close(object *o) {
    turn_lead_to(o->turn, NULL);
    close_object(o);
}

// OBJ-4.
static void run_end(object *o, bool has_place) {
    agent *a = o->agent;
    turn *t = turn_retain(o->turn);
    held_turn h = { 0 };
    context c = { .scope = agent_scope_open(a, 0, 0, ENV_NEVER),
                  .ending = o->own,
                  .agent = a,
                  .may_wait = has_place,
                  .has_place = has_place,
                  .depth = 1,  // a body like others: its calls are served while the job drains
                  .deadline_ns = ENV_NEVER,
                  .function = o->class->name };
    gw_scope *s = c.scope;
    list_init(&c.turns);
    if (gw_ok(s)) context_attach(&c);
    env_enter(a->env);
    turn_begin_on_loop(&h, t, &c, true);
    env_leave(a->env);
    if (a->timeout_ms > 0) gw_scope_set_timeout(o->own, a->timeout_ms);
    close_object(o);
    env_enter(a->env);
    turn_end_on_loop(&h);
    env_leave(a->env);
    scope_close_unread(s);
    turn_release(t);
    env_enter(a->env);
    calls_of(a)->body_count--;
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

static void end_in_turn(turn_request *r) {
    object *o = list_entry(r, object, end_turn);
    agent *a = o->agent;
    if (a->pool.ending) {
        o->end_task.run = run_end_task;
        env_defer(a->env, &o->end_task);
    } else {
        o->end = (pool_job){ .taken = end_taken, .run = run_end_job };
        pool_submit_on_loop(&a->pool, &o->end);
    }
}

void object_end_on_loop(object *o) {
    calls_of(o->agent)->body_count++;
    o->end_turn.granted = end_in_turn;
    if (turn_take_on_loop(o->turn, &o->end_turn)) end_in_turn(&o->end_turn);
}

void object_report_error(object *o, gw_scope *s) {
    if (!o->own->error) return;
    scope_fail_with(s, o->own->error);
    gw_scope_clear(o->own);
}
