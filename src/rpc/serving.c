// From a request that came to its turn to run.
#include "rpc/serving.h"

#include "base/mem.h"
#include "rpc/reply.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

// ---- Names ----

void serving_describe(const serving *s, char *out, size_t size) {
    snprintf(out, size, "%s for %s", s->header.function[0] ? s->header.function : "a value",
             agent_member(s->agent, s->caller)->name);
}

// ---- Refusing ----

// Without the serving: nothing is known but who called.
static void refuse_unread_on_loop(agent *a, int to, uint64_t call, const gw_error *error) {
    shipment sh;
    bool filled = !reply_fill(&sh, a, KIND_REPLY, call, "", gw_none(), error);
    reply_send_on_loop(&sh, a, to, KIND_REPLY, call, filled, false);
    shipment_fini(&sh);
}

static void refuse_unserved_on_loop(agent *a, int from, const request_fixed *f,
                                    const gw_error *error) {
    entry *e;
    if (!f->call) return;
    if (!f->result) {
        refuse_unread_on_loop(a, from, f->call, error);
    } else if (!entry_accept_on_loop(a, from, f->result, f->result_fork, &e, NULL)) {
        entry_make_on_loop(e, result_of_error(error), NULL);
        entry_release_on_loop(e);
    }
}

// What it waits for may come about by its end, and must not find it.
static void stop_waiting(serving *s) {
    continuation_cancel_on_loop(&s->target_made);
    if (s->parcel) parcel_abandon_on_loop(s->parcel);
}

void serving_refuse_on_loop(serving *s, const gw_error *error) {
    agent *a = s->agent;
    stop_waiting(s);
    if (s->result_entry) {
        entry_make_on_loop(s->result_entry, result_of_error(error), NULL);
    } else if (!s->abandoned) {
        refuse_unread_on_loop(a, s->caller, s->header.fixed.call, error);
    }
    // Promises of this result are kept by the caller, who learns that none was honoured here.
    strand_cancel_on_loop(s);
    serving_free_on_loop(s);
}

// |trail| unless the sentence names this worker by itself.
static void refuse_with(serving *s, gw_error error, bool trail) {
    const char *self = agent_member(s->agent, s->agent->rank)->name;
    error.outcome = GW_NOT_DELIVERED;
    if (trail) {
        error_add_trail(&error, self, s->header.function);
    } else {
        snprintf(error.worker, sizeof error.worker, "%s", self);
        snprintf(error.function, sizeof error.function, "%s", s->header.function);
    }
    serving_refuse_on_loop(s, &error);
}

void serving_free_on_loop(serving *s) {
    agent *a = s->agent;
    if (s->expiry.armed) env_set_timer(a->env, &s->expiry, ENV_NEVER);
    continuation_cancel_on_loop(&s->target_made);
    if (s->sibling.next) agent_member(a, s->caller)->served_count--;
    list_remove(&s->sibling);
    for (list_node *l; (l = list_take(&s->forwards));) mem_free(list_entry(l, wanted, link));
    if (s->parcel) parcel_close_on_loop(a, s->parcel);
    if (s->target) entry_release_on_loop(s->target);
    if (s->result_entry) entry_release_on_loop(s->result_entry);
    if (s->returned) future_release_on_loop(s->returned);
    a->body_count--;
    mem_give(s, sizeof *s);
    leaving_check_on_loop(a);
}

// ---- What is called ----

static gw_status no_function(serving *s, gw_error *error) {
    return error_set(error, GW_NOT_FOUND, "%s has no function %s",
                     agent_member(s->agent, s->agent->rank)->name, s->header.function);
}

static gw_status find_function(serving *s, gw_error *error) {
    const char *name = s->header.function;
    s->function = registry_find(s->agent->registry, name);
    if (!s->function) s->op = registry_find_operator(name);
    if (!s->function && !s->op) return no_function(s, error);
    if (s->function && s->function->class && !s->result_entry)
        return error_set(error, GW_INVALID, "a class, not a function: gw_remote makes one of it");
    return GW_OK;
}

static gw_status find_method(serving *s, gw_error *error) {
    s->object = entry_object(s->target, error);
    if (!s->object) return error->status;
    s->class = s->object->class;
    s->function = class_find_method(s->class, s->header.function);
    if (s->function) return GW_OK;
    return error_set(error, GW_NOT_FOUND, "%s has no method %s.%s",
                     agent_member(s->agent, s->agent->rank)->name, s->class->name,
                     s->header.function);
}

static bool is_inline(const serving *s) {
    if (s->op) return message_size(s->parcel->message) <= LIMIT_OPERATOR_BYTES_INLINE;
    return s->function->where == GW_INLINE;
}

