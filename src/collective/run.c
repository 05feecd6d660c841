// The life of a run: entering, what comes for it, its end.
#include "collective/run.h"

#include "agent/context.h"
#include "agent/member_table.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/mutation.h"
#include "call/protocol.h"
#include <gradwire/ops.h>

#include <stdio.h>
#include <string.h>

#define PATIENCE_NS INT64_C(10000000000)
#define VERDICT_NS INT64_C(30000000000)  // GRP-10

// ---- Making -------------------------------------------------------------------------------------

static void free_run(run *r) {
    plan_fini(&r->plan);
    for (list_node *l; (l = list_take(&r->arrivals));) {
        arrival *x = list_entry(l, arrival, link);
        incoming_close(x->incoming);
        mem_free(x);
    }
    if (r->scope) {
        gw_error ignored = gw_scope_close(r->scope);
        (void)ignored;
    }
    for (int i = 0; r->values && i < r->plan_steps; i++) incoming_close(r->values[i].incoming);
    mem_free(r->values);
    mem_free(r->missing);
    mem_free(r->first_dependent);
    mem_free(r->dependents);
    mem_free(r->next_of_peer);
    mem_free(r->ready);
    mem_free(r->output_at);
    mem_free(r->partners);
    mem_free(r->shares);
    handle_release(r->future);
    handle_release(r->group);
    mem_free(r);
}

static bool is_last(run *r) {
    return atomic_fetch_sub_explicit(&r->count, 1, memory_order_acq_rel) == 1;
}

void run_release(run *r) {
    if (is_last(r)) free_run(r);
}

static void free_later(task *t) {
    free_run(list_entry(t, run, task));
}

static void release_on_loop(run *r) {
    if (!is_last(r)) return;
    r->task.run = free_later;
    env_defer(r->group->agent->env, &r->task);
}

// Which steps wait for each, and the lists of those that exchange with one member.
static void link_steps(run *r) {
    const plan *p = &r->plan;
    for (int i = 0; i < p->step_count; i++) {
        const plan_step *x = &p->steps[i];
        for (int k = 0; k < x->input_count; k++) {
            int from = p->inputs[x->first_input + k];
            if (from == INPUT_OWN) continue;
            r->missing[i]++;
            r->first_dependent[from + 1]++;
        }
    }
    for (int i = 0; i < p->step_count; i++) r->first_dependent[i + 1] += r->first_dependent[i];
    uint32_t *at = r->first_dependent;  // moves on, and back below
    for (int i = 0; i < p->step_count; i++) {
        const plan_step *x = &p->steps[i];
        for (int k = 0; k < x->input_count; k++) {
            int from = p->inputs[x->first_input + k];
            if (from != INPUT_OWN) r->dependents[at[from]++] = (uint32_t)i;
        }
    }
    for (int i = p->step_count; i > 0; i--) at[i] = at[i - 1];
    if (p->step_count) at[0] = 0;
}

static void link_partners(run *r) {
    const plan *p = &r->plan;
    for (int i = 0; i < r->group->count; i++)
        r->partners[i].next_receive = r->partners[i].next_send = -1;
    for (int i = p->step_count; i-- > 0;) {
        const plan_step *x = &p->steps[i];
        if (x->kind == STEP_ADD) continue;
        run_partner *m = &r->partners[x->peer];
        int *head = x->kind == STEP_SEND ? &m->next_send : &m->next_receive;
        r->next_of_peer[i] = *head;
        *head = i;
        if (!m->is_partner) r->enters_missing++;
        m->is_partner = true;
    }
}

static bool make_tables(run *r) {
    size_t steps = (size_t)r->plan.step_count, inputs = (size_t)r->plan.input_count;
    r->values = mem_calloc((steps + 1) * sizeof *r->values);
    r->missing = mem_calloc((steps + 1) * sizeof *r->missing);
    r->first_dependent = mem_calloc((steps + 1) * sizeof *r->first_dependent);
    r->dependents = mem_calloc((inputs + 1) * sizeof *r->dependents);
    r->next_of_peer = mem_calloc((steps + 1) * sizeof *r->next_of_peer);
    r->ready = mem_calloc((steps + 1) * sizeof *r->ready);
    r->partners = mem_calloc((size_t)r->group->count * sizeof *r->partners);
    r->plan_steps = r->values ? r->plan.step_count : 0;
    return r->values && r->missing && r->first_dependent && r->dependents && r->next_of_peer &&
           r->ready && r->partners;
}

