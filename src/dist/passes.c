// Passes of this and other initiators, and the messages about them. With the role but where it says so.
#include "dist/across.h"

#include "dist/optimizers.h"

#include "base/mem.h"
#include "base/planted.h"
#include "base/value.h"

#include <assert.h>
#include <string.h>

// Gradients of at most this size are run where they arrive, if the pass's last run here was short.
enum { INLINE_BYTES = 64 << 10 };

// ---- What is known of initiators ----------------------------------------------------------------

// What it has told of passes that have ended; and which of the others were aborted.
typedef struct initiator {
    passes_ended ended;
    uint32_t open_count;  // of its passes, on the list
    uint64_t *aborted;
    uint32_t count, capacity;
} initiator;

static uint64_t key_of(int rank) {
    return (uint64_t)(uint32_t)rank + 1;
}

static initiator *initiator_of(agent *a, int rank) {
    initiator *in = map_find(&a->graphs->others, key_of(rank));
    if (in || !(in = mem_calloc(sizeof *in))) return in;
    if (map_put(&a->graphs->others, key_of(rank), in)) return in;
    mem_free(in);
    return NULL;
}

static void free_initiator(initiator *in) {
    mem_free(in->aborted);
    mem_free(in);
}

static bool is_over(const agent *a, int rank, uint64_t number) {
    const initiator *in = map_find(&a->graphs->others, key_of(rank));
    if (!in || planted(PLANTED_PASS_BEGINS_AGAIN)) return false;
    bool over = number < in->ended.settled;
    for (uint32_t i = 0; i < in->count && !over; i++) over = in->aborted[i] == number;
    return over;
}

static bool remember_aborted(initiator *in, uint64_t number) {
    if (in->count == LIMIT_PASSES_PER_INITIATOR) {
        memmove(in->aborted, in->aborted + 1, --in->count * sizeof *in->aborted);
    }
    if (in->count == in->capacity) {
        uint32_t capacity = in->capacity ? in->capacity * 2 : 4;
        uint64_t *grown = mem_realloc(in->aborted, capacity * sizeof *grown);
        if (!grown) return false;
        in->aborted = grown;
        in->capacity = capacity;
    }
    in->aborted[in->count++] = number;
    return true;
}

// ---- The list -----------------------------------------------------------------------------------

across *across_open(agent *a, int from, uint64_t number, uint64_t scope) {
    across *x = mem_calloc(sizeof *x);
    if (!x) return NULL;
    x->agent = a;
    x->initiator = from;
    x->number = number;
    x->scope = scope;
    list_init(&x->inbox);
    list_init(&x->outbox);
    return x;
}

static across *find(agent *a, int from, uint64_t number) {
    list_each(l, &a->graphs->passes) {
        across *x = list_entry(l, across, link);
        if (x->initiator == from && x->number == number) return x;
    }
    return NULL;
}

void across_unlist_on_loop(across *x) {
    list_remove(&x->link);
    leaving_check_on_loop(x->agent);
}

void across_note_failed_on_loop(const across *x) {
    x->agent->graphs->failed[x->number % PASSES_FAILED_BITS] = x->number;
}

passes_ended passes_ended_on_loop(const agent *a, int from) {
    const graphs *gs = a->graphs;
    if (from != a->rank) {
        const initiator *in = map_find(&gs->others, key_of(from));
        return in ? in->ended : (passes_ended){ 0 };
    }
    passes_ended e = { .settled = gs->last_pass + 1 };
    list_each(l, &gs->passes) {
        const across *x = list_entry(l, across, link);
        if (x->initiator == from && x->number < e.settled) e.settled = x->number;
    }
    for (uint64_t i = 0; i < PASSES_FAILED_BITS && i + 1 < e.settled; i++) {
        uint64_t number = e.settled - 1 - i;
        if (gs->failed[number % PASSES_FAILED_BITS] == number) e.failed |= UINT64_C(1) << i;
    }
    return e;
}

static void put_ended(const agent *a, int from, bytes *b) {
    passes_ended e = passes_ended_on_loop(a, from);
    bytes_put_u64(b, e.settled);
    bytes_put_u64(b, e.failed);
}

static passes_ended read_ended(reader *r) {
    passes_ended e = { .settled = reader_u64(r) };
    e.failed = reader_u64(r);
    return e;
}

// ---- The end of a participant's part ------------------------------------------------------------

static void free_grads(across *x) {
    for (int i = 0; i < x->grad_count; i++) {
        handle_release(x->grads[i].leaf);
        handle_release(x->grads[i].grad);
    }
    mem_free(x->grads);
    x->grads = NULL;
    x->grad_count = 0;
}