// ---- From queue to queue ----

const void *serving_queue(serving *s) {
    if (s->object) return s->object;
    return is_inline(s) ? (const void *)s->strand : (const void *)&s->agent->pool;
}

static void run_task(task *t) {
    serving_run(list_entry(t, serving, task));
}

static void run_job(pool_job *j) {
    serving_run(list_entry(j, serving, job));
}

static void job_taken(pool_job *j) {
    serving *s = list_entry(j, serving, job);
    s->state = SERVING_RUNNING;
    strand_started_on_loop(s);
}

static void place(serving *s) {
    bool inline_ = is_inline(s);
    s->state = SERVING_PLACE;
    s->context = (context){ .agent = s->agent,
                            .may_wait = !inline_,
                            .has_place = !inline_,
                            .hops = s->header.fixed.hops,
                            .deadline_ns = s->deadline_ns,
                            .function = s->header.function };
    list_init(&s->context.turns);
    if (s->object) turn_begin_on_loop(&s->held, s->object, &s->context, true);
    if (!inline_) {
        s->job = (pool_job){ .hops = s->header.fixed.hops, .taken = job_taken, .run = run_job };
        pool_submit_on_loop(&s->agent->pool, &s->job);
    } else if (s->object) {
        s->state = SERVING_RUNNING;
        s->task.run = run_task;
        pool_run_soon_on_loop(&s->agent->pool, &s->task);
    } else {
        strand_run_on_loop(s);
    }
}

static void turn_granted(turn_request *r) {
    place(list_entry(r, serving, turn));
}

void serving_admit_on_loop(serving *s) {
    if (s->object) {
        s->state = SERVING_TURN;
        s->turn.granted = turn_granted;
        if (!turn_take_on_loop(s->object, &s->turn)) return;
    }
    place(s);
}

// ---- Arguments ----

static void ready(serving *s) {
    gw_error error;
    if (s->expiry.armed) env_set_timer(s->agent->env, &s->expiry, ENV_NEVER);
    const gw_error *failed = parcel_error(s->parcel);
    gw_status status;
    if (failed) {
        refuse_with(s, *failed, true);
        return;
    }
    status = s->target ? find_method(s, &error) : GW_OK;
    if (!status) {
        s->state = SERVING_ORDER;
        status = strand_enter_on_loop(s->agent, s, &error);
    }
    if (status) refuse_with(s, error, status != GW_NOT_FOUND);
}

// The target first, so that calls through one reference keep their order.
static void arguments_ready(parcel *p) {
    serving *s = p->user;
    if (!s->target || !list_has(&s->target_made.link)) ready(s);
}

static void target_made(continuation *c) {
    serving *s = list_entry(c, serving, target_made);
    if (!s->parcel->missing) ready(s);
}

static void expired(timer *t) {
    serving *s = list_entry(t, serving, expiry);
    gw_error error;
    error_set(&error, GW_TIMEOUT, "its arguments did not come within its deadline");
    refuse_with(s, error, true);
}

static void await_arguments(serving *s) {
    s->target_made.run = target_made;
    bool waits = parcel_await_on_loop(s->parcel, arguments_ready, s);
    if (s->target && entry_await_on_loop(s->target, &s->target_made)) waits = true;
    if (!waits) {
        ready(s);
    } else if (s->deadline_ns != ENV_NEVER) {
        s->expiry.fire = expired;
        env_set_timer(s->agent->env, &s->expiry, s->deadline_ns);
    }
}

// ---- Arriving ----

static int64_t deadline_of(agent *a, uint64_t time_left_ns) {
    int64_t deadline_ns;
    if (!time_left_ns || time_left_ns > INT64_MAX ||
        __builtin_add_overflow(env_now_ns(a->env), (int64_t)time_left_ns, &deadline_ns))
        return ENV_NEVER;
    return deadline_ns;
}

static serving *open_serving(agent *a, int from, const request_header *h) {
    serving *s = mem_take(sizeof *s);
    if (!s) return NULL;
    memset(s, 0, sizeof *s);
    s->agent = a;
    s->caller = from;
    s->header = *h;
    s->deadline_ns = deadline_of(a, h->fixed.time_left_ns);
    list_init(&s->forwards);
    list_append(&agent_member(a, from)->served, &s->sibling);
    agent_member(a, from)->served_count++;
    a->body_count++;
    a->calls_served++;
    return s;
}