static bool keep_shares(run *r, const int64_t *shares) {
    if (!shares) return true;
    size_t size = (size_t)r->group->count * sizeof *shares;
    r->shares = mem_alloc(size);
    if (r->shares) memcpy(r->shares, shares, size);
    return r->shares;
}

static gw_status make_plan(run *r, const run_request *x, gw_error *error) {
    const gw_group *g = r->group;
    uint64_t *elements = NULL;
    plan_request request = { .operation = (operation)x->signature.operation,
                             .kind = (plan_kind)x->signature.plan,
                             .member_count = g->count,
                             .rank = g->self,
                             .root = x->signature.root < 0 ? 0 : x->signature.root,
                             .elements = x->elements };
    if (x->signature.dims != SIGNATURE_OPEN)
        request.element_bytes = gw_dtype_size((gw_dtype)x->signature.dtype);
    if (x->signature.operation == OPERATION_REDUCE_SCATTER) {
        elements = mem_alloc((size_t)g->count * sizeof *elements);
        if (!elements) return error_set(error, GW_NO_MEMORY, "no memory for a collective");
        uint64_t row = 1;
        for (int i = 1; i < x->signature.dims; i++) row *= (uint64_t)x->signature.sizes[i];
        int64_t equal = x->signature.sizes[0] / g->count;
        for (int i = 0; i < g->count; i++)
            elements[i] = (uint64_t)(x->shares ? x->shares[i] : equal) * row;
        request.shares = elements;
    }
    gw_status status = plan_init(&r->plan, &request, error);
    mem_free(elements);
    return status;
}

// What this member brings, as it is now: whatever is written to it later.
static void keep_own(run *r, const run_request *x) {
    gw_scope *s = r->scope;
    s->grad_enabled = false;
    if (x->own) r->own = gw_contiguous(s, scope_own(s, tensor_saved(s, x->own)));
    if (x->items) {
        r->items = gw_alloc(s, (size_t)r->group->count * sizeof *r->items);
        gw_list *kept = gw_list_open(s);  // holds them
        for (int i = 0; r->items && i < r->group->count; i++) {
            gw_list_add_with(s, kept, x->items[i]);
            r->items[i] = gw_list_get(s, kept, i);
        }
    }
    if (x->signature.content == CONTENT_VALUES && !x->items) {
        gw_list *kept = gw_list_open(s);
        gw_list_add_with(s, kept, x->own_value);
        r->own_value = gw_list_get(s, kept, 0);
    }
}

// ---- What the program knows ---------------------------------------------------------------------

static void tell_on_loop(notice *n) {
    sequence *t = n->sequence;
    if (!t) return;
    if (n->verdict && n->verdict == t->verdicts) t->missed = false;
    if (t->cancelled && t->cancelled == n->number) t->cancelled_was_told = true;
}

void run_told(gw_future *f) {
    notice *n = f->source_state;
    if (agent_is_closed(f->agent)) return;
    env_enter(f->agent->env);
    tell_on_loop(n);
    env_leave(f->agent->env);
}

// What the program lets go of it does not want to know.
static void free_notice(gw_future *f) {
    notice *n = f->source_state;
    if (n->verdict && !agent_is_closed(f->agent)) {
        env_enter(f->agent->env);
        sequence *t = n->sequence;
        if (n->verdict == t->verdicts && t->untold && --t->untold == 0) t->missed = false;
        env_leave(f->agent->env);
    }
    handle_release(n->group);
    mem_free(n);
}

static const future_source run_source = { .told = run_told, .free = free_notice };

static bool open_notice(run *r) {
    notice *n = mem_calloc(sizeof *n);
    if (!n) return false;
    n->group = handle_retain(r->group);
    r->notice = n;
    r->future->source = &run_source;
    r->future->source_state = n;
    return true;
}

static gw_status fill_run(run *r, gw_scope *s, const run_request *x, gw_error *error) {
    gw_status status = make_plan(r, x, error);
    if (status) return status;
    agent *a = r->group->agent;
    r->future = future_open(a, operation_name((operation)x->signature.operation));
    if (!r->future || !open_notice(r) || !make_tables(r) || !keep_shares(r, x->shares))
        return error_set(error, GW_NO_MEMORY, "no memory for a collective");
    r->scope = agent_scope_open(a, 0, gw_scope_id(s), ENV_NEVER);
    if (!r->scope->error) keep_own(r, x);
    if (r->scope->error) {
        *error = *r->scope->error;
        return error->status;
    }
    link_steps(r);
    link_partners(r);
    r->steps_left = r->plan.step_count;
    for (int i = 0; i < r->plan.step_count; i++)
        if (r->plan.steps[i].kind == STEP_ADD && !r->missing[i]) r->ready[r->ready_count++] = i;
    return GW_OK;
}