static void schedule(across *x, uint64_t size);

// A pass that is settled gives up the graph before another of the same initiator walks it.
static bool is_held(const across *x) {
    list_each(l, &x->agent->graphs->ending) {
        const across *other = list_entry(l, across, ending);
        if (other->settled && other->initiator == x->initiator) return true;
    }
    return false;
}

static void run_held(agent *a, int from) {
    list_each(l, &a->graphs->passes) {
        across *x = list_entry(l, across, link);
        if (x->initiator == from) schedule(x, 0);
    }
}

// Without the role: what is let go of may be a user's.
static void end(across *x) {
    env *e = x->agent->env;
    env_enter(e);
    bool dropped = x->state == ACROSS_DROPPED, settled = x->settled;
    env_leave(e);
    if (settled) across_give_up_graph(x);
    across_fini(x);
    env_enter(e);
    // A pass that has been settled may have been dropped since.
    bool again = !dropped && x->state == ACROSS_DROPPED;
    agent *a = x->agent;
    int from = x->initiator;
    x->ends = x->settled = false;
    list_remove(&x->ending);
    if (settled) run_held(a, from);
    env_leave(e);
    if (!dropped && !again) return;
    free_grads(x);
    mem_free(x);
}

static void end_task(task *t) {
    end(list_entry(t, across, task));
}

static void end_soon(across *x) {
    if (x->ends) return;
    x->ends = true;
    list_append(&x->agent->graphs->ending, &x->ending);
    if (x->runs) return;  // whoever runs it will see to it
    x->task.run = end_task;
    env_defer(x->agent->env, &x->task);
}

static void settle(across *x) {
    if (x->state != ACROSS_COMPLETE) return;
    x->state = ACROSS_SETTLED;
    x->settled = true;
    end_soon(x);
}

static void drop(across *x) {
    if (x->initiator == x->agent->rank) return;
    initiator *in = map_find(&x->agent->graphs->others, key_of(x->initiator));
    if (in) in->open_count--;
    list_remove(&x->link);
    x->state = ACROSS_DROPPED;
    end_soon(x);
    leaving_check_on_loop(x->agent);
}

// What is over and not complete here has failed. Of the others the initiator has told first which have failed; who passes
// on what it has heard of them may be faster.
static void end_as_told(across *x, const passes_ended *ended, bool by_initiator) {
    uint64_t before = ended->settled - 1 - x->number;
    bool failed = before < PASSES_FAILED_BITS && (ended->failed >> before & 1) &&
                  !planted(PLANTED_FAILED_SETTLED);
    if (x->state < ACROSS_COMPLETE || failed) {
        drop(x);
    } else if (by_initiator || before < PASSES_FAILED_BITS) {
        settle(x);
    }
}

static void note_ended(agent *a, int from, passes_ended ended, int by) {
    initiator *in = from == a->rank ? NULL : initiator_of(a, from);
    if (!in) return;
    if (ended.settled > in->ended.settled) {
        in->ended = ended;
        uint32_t kept = 0;
        for (uint32_t i = 0; i < in->count; i++)
            if (in->aborted[i] >= ended.settled) in->aborted[kept++] = in->aborted[i];
        in->count = kept;
    }
    list_each(l, &a->graphs->passes) {
        across *x = list_entry(l, across, link);
        if (x->initiator == from && x->number < ended.settled) end_as_told(x, &ended, by == from);
    }
}

// ---- Running a participant's part ---------------------------------------------------------------

static void fail(across *x) {
    agent *a = x->agent;
    gw_error error = *gw_scope_error(x->root);
    error_add_trail(&error, a->name, "backward");
    env_enter(a->env);
    if (x->state != ACROSS_DROPPED) {
        initiator *in = initiator_of(a, x->initiator);
        if (in) remember_aborted(in, x->number);
        across_abort_on_loop(x, x->initiator, &error);
        drop(x);
    }
    env_leave(a->env);
}

static void tell_done_on_loop(across *x) {
    message *m = agent_message_on_loop(x->agent, KIND_PASS_DONE);
    if (!m) return;
    bytes_put_u64(&m->head, x->number);
    if (m->head.failed)
        message_release(m);
    else
        agent_send_on_loop(x->agent, x->initiator, m, true, NULL);
}

static bool plan(across *x) {
    x->root = agent_scope_open(x->agent, 0, x->scope, ENV_NEVER);
    static gw_tensor *const none[1];
    gw_backward_options options = { .retain_graph = x->retains,
                                    .inputs = x->leafless ? none : NULL };
    bool ok = across_plan(x, x->root, options) && pass_plan(x->pass);
    x->planned = true;
    return ok;
}