static gw_status find_references(serving *s, gw_error *error) {
    const request_fixed *f = &s->header.fixed;
    gw_status status = GW_OK;
    if (f->result)
        status = entry_accept_on_loop(s->agent, s->caller, f->result, f->result_fork,
                                      &s->result_entry, error);
    if (!status && f->target)
        status =
            entry_find_on_loop(s->agent, s->caller, f->target, f->target_fork, &s->target, error);
    return status;
}

static gw_status check_capacity(agent *a, int from, gw_error *error) {
    const member *m = agent_member(a, from);
    const char *self = agent_member(a, a->rank)->name;
    if (a->phase == AGENT_LEFT)
        return error_set(error, GW_WRONG_STATE, "%s has left the job", self);
    if (m->served_count < LIMIT_CALLS_PER_PEER) return GW_OK;
    return error_set(error, GW_OVERLOADED, "%s: %u calls of %s have not been served", self,
                     m->served_count, m->name);
}

gw_status serving_requested_on_loop(agent *a, int from, message *m, gw_error *out_error) {
    request_header h;
    gw_error error;
    gw_status status = request_read(m, &h, out_error);
    if (status) {
        message_release(m);
        return status;
    }
    status = check_capacity(a, from, &error);
    serving *s = status ? NULL : open_serving(a, from, &h);
    if (!status && !s) status = error_set(&error, GW_NO_MEMORY, "no memory for a call");
    if (status) {
        error.outcome = GW_NOT_DELIVERED;
        refuse_unserved_on_loop(a, from, &h.fixed, &error);
        reply_drop_on_loop(a, from, m, h.fixed.specials_at);
        return GW_OK;
    }
    // References are taken in first, whatever becomes of the call: so the ids of creating requests come in order.
    status = parcel_open_on_loop(a, from, m, h.fixed.specials_at, &s->parcel, &error);
    gw_status found = find_references(s, status ? NULL : &error);
    if (!status) status = found;
    if (!status && !s->target) status = find_function(s, &error);
    if (status) {
        refuse_with(s, error, status != GW_NOT_FOUND);
    } else {
        await_arguments(s);
    }
    return GW_OK;
}

static void want(serving *s, int consumer, uint64_t promise) {
    // The caller learns how many were honoured, so after one that cannot be kept in mind none is.
    wanted *w = s->forwards_end ? NULL : mem_calloc(sizeof *w);
    s->forwards_end = !w;
    if (!w) return;
    w->consumer = consumer;
    w->promise = promise;
    list_append(&s->forwards, &w->link);
}

gw_status serving_forward_on_loop(agent *a, int from, message *m, gw_error *error) {
    reader r = reader_of(m->head.data, m->head.size);
    uint64_t call = reader_u64(&r);
    uint32_t consumer = reader_u32(&r);
    uint64_t promise = reader_u64(&r);
    message_release(m);
    if (r.failed || consumer >= (uint32_t)a->world_size || id_rank(promise) != (uint64_t)from)
        return error_set(error, GW_PROTOCOL, "forward: fields that mean nothing");
    list_node *served = &agent_member(a, from)->served;
    for (list_node *l = served->previous; l != served; l = l->previous) {
        serving *s = list_entry(l, serving, sibling);
        if (s->header.fixed.call != call) continue;
        want(s, (int)consumer, promise);
        break;
    }
    return GW_OK;
}

// ---- Leaving ----

// Takes out one that has not started; one that is at work ends by itself.
static bool drop(serving *s) {
    switch (s->state) {
    case SERVING_ARGUMENTS: break;
    case SERVING_ORDER: break;
    case SERVING_TURN: turn_cancel_on_loop(&s->turn); break;
    case SERVING_PLACE:
        if (s->job.run) {
            if (!pool_withdraw_on_loop(&s->agent->pool, &s->job)) return false;
        }
        if (s->object) turn_end_on_loop(&s->held);
        break;
    case SERVING_RUNNING:
    case SERVING_RESULT: return false;
    }
    return true;
}

static void abandon_all(agent *a, int rank, const gw_error *why) {
    // Dropping one may start or drop others, so the list is looked through from its beginning each time.
    for (bool found = true; found;) {
        found = false;
        list_each(l, &agent_member(a, rank)->served) {
            serving *s = list_entry(l, serving, sibling);
            if (s->abandoned) continue;
            s->abandoned = true;
            found = drop(s);
            if (!found) continue;
            serving_refuse_on_loop(s, why);
            break;
        }
    }
}

void servings_lost_on_loop(agent *a, int rank) {
    abandon_all(a, rank, &agent_member(a, rank)->why);
}

void servings_close_on_loop(agent *a, const gw_error *why) {
    for (int rank = 0; rank < a->world_size; rank++) abandon_all(a, rank, why);
}