static int64_t deadline_of(gw_scope *s, const gw_group *g, int64_t timeout_ms) {
    int64_t length_ms = timeout_ms == GW_GROUP_TIMEOUT ? g->timeout_ms : timeout_ms;
    int64_t outer = context_deadline_ns(s), own = ENV_NEVER, length_ns;
    if (length_ms && !__builtin_mul_overflow(length_ms, INT64_C(1000000), &length_ns) &&
        __builtin_add_overflow(env_now_ns(g->agent->env), length_ns, &own))
        own = ENV_NEVER;
    return own < outer ? own : outer;
}

static run *open_run(gw_scope *s, gw_group *g, const run_request *x) {
    run *r = mem_calloc(sizeof *r);
    gw_error error;
    if (!r) {
        scope_fail(s, GW_NO_MEMORY, "no memory for a collective");
        return NULL;
    }
    atomic_init(&r->count, 1);
    r->group = handle_retain(g);
    list_init(&r->arrivals);
    list_init(&r->promised);
    r->signature = x->signature;
    r->as_list = x->as_list;
    r->out_place = x->out_place;
    r->with_rows = x->with_rows;
    snprintf(r->origin, sizeof r->origin, "%s", origin_base(x->options.origin));
    r->deadline_ns = deadline_of(s, g, x->options.timeout_ms);
    gw_status status = fill_run(r, s, x, &error);
    if (!status) return r;
    scope_fail_with(s, &error);
    free_run(r);
    return NULL;
}

// ---- Time ---------------------------------------------------------------------------------------

static void arm(run *r) {
    env *e = r->group->agent->env;
    int64_t next_ns = env_now_ns(e) + PATIENCE_NS;
    env_set_timer(e, &r->timer, next_ns < r->deadline_ns ? next_ns : r->deadline_ns);
}

// GRP-10.
static void give_up_the_leader(run *r) {
    gw_group *g = r->group;
    gw_error error;
    error_set(&error, GW_TIMEOUT, "%s does not answer to %s: collective %llu has not ended",
              group_member_name(g, 0), group_member_name(g, g->self),
              (unsigned long long)r->number);
    group_break_all_on_loop(g, &error);
}

// For whom it waits: who has not entered, else whose values have not come.
static void name_missing(const run *r, char *out, size_t size) {
    const gw_group *g = r->group;
    size_t at = 0;
    out[0] = '\0';
    for (int i = 0; i < g->count && at + LIMIT_NAME_BYTES + 16 < size; i++) {
        const run_partner *m = &r->partners[i];
        if (!m->is_partner || (r->enters_missing ? m->entered : m->next_receive < 0)) continue;
        at +=
            (size_t)snprintf(out + at, size - at, "%s%s", at ? ", " : "", group_member_name(g, i));
    }
}

static void tell_patience(const run *r) {
    char what[SIGNATURE_TEXT_MAX], missing[512];
    signature_text(&r->signature, r->origin, what);
    name_missing(r, missing, sizeof missing);
    int64_t waited_ns = env_now_ns(r->group->agent->env) - r->began_ns;
    log_line("group \"%s\": %s has waited %lld s for %s", r->group->name, what,
             (long long)(waited_ns / 1000000000), missing);
}

static void fire(timer *t) {
    run *r = list_entry(t, run, timer);
    gw_error error;
    if (r->state != RUN_UNDER_WAY) return;
    if (env_now_ns(r->group->agent->env) < r->deadline_ns) {
        tell_patience(r);
        arm(r);
        return;
    }
    if (r->has_reported) {
        give_up_the_leader(r);
        return;
    }
    r->has_reported = true;
    env *e = r->group->agent->env;
    env_set_timer(e, &r->timer, env_now_ns(e) + VERDICT_NS);
    error_set(&error, GW_TIMEOUT, "the deadline of %s has passed",
              group_member_name(r->group, r->group->self));
    group_report_on_loop(r->group, r->sequence->key, r->number, &error);
}

// ---- Entering -----------------------------------------------------------------------------------

static void watch_partners(const run *r, bool awaits) {
    for (int i = 0; i < r->group->count; i++)
        if (r->partners[i].is_partner)
            member_table_await_on_loop(r->group->agent, r->group->members[i].rank, awaits);
}