static void send_out(across *x, bool done) {
    agent *a = x->agent;
    env_enter(a->env);
    if (x->state == ACROSS_DROPPED) {
        done = false;
    } else {
        across_send_outbox_on_loop(x, &x->outbox);
    }
    if (done) {
        x->state = ACROSS_COMPLETE;
        tell_done_on_loop(x);
        leaving_check_on_loop(a);
    }
    env_leave(a->env);
    across_mail_free(&x->outbox);
}

static bool take_inbox(across *x, list_node *out) {
    env *e = x->agent->env;
    list_init(out);
    env_enter(e);
    list_splice(out, &x->inbox);
    list_init(&x->inbox);
    bool goes_on = !list_is_empty(out) && x->state == ACROSS_RUNNING;
    bool ends = !goes_on && x->ends;
    if (!goes_on) x->runs = false;
    env_leave(e);
    if (goes_on) return true;
    across_mail_free(out);
    if (ends) end(x);
    return false;
}

static void run(across *x) {
    list_node arrived;
    while (take_inbox(x, &arrived)) {
        bool ok = x->planned || plan(x);
        if (!ok) across_mail_free(&arrived);
        ok = ok && across_run(x, &arrived);
        bool done = ok && !x->missing;
        if (done) ok = across_finish(x);
        if (ok)
            send_out(x, done);
        else
            fail(x);
    }
}

static void run_task(task *t) {
    run(list_entry(t, across, task));
}

static void run_job(pool_job *j) {
    run(list_entry(j, across, job));
}

static bool job_taken(pool_job *j) {
    (void)j;
    return true;
}

static void schedule(across *x, uint64_t size) {
    if (x->initiator == x->agent->rank) {
        if (x->waiting) env_wake(x->agent->env, x->waiting);
        return;
    }
    if (x->runs || x->state != ACROSS_RUNNING || list_is_empty(&x->inbox)) return;
    if (!x->planned && is_held(x)) return;
    x->runs = true;
    if (size <= INLINE_BYTES) {
        x->task.run = run_task;
        pool_run_soon_on_loop(&x->agent->pool, &x->task);
    } else {
        x->job = (pool_job){ .hops = 1, .taken = job_taken, .run = run_job };
        pool_submit_on_loop(&x->agent->pool, &x->job);
    }
}

// ---- Messages that come -------------------------------------------------------------------------

typedef struct gradient_head {
    uint32_t initiator;
    uint64_t number, scope, send;
    passes_ended ended;
    uint8_t flags;
    marks marks;
    size_t values_at;
} gradient_head;

static gw_status read_head(agent *a, const message *m, gradient_head *h, gw_error *error) {
    reader r = reader_of(m->head.data, m->head.size);
    h->initiator = reader_u32(&r);
    h->number = reader_u64(&r);
    h->scope = reader_u64(&r);
    h->ended = read_ended(&r);
    h->flags = reader_u8(&r);
    gw_status status = GW_OK;
    if (h->flags & ACROSS_MARKS) status = marks_read(a, &r, LIMIT_PASS_MARKS, &h->marks, error);
    h->send = reader_u64(&r);
    h->values_at = (size_t)(r.at - m->head.data);
    if (status) return status;
    if (r.failed || h->initiator >= (uint32_t)a->member_count || !h->number || h->flags > 15)
        return error_set(error, GW_PROTOCOL, "gradient: fields that mean nothing");
    return GW_OK;
}

// NULL if it is over, or there is no memory for it, or there are too many.
static across *across_of(agent *a, const gradient_head *h) {
    int from = (int)h->initiator;
    across *x = find(a, from, h->number);
    if (x || from == a->rank || is_over(a, from, h->number) || agent_member(a, from)->lost)
        return x;
    initiator *in = initiator_of(a, from);
    bool may = in && in->open_count < LIMIT_PASSES_PER_INITIATOR;
    x = may ? across_open(a, from, h->number, h->scope) : NULL;
    if (!x) return NULL;
    in->open_count++;
    x->retains = h->flags & ACROSS_RETAINS;
    x->fast = h->flags & ACROSS_FAST;
    x->leafless = h->flags & ACROSS_LEAFLESS;
    list_append(&a->graphs->passes, &x->link);
    return x;
}