static void work_later(task *t) {
    run *r = list_entry(t, run, task);
    env *e = r->group->agent->env;
    env_enter(e);
    r->deferred = false;
    bool goes = !r->works && r->state == RUN_UNDER_WAY;
    if (goes) r->works = true;
    env_leave(e);
    if (goes) run_work(r);
    run_release(r);
}

static void defer_work(run *r) {
    if (r->deferred || r->works) return;  // who works looks again before it stops
    atomic_fetch_add_explicit(&r->count, 1, memory_order_relaxed);
    r->deferred = true;
    r->task.run = work_later;
    env_defer(r->group->agent->env, &r->task);
}

static void take_early(run *r) {
    gw_group *g = r->group;
    for (early_message *x;
         r->state == RUN_UNDER_WAY && (x = early_take_on_loop(g, r->sequence->key, r->number));) {
        gw_error error;
        uint8_t kind = x->kind;
        group_header h = x->header;
        int from = x->from;
        incoming *p = early_open_on_loop(g->agent, x);
        if (run_received_on_loop(r, group_index_of(g, from), p, kind, &h, &error))
            group_blame_on_loop(g, from, &error);
    }
}

// GRP-5.
static void report_cancelled(run *r) {
    gw_error error;
    sequence *t = r->sequence;
    error_set(&error, GW_CANCELLED, "%s has cancelled it",
              group_member_name(r->group, r->group->self));
    t->cancelled = r->number;
    t->cancelled_was_told = false;
    t->frozen = true;
    group_report_on_loop(r->group, t->key, r->number, &error);
}

static void enter(run *r) {
    gw_group *g = r->group;
    list_remove(&r->link);
    list_append(&g->runs, &r->link);
    g->run_count++;
    r->state = RUN_UNDER_WAY;
    r->number = r->notice->number = r->sequence->next++;
    if (r->out_place) *r->out_place = (run_place){ r->sequence->key, r->number };
    r->began_ns = env_now_ns(g->agent->env);
    r->timer.fire = fire;
    arm(r);
    watch_partners(r, true);
    if (future_result(r->future)) report_cancelled(r);
    take_early(r);
}

void run_admit_on_loop(gw_group *g) {
    list_each(l, &g->waiting) {
        run *r = list_entry(l, run, link);
        if (g->run_count >= RUNS_MAX) return;
        if (r->sequence->frozen) continue;
        enter(r);
        defer_work(r);
    }
}

static void give_up(canceller *c) {
    run *r = list_entry(c, run, cancelled);
    if (r->state == RUN_UNDER_WAY) report_cancelled(r);  // else when it has its number
}

void run_end_on_loop(gw_future *f, const gw_error *why) {
    if (!f->on_cancel || f->on_cancel->run != give_up) return;
    run *r = list_entry(f->on_cancel, run, cancelled);
    gw_error error = *why;
    error_prefix(&error, group_member_name(r->group, r->group->self));
    if (r->state != RUN_UNDER_WAY) return;
    sequence *t = r->sequence;
    t->frozen = t->knows = true;  // what is called next comes after the verdict
    group_report_on_loop(r->group, r->sequence->key, r->number, &error);
}

static gw_status check_enters(const gw_group *g, gw_error *error) {
    const agent *a = g->agent;
    if (g->broken.status) {
        *error = g->broken;
        return error->status;
    }
    if (a->phase == AGENT_LEFT) return agent_left_error(a, "a collective", error);
    if (a->phase == AGENT_SERVING) return GW_OK;
    return error_set(error, GW_WRONG_STATE, "%s has called %s and enters no collectives any more",
                     a->name, a->leaving.alone ? "gw_rpc_leave" : "gw_rpc_shutdown");
}

// GRP-6: what this member did not come to, or does not know of, has ended with an error.
static gw_status take_missed(sequence *t, gw_error *error) {
    if (!t->missed) return GW_OK;
    t->missed = false;
    *error = *error_kept(t->why);
    error_forget(&t->why);
    return error->status;
}

// Whether the program knows of the verdict that the sequence waits for. It has waited for what it
// has cancelled, or has let go of it.
static bool knows_what_comes(const gw_group *g, const sequence *t) {
    if (!t->frozen) return false;
    if (t->knows) return true;
    const run *r = t->cancelled ? group_find_run_on_loop(g, t->key, t->cancelled) : NULL;
    return t->cancelled && (t->cancelled_was_told || (r && handle_is_sole(&r->future->handle)));
}

static gw_status start_on_loop(run *r, uint64_t key, gw_error *error) {
    gw_group *g = r->group;
    gw_status status = check_enters(g, error);
    if (status) return status;
    r->sequence = group_sequence_on_loop(g, key);
    if (!r->sequence)
        return error_set(error, GW_LIMIT, "group \"%s\": more than %d keys, or no memory", g->name,
                         LIMIT_GROUP_KEYS);
    if ((status = take_missed(r->sequence, error))) return status;
    if (!key && g->guard && (status = g->guard(g->guard_context, error))) return status;
    if (!key_is_once(key)) r->notice->sequence = r->sequence;
    r->behind = knows_what_comes(g, r->sequence);
    r->cancelled.run = give_up;
    r->future->on_cancel = &r->cancelled;
    r->future->makers = 1;
    atomic_fetch_add_explicit(&r->count, 1, memory_order_relaxed);  // the group's
    list_append(&g->waiting, &r->link);
    bool first = g->waiting.next == &r->link;
    if (first && g->run_count < RUNS_MAX && !r->sequence->frozen) {
        r->works = true;
        enter(r);
    } else {
        run_admit_on_loop(g);
    }
    return GW_OK;
}

gw_future *run_start(gw_scope *s, gw_group *g, const run_request *request) {
    gw_error error;
    run *r = open_run(s, g, request);
    if (!r) return &future_poison;
    gw_future *f = handle_retain(r->future);
    env_enter(g->agent->env);
    gw_status status = start_on_loop(r, request->options.key, &error);
    env_leave(g->agent->env);
    if (status)
        scope_fail_with(s, &error);
    else if (r->works)
        run_work(r);
    run_release(r);
    f->called_at = request->options.origin;
    f = scope_own(s, f);
    return f && !status ? f : &future_poison;
}

void run_enter_failed(gw_scope *s, gw_group *g, uint64_t key) {
    gw_error error = *s->error, ignored;
    env_enter(g->agent->env);
    sequence *t = check_enters(g, &ignored) ? NULL : group_sequence_on_loop(g, key);
    if (!t || sequence_has_told(g, t, &error)) {  // everybody knows
    } else if (t->missed) {                       // it knows by now that something is wrong
        t->missed = false;
        error_forget(&t->why);
    } else if (t->frozen) {  // the verdict that comes ends this, too
        t->knows = true;
    } else {
        error_prefix(&error, group_member_name(g, g->self));
        t->knows = t->frozen = true;
        group_report_on_loop(g, key, t->next, &error);
    }
    env_leave(g->agent->env);
}

// ---- What comes ---------------------------------------------------------------------------------

static void report_mismatch(run *r, int from) {
    gw_error error;
    error_set(&error, GW_MISMATCH, "%s and %s do not do the same",
              group_member_name(r->group, r->group->self), group_member_name(r->group, from));
    group_report_on_loop(r->group, r->sequence->key, r->number, &error);
}

static void arrived(incoming *p) {
    arrival *x = p->user;
    run *r = x->run;
    list_append(&r->arrivals, &x->link);
    if (r->state == RUN_UNDER_WAY) defer_work(r);
}

// Takes |p|.
static gw_status take_value(run *r, run_partner *m, incoming *p, const reader *in,
                            gw_error *error) {
    arrival *x = m->next_receive < 0 ? NULL : mem_alloc(sizeof *x);
    if (!x) {
        bool expected = m->next_receive >= 0;
        incoming_close_on_loop(r->group->agent, p);
        if (!expected) return error_set(error, GW_PROTOCOL, "collective: a value that no plan has");
        error_set(error, GW_NO_MEMORY, "no memory for a collective");
        group_report_on_loop(r->group, r->sequence->key, r->number, error);
        return GW_OK;
    }
    *x = (arrival){ .run = r,
                    .incoming = p,
                    .value_at = p->message->head.size - reader_left(in),
                    .step = m->next_receive };
    m->next_receive = r->next_of_peer[m->next_receive];
    m->received++;
    if (!incoming_await_on_loop(p, arrived, x)) {
        arrived(p);
    } else {
        list_append(&r->promised, &x->link);
    }
    return GW_OK;
}

static void over_if_all_have_entered(run *r);