static void refuse(agent *a, const gradient_head *h) {
    across x = { .agent = a, .initiator = (int)h->initiator, .number = h->number };
    const initiator *in = map_find(&a->graphs->others, key_of(x.initiator));
    gw_error error;
    if (in && in->open_count == LIMIT_PASSES_PER_INITIATOR)
        error_set(&error, GW_LIMIT, "%s: gradients of %d backward passes are kept here", a->name,
                  LIMIT_PASSES_PER_INITIATOR);
    else
        error_set(&error, GW_NO_MEMORY, "%s: no memory for a backward pass", a->name);
    across_abort_on_loop(&x, x.initiator, &error);
}

static bool keep(across *x, int from, message *m, const gradient_head *h) {
    across_mail *mail = mem_take(sizeof *mail);
    if (!mail) return false;
    *mail = (across_mail){
        .message = message_retain(m), .peer = from, .values_at = h->values_at, .send = h->send
    };
    list_append(&x->inbox, &mail->link);
    return true;
}

static gw_status gradient_received(agent *a, int from, message *m, gw_error *error) {
    gradient_head h = { 0 };
    gw_status status = read_head(a, m, &h, error);
    if (status) {
        marks_fini(&h.marks);
        return status;
    }
    note_ended(a, (int)h.initiator, h.ended, from);
    across *x = across_of(a, &h);
    if (x && x->state == ACROSS_MARKING && h.flags & ACROSS_MARKS) {
        x->marks = h.marks;
        h.marks = (marks){ 0 };
        x->partial = !h.send;
        x->state = ACROSS_RUNNING;
    }
    marks_fini(&h.marks);
    bool over = !x && (is_over(a, (int)h.initiator, h.number) || (int)h.initiator == a->rank ||
                       agent_member(a, (int)h.initiator)->lost);
    if (!over && (!x || (h.send && !keep(x, from, m, &h)))) refuse(a, &h);
    if (x) schedule(x, message_size(m));
    return GW_OK;
}

static gw_status done_received(agent *a, int from, message *m, gw_error *error) {
    reader r = reader_of(m->head.data, m->head.size);
    uint64_t number = reader_u64(&r);
    if (r.failed) return error_set(error, GW_PROTOCOL, "done: cut off");
    across *x = find(a, a->rank, number);
    if (!x || !worker_set_has(&x->undone, from)) return GW_OK;
    x->undone.words[from / 64] &= ~((uint64_t)1 << (from % 64));
    if (--x->undone_count == 0 && x->waiting) env_wake(a->env, x->waiting);
    return GW_OK;
}

static gw_status abort_received(agent *a, int from, message *m, gw_error *error) {
    reader r = reader_of(m->head.data, m->head.size);
    gw_error why;
    uint32_t by = reader_u32(&r);
    uint64_t number = reader_u64(&r);
    if (decode_error(&r, &why, error)) return error->status;
    if (by == (uint32_t)a->rank) {
        across *x = find(a, a->rank, number);
        if (x) across_fail_on_loop(x, &why);
        return GW_OK;
    }
    if (by != (uint32_t)from) return error_set(error, GW_PROTOCOL, "abort: of another's pass");
    initiator *in = initiator_of(a, from);
    if (in && !is_over(a, from, number)) remember_aborted(in, number);
    across *x = find(a, from, number);
    if (x) drop(x);
    return GW_OK;
}

static void drop_scope(agent *a, int from, uint64_t scope) {
    list_each(l, &a->graphs->passes) {
        across *x = list_entry(l, across, link);
        if (x->initiator != from || x->scope != scope || x->state < ACROSS_COMPLETE) continue;
        // It has not been aborted, so it has succeeded, also if an older one of another scope has not ended.
        settle(x);
        drop(x);
    }
}

static gw_status scope_closed_received(agent *a, int from, message *m, gw_error *error) {
    reader r = reader_of(m->head.data, m->head.size);
    uint64_t scope = reader_u64(&r);
    passes_ended ended = read_ended(&r);
    if (r.failed) return error_set(error, GW_PROTOCOL, "scope closed: cut off");
    note_ended(a, from, ended, from);
    drop_scope(a, from, scope);
    return GW_OK;
}

gw_status graphs_received_on_loop(agent *a, int from, message *m, gw_error *error) {
    if (m->kind == KIND_SENDS_RELEASED) return sends_released_on_loop(a, from, m, error);
    gw_status status = GW_OK;
    switch (m->kind) {
    case KIND_GRADIENT: status = gradient_received(a, from, m, error); break;
    case KIND_PASS_DONE: status = done_received(a, from, m, error); break;
    case KIND_PASS_ABORT: status = abort_received(a, from, m, error); break;
    default: status = scope_closed_received(a, from, m, error);
    }
    message_release(m);
    return status;
}

// ---- Messages that go ---------------------------------------------------------------------------

enum { ENDED_AT = 20 };  // in the head of a gradient

void across_send_outbox_on_loop(across *x, list_node *mails) {
    agent *a = x->agent;
    passes_ended ended = passes_ended_on_loop(a, x->initiator);
    for (list_node *l; (l = list_take(mails));) {
        across_mail *mail = list_entry(l, across_mail, link);
        bool more =
            !list_is_empty(mails) && list_entry(mails->next, across_mail, link)->peer == mail->peer;
        if (!mail->message->head.failed)
            memcpy(mail->message->head.data + ENDED_AT, &ended, sizeof ended);
        gw_error error;
        if (agent_send_on_loop(a, mail->peer, mail->message, !more, &error) &&
            x->initiator == a->rank)
            across_fail_on_loop(x, &error);
        mem_give(mail, sizeof *mail);
    }
}

void across_abort_on_loop(const across *x, int to, const gw_error *why) {
    agent *a = x->agent;
    message *m = agent_message_on_loop(a, KIND_PASS_ABORT);
    if (!m) return;
    bytes_put_u32(&m->head, (uint32_t)x->initiator);
    bytes_put_u64(&m->head, x->number);
    encode_error(&m->head, why);
    if (m->head.failed)
        message_release(m);
    else
        agent_send_on_loop(a, to, m, true, NULL);
}

void across_fail_on_loop(across *x, const gw_error *why) {
    if (!x->error.status) x->error = *why;
    if (x->waiting) env_wake(x->agent->env, x->waiting);
}

void across_scope_closed_on_loop(agent *a, int to, uint64_t scope) {
    message *m = agent_message_on_loop(a, KIND_SCOPE_CLOSED);
    if (!m) return;
    bytes_put_u64(&m->head, scope);
    put_ended(a, a->rank, &m->head);
    if (m->head.failed)
        message_release(m);
    else
        agent_send_on_loop(a, to, m, true, NULL);
}

// ---- The table ----------------------------------------------------------------------------------

gw_status graphs_open(agent *a, gw_error *error) {
    graphs *gs = mem_calloc(sizeof *gs);
    if (!gs) return error_set(error, GW_NO_MEMORY, "no memory for graphs");
    gs->agent = a;
    list_init(&gs->released);
    list_init(&gs->passes);
    list_init(&gs->ending);
    gs->optimizers = optimizers_open();
    if (!gs->optimizers) {
        mem_free(gs);
        return error_set(error, GW_NO_MEMORY, "no memory for graphs");
    }
    a->graphs = gs;
    return GW_OK;
}

static bool awaits(const across *x, int rank) {
    for (uint32_t i = 0; i < x->marks.count; i++)
        if (x->marks.items[i].rank == (uint32_t)rank) return true;
    return false;
}

void graphs_lost_on_loop(agent *a, int rank) {
    const member *m = agent_member(a, rank);
    sends_lost_on_loop(a, rank);
    receives_flush_on_loop(a);
    list_each(l, &a->graphs->passes) {
        across *x = list_entry(l, across, link);
        if (x->initiator == rank) {
            // Others may have heard that it is settled, and do not release any more what they had of this worker.
            x->unsure = true;
            settle(x);
            drop(x);
        } else if (x->initiator == a->rank && awaits(x, rank)) {
            gw_error error = m->why;
            if (m->known) error_prefix(&error, m->name);
            across_fail_on_loop(x, &error);
        }
    }
    initiator *in = map_take(&a->graphs->others, key_of(rank));
    if (in) free_initiator(in);
}

void graphs_stop_on_loop(agent *a, const gw_error *why) {
    graphs *gs = a->graphs;
    if (!gs) return;
    list_each(l, &gs->passes) {
        across *x = list_entry(l, across, link);
        if (x->initiator == a->rank)
            across_fail_on_loop(x, why);
        else
            drop(x);
    }
    receives_close_on_loop(a);
}

void graphs_close(agent *a) {
    if (!a->graphs) return;
    sends_close(a);
    env_enter(a->env);
    receives_close_on_loop(a);
    env_leave(a->env);
}

void graphs_free(agent *a) {
    graphs *gs = a->graphs;
    if (!gs) return;
    map_entry *e;
    for (size_t i = 0; (e = map_next(&gs->others, &i));) free_initiator(e->value);
    map_fini(&gs->others);
    map_fini(&gs->sends);
    optimizers_close(gs->optimizers);
    mem_free(gs);
}

size_t graphs_pending(const agent *a) {
    size_t count = 0;
    list_each(l, &a->graphs->passes) count += list_entry(l, across, link)->state < ACROSS_COMPLETE;
    return count;
}