static gw_status enter_received(run *r, int from, incoming *p, reader *in, gw_error *error) {
    run_partner *m = &r->partners[from];
    collective_signature theirs;
    bool holds;
    char origin[LIMIT_ORIGIN_BYTES + 1];
    if (m->entered || m->differs || !signature_read(in, r->group->count, &theirs, &holds) ||
        !reader_text(in, origin, sizeof origin)) {
        incoming_close_on_loop(r->group->agent, p);
        return error_set(error, GW_PROTOCOL, "collective: an enter that means nothing");
    }
    bool matches =
        signature_matches(&r->signature, &theirs) || has_mutation(MUTATION_SIGNATURE_NOT_COMPARED);
    if (!matches || !m->is_partner) {
        m->differs = true;
        incoming_close_on_loop(r->group->agent, p);
        report_mismatch(r, from);
        return GW_OK;
    }
    m->entered = true;
    r->enters_missing--;
    gw_status status = GW_OK;
    if (holds)
        status = take_value(r, m, p, in, error);
    else
        incoming_close_on_loop(r->group->agent, p);
    if (r->state == RUN_UNDER_WAY) defer_work(r);
    over_if_all_have_entered(r);
    return status;
}

static gw_status part_received(run *r, int from, incoming *p, reader *in, gw_error *error) {
    run_partner *m = &r->partners[from];
    uint32_t index = reader_u32(in);
    if (m->differs) {
        incoming_close_on_loop(r->group->agent, p);
        return GW_OK;
    }
    if (in->failed || !m->entered || index != m->received) {
        incoming_close_on_loop(r->group->agent, p);
        return error_set(error, GW_PROTOCOL, "collective: value %u where %u is next", index,
                         m->received);
    }
    return take_value(r, m, p, in, error);
}

gw_status run_received_on_loop(run *r, int from, incoming *p, uint8_t kind, const group_header *h,
                               gw_error *error) {
    (void)h;
    const bytes *head = &p->message->head;
    reader in = reader_of(head->data + GROUP_HEADER_BYTES, head->size - GROUP_HEADER_BYTES);
    return kind == KIND_ENTER ? enter_received(r, from, p, &in, error)
                              : part_received(r, from, p, &in, error);
}

// ---- The end ------------------------------------------------------------------------------------

static void leave_group(run *r) {
    r->state = RUN_OVER;
    list_remove(&r->link);
    group_forget_sequence_on_loop(r->group, r->sequence);
    release_on_loop(r);
}

// Of one that is under way: from here on it does not wait.
static void stop_waiting(run *r) {
    env_set_timer(r->group->agent->env, &r->timer, ENV_NEVER);
    watch_partners(r, false);
    for (list_node *l; (l = list_take(&r->promised));) {
        arrival *x = list_entry(l, arrival, link);
        incoming_close_on_loop(r->group->agent, x->incoming);
        mem_free(x);
    }
}

static void over_if_all_have_entered(run *r) {
    gw_group *g = r->group;
    if (r->state != RUN_DONE || r->enters_missing) return;
    g->run_count--;
    leave_group(r);
    run_admit_on_loop(g);
}

static void complete(run *r, result *value) {
    r->future->on_cancel = NULL;
    r->future->makers = 0;
    future_complete_on_loop(r->future, value);
}

void run_done_on_loop(run *r, result *value) {
    stop_waiting(r);
    r->state = RUN_DONE;
    complete(r, value);
    over_if_all_have_entered(r);
}

void run_fail_on_loop(run *r, const gw_error *error) {
    if (r->state == RUN_OVER) return;
    if (r->state == RUN_UNDER_WAY) stop_waiting(r);
    if (r->state != RUN_WAITING) r->group->run_count--;
    bool is_done = r->state == RUN_DONE;
    r->state = RUN_OVER;
    list_remove(&r->link);
    if (!is_done) complete(r, result_of_error(error));
    group_forget_sequence_on_loop(r->group, r->sequence);
    release_on_loop(r);
}

static bool is_told(const run *r) {
    return handle_is_sole(&r->future->handle) || !list_is_empty(&r->future->nexts);
}

void run_end_by_verdict_on_loop(run *r, const gw_error *error, bool *ended, bool *told) {
    const result *before = future_result(r->future);
    sequence *t = r->sequence;
    if (!before || result_error(before)) {
        bool knows =
            is_told(r) || (t->cancelled && t->cancelled == r->number && t->cancelled_was_told);
        *ended = true;
        *told = *told || knows;
        if (!knows) r->notice->verdict = t->verdicts;
        t->untold += !knows;
    }
    run_fail_on_loop(r, error);
}
