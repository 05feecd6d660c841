// The work of a run without the loop lock: it sends, reads arrivals, and adds. One thread at a time.
#include "collective/run/backend_run.h"

#include "base/mem.h"
#include "base/mutation.h"
#include "base/value.h"
#include "tensor/combine.h"

// ---- Values -------------------------------------------------------------------------------------

static int only_input(const run *r, const plan_step *x) {
    return r->plan.inputs[x->first_input];
}

static gw_value value_to_send(run *r, const plan_step *x) {
    int from = only_input(r, x);
    if (from == INPUT_OWN) return run_own_value(r, x->first, x->count, x->item);
    const run_value *v = &r->values[from];
    if (!v->tensor) return v->value;
    const plan_step *made = &r->plan.steps[from];
    gw_tensor *part = v->tensor;
    if (signature_is_reduction(&r->signature) && made->count != x->count) {
        int64_t size = (int64_t)x->count, stride = 1;
        part = scope_own(r->scope, tensor_view(r->scope, part, 1, &size, &stride,
                                               part->offset + (int64_t)(x->first - made->first)));
    }
    return part ? gw_value_of_tensor(part) : gw_none();
}

// GRP-1. Nested values count as large.
static bool is_small(gw_value v) {
    switch (v.kind) {
    case GW_TENSOR: return tensor_size(v.as.tensor) <= RUN_SMALL_BYTES;
    case GW_STRING:
    case GW_BYTES: return v.size <= RUN_SMALL_BYTES;
    case GW_LIST:
    case GW_MAP: return false;
    default: return true;
    }
}

// ---- Sending ------------------------------------------------------------------------------------

typedef struct shipment {
    outgoing message;
    int to;  // a member
} shipment;

enum { SHIPMENTS_FEW = 8 };

typedef struct shipments {
    shipment *items;
    int count;
    shipment few[SHIPMENTS_FEW];
} shipments;

static shipment *open_shipment(run *r, shipments *all, uint8_t kind, int to) {
    gw_error error;
    shipment *x = &all->items[all->count];
    if (outgoing_init(&x->message, r->group->agent, kind, &error)) {
        scope_fail_with(r->scope, &error);
        return NULL;
    }
    x->to = to;
    x->message.message->is_patient = true;
    all->count++;
    group_header_write(&x->message.message->head, r->group, r->key, r->number);
    return x;
}

static void put_value(run *r, shipment *x, gw_value v) {
    gw_error error;
    if (gw_ok(r->scope) && outgoing_put(&x->message, v, &error)) scope_fail_with(r->scope, &error);
}

// Whether the next step that sends to |m| can run, with a large value only if |may_be_large|.
static bool can_send(run *r, const run_partner *m, bool may_be_large, gw_value *out) {
    if (m->next_send < 0 || r->missing[m->next_send]) return false;
    *out = value_to_send(r, &r->plan.steps[m->next_send]);
    return gw_ok(r->scope) && (may_be_large || is_small(*out));
}

static void sent(run *r, run_partner *m) {
    m->sent++;
    m->next_send = r->next_of_peer[m->next_send];
    r->steps_left--;
}

static void fill_enter(run *r, shipments *all, int to) {
    run_partner *m = &r->partners[to];
    gw_value v;
    shipment *x = open_shipment(r, all, KIND_ENTER, to);
    if (!x) return;
    // GRP-1. A large value would delay the values that the enter permits until all of it has arrived.
    bool holds = can_send(r, m, false, &v);
    bytes *head = &x->message.message->head;
    signature_write(head, &r->signature, holds);
    bytes_put_u64(head, r->past);
    bytes_put_text(head, r->origin);
    if (!holds) return;
    put_value(r, x, v);
    sent(r, m);
}

static bool fill_part(run *r, shipments *all, int to) {
    run_partner *m = &r->partners[to];
    gw_value v;
    if (!can_send(r, m, m->may_be_large, &v)) return false;
    shipment *x = open_shipment(r, all, KIND_PART, to);
    if (!x) return false;
    bytes_put_u32(&x->message.message->head, m->sent);
    put_value(r, x, v);
    sent(r, m);
    return true;
}

// A message that cannot be sent to a lost partner is dropped: the group breaks soon.
static void dispatch_shipments(run *r, const shipments *all) {
    gw_group *g = r->group;
    env *e = g->agent->env;
    gw_error error, failed = { 0 };
    env_enter(e);
    r->has_places = true;
    for (int i = 0; i < all->count && gw_ok(r->scope); i++) {
        shipment *x = &all->items[i];
        gw_status status =
            outgoing_send_on_loop(&x->message, g->members[x->to].rank, GROUP_ATTACHMENTS_FIELD,
                                  i + 1 == all->count, &error);
        if (status && status != GW_DISCONNECTED && status != GW_FENCED) failed = error;
    }
    env_leave(e);
    for (int i = 0; i < all->count; i++) outgoing_fini(&all->items[i].message);
    if (failed.status) scope_fail_with(r->scope, &failed);
}

// Sends its enter, or the next value, to each partner. False: there is nothing to send.
static bool send_some(run *r) {
    gw_group *g = r->group;
    shipments all;
    all.items =
        g->count <= SHIPMENTS_FEW ? all.few : mem_alloc((size_t)g->count * sizeof *all.items);
    all.count = 0;
    if (!all.items) return scope_fail(r->scope, GW_NO_MEMORY, "no memory for a collective");
    // Each member begins with its neighbour, so that not all send to one.
    for (int i = 1; i <= g->count && gw_ok(r->scope); i++) {
        int to = (g->self + i) % g->count;
        if (!r->partners[to].is_partner) continue;
        if (!r->has_entered)
            fill_enter(r, &all, to);
        else
            fill_part(r, &all, to);
    }
    r->has_entered = true;
    if (all.count) dispatch_shipments(r, &all);
    if (all.items != all.few) mem_free(all.items);
    return all.count && gw_ok(r->scope);
}

// ---- Adding -------------------------------------------------------------------------------------

static void step_done(run *r, int step) {
    r->steps_left--;
    for (uint32_t i = r->first_dependent[step]; i < r->first_dependent[step + 1]; i++) {
        int next = (int)r->dependents[i];
        if (--r->missing[next] == 0 && step_works(r->plan.steps[next].kind))
            r->ready[r->ready_count++] = next;
    }
}

// The memory for the elements of |step|: in the result, or separate.
static gw_tensor *make_sum(run *r, int step) {
    const plan_step *x = &r->plan.steps[step];
    int64_t size = (int64_t)x->count, stride = 1;
    gw_dtype dtype = (gw_dtype)r->signature.dtype;
    if (x->is_partial) dtype = combine_partial_dtype(dtype);
    if (r->result && r->output_at[step] >= 0)
        return scope_own(r->scope, tensor_view(r->scope, r->result, 1, &size, &stride,
                                               r->result->offset + r->output_at[step]));
    return scope_own(r->scope, tensor_new(r->scope, dtype, 1, &size));
}

static const void *input_bytes(run *r, const plan_step *x, int from) {
    const gw_tensor *t = from == INPUT_OWN ? r->own : r->values[from].tensor;
    uint64_t first = from == INPUT_OWN ? 0 : r->plan.steps[from].first;
    return run_numbers_at(t, (int64_t)(x->first - first));
}

static bool is_partial_input(const run *r, int from) {
    return from != INPUT_OWN && r->plan.steps[from].is_partial;
}

static void combine_inputs(const combine_request *c, bool of_partials, bool to_partial) {
    if (of_partials)
        combine_partial(c, !to_partial);
    else if (to_partial)
        combine_begin(c);
    else
        combine(c);
}

static void add(run *r, int step) {
    const plan_step *x = &r->plan.steps[step];
    if (r->signature.operation == OPERATION_BARRIER) {  // nothing to add
        step_done(r, step);
        return;
    }
    if (x->kind == STEP_JOIN) {  // its inputs are in the result already
        r->values[step].tensor = make_sum(r, step);
        if (gw_ok(r->scope)) step_done(r, step);
        return;
    }
    const void *few[16], **from = few;
    if (x->input_count > (int)(sizeof few / sizeof *few))
        from = gw_alloc(r->scope, (size_t)x->input_count * sizeof *from);
    gw_tensor *out = from ? make_sum(r, step) : NULL;
    if (!out) return;
    bool of_partials = false;
    for (int i = 0; i < x->input_count; i++) {
        int input = r->plan.inputs[x->first_input + i];
        of_partials = of_partials || is_partial_input(r, input);
        from[i] = input_bytes(r, x, input);
    }
    int count = x->input_count;
    if (has_mutation(MUTATION_PART_TWICE) && tensor_size(out) > RUN_SMALL_BYTES && count < 16) {
        from[count] = from[count - 1];
        count++;
    }
    combine_request c = { .op = (combine_op)r->signature.op,
                          .dtype = (gw_dtype)r->signature.dtype,
                          .count = count,
                          .from = from,
                          .out = run_place_at(out, 0),
                          .numbers = x->count,
                          .factor = r->signature.factor,
                          .divisor = r->group->count };
    combine_inputs(&c, of_partials, x->is_partial);
    r->values[step].tensor = out;
    for (int i = 0; i < x->input_count; i++) run_let_go(r, r->plan.inputs[x->first_input + i]);
    step_done(r, step);
}

// ---- Reading ------------------------------------------------------------------------------------

static bool shape_fits(const run *r, const gw_tensor *t, const plan_step *x) {
    const collective_signature *g = &r->signature;
    if (tensor_is_rows(t) != signature_is_rows(g)) return false;
    if (signature_is_reduction(&r->signature)) {
        gw_dtype dtype = (gw_dtype)g->dtype;
        if (x->is_partial) dtype = combine_partial_dtype(dtype);
        return t->dims == 1 && t->numel == (int64_t)x->count && t->dtype == dtype && t->contiguous;
    }
    if (g->content == CONTENT_TENSORS || g->dims == SIGNATURE_OPEN) return true;
    bool is_piece = g->operation == OPERATION_BROADCAST && x->count;
    bool rows =
        is_piece || (g->operation != OPERATION_BROADCAST && g->content != CONTENT_ROWS_SUMMED);
    if (t->dtype != g->dtype || t->dims != g->dims) return false;
    for (int i = rows ? 1 : 0; i < t->dims; i++)
        if (t->sizes[i] != g->sizes[i]) return false;
    return true;
}

// See |takes_gradient| of run_request.
static bool is_item_with_gradient(const run *r, gw_value v) {
    if (r->signature.operation != OPERATION_SCATTER || v.kind != GW_LIST) return false;
    const gw_list *both = v.as.list;
    return both->count == 2 && both->items[0].kind == GW_TENSOR &&
           !tensor_is_rows(both->items[0].as.tensor) && both->items[1].kind == GW_BOOL;
}

static bool value_fits(run *r, gw_value v, const plan_step *x) {
    if (r->backend) return v.kind == GW_NONE;
    if (r->signature.operation == OPERATION_BROADCAST && x->first && v.kind == GW_NONE) return true;
    if (r->signature.operation == OPERATION_BARRIER) return v.kind == GW_NONE;
    if (r->signature.content == CONTENT_VALUES || is_item_with_gradient(r, v)) return true;
    return v.kind == GW_TENSOR && shape_fits(r, v.as.tensor, x);
}

// Moves a value that is a piece of the result there.
static void place(run *r, int step) {
    const gw_tensor *t = r->values[step].tensor;
    if (!r->result || r->output_at[step] < 0 || !t) return;
    run_put_numbers(run_place_at(r->result, r->output_at[step]), t);
}

// Whether a large value is needed for one addition only. The next one then reuses its memory, which is still in the
// cache.
static bool is_brief(const run *r, const arrival *a) {
    uint32_t first = r->first_dependent[a->step], end = r->first_dependent[a->step + 1];
    return r->result && r->output_at[a->step] < 0 && a->incoming->message->segment_count > 0 &&
           end - first == 1 && r->plan.steps[r->dependents[first]].kind == STEP_ADD;
}

// In the run's scope, or with one count of the value's if it is brief.
static gw_status decode_arrival(run *r, arrival *a, gw_error *error) {
    run_value *v = &r->values[a->step];
    bool brief = is_brief(r, a);
    gw_scope *s = brief ? gw_scope_open(r->scope) : r->scope;
    decoder d = incoming_decoder(a->incoming, a->value_at, s);
    gw_status status = decode_value(&d, &v->value, error);
    if (!status && brief && v->value.kind == GW_TENSOR) {
        v->tensor = handle_retain(v->value.as.tensor);
        v->is_brief = true;
    }
    if (!brief) return status;
    scope_close_unread(s);
    return status;
}

static void read_arrival(run *r, arrival *a) {
    const plan_step *x = &r->plan.steps[a->step];
    run_value *v = &r->values[a->step];
    gw_error error;
    v->incoming = a->incoming;
    const gw_error *broken = incoming_error(a->incoming);
    if (broken) {
        scope_fail_with(r->scope, broken);
        return;
    }
    if (decode_arrival(r, a, &error)) {
        if (gw_ok(r->scope)) scope_fail_with(r->scope, &error);
    } else if (!value_fits(r, v->value, x)) {
        scope_fail(r->scope, GW_PROTOCOL,
                   "the data that %s has sent does not match the call that it has reported",
                   group_member_name(r->group, x->peer));
    } else {
        if (v->value.kind == GW_TENSOR && r->signature.content != CONTENT_VALUES)
            v->tensor = v->value.as.tensor;
        place(r, a->step);
        step_done(r, a->step);
    }
}

static void read_arrivals(run *r, list_node *arrived) {
    for (list_node *l; (l = list_take(arrived));) {
        arrival *a = list_entry(l, arrival, link);
        if (gw_ok(r->scope))
            read_arrival(r, a);
        else
            incoming_close(a->incoming);
        mem_free(a);
    }
}

// ---- Progress -----------------------------------------------------------------------------------

static void progress(run *r, list_node *arrived) {
    if (!run_open_result(r)) return;
    if (!r->has_entered) send_some(r);
    read_arrivals(r, arrived);
    for (bool more = true; more && gw_ok(r->scope);) {
        more = r->ready_count > 0;
        while (r->ready_count && gw_ok(r->scope)) add(r, r->ready[--r->ready_count]);
        if (gw_ok(r->scope) && send_some(r)) more = true;
    }
    if (r->backend && r->steps_left == 1 && gw_ok(r->scope) && backend_run_continue(r))
        r->steps_left--;
}

// Takes the new events. False: there are none, or the run has ended; then this thread stops working. |out_detaches|:
// the run is detached, and the result is not needed.
static bool take_events(run *r, list_node *arrived, bool *out_detaches) {
    env *e = r->group->agent->env;
    env_enter(e);
    bool has_events = !r->has_entered || !list_is_empty(&r->arrivals);
    if (backend_run_take_events_on_loop(r)) has_events = true;
    list_splice(arrived, &r->arrivals);
    for (int i = 0; i < r->group->count; i++) {
        run_partner *m = &r->partners[i];
        bool may_be_large = m->entered && !m->differs;
        has_events = has_events || (may_be_large && !m->may_be_large && m->next_send >= 0);
        m->may_be_large = may_be_large;
    }
    bool continues =
        run_is_at_work(r) && !r->has_failed && !r->held && (has_events || r->steps_left == 0);
    if (!continues) r->works = false;
    *out_detaches = r->state == RUN_DETACHED;
    env_leave(e);
    return continues;
}

// Returns false if the scope of |r| has failed. Else another thread may work at |r| from here on.
static bool finish(run *r, bool detaches) {
    env *e = r->group->agent->env;
    gw_value v = detaches ? gw_none() : r->backend ? backend_run_result(r) : run_make_result(r);
    result *value = gw_ok(r->scope) ? result_of_value(v) : NULL;
    if (!value && gw_ok(r->scope))
        scope_fail(r->scope, GW_NO_MEMORY, "no memory for the result of a collective");
    env_enter(e);
    if (value && r->state == RUN_UNDER_WAY)
        run_done_on_loop(r, value);
    else if (value)
        result_release_on_loop(r->group->agent, value);
    r->works = !value;
    if (value) run_detached_over_on_loop(r);
    env_leave(e);
    return value;
}

// A failure here fails on all members: by the group, where a backend carries the values.
static void send_failure(run *r) {
    gw_group *g = r->group;
    gw_error error = group_error_of_self(g, r->scope->error);
    env_enter(g->agent->env);
    r->has_failed = true;
    if (r->backend && run_is_at_work(r)) {  // other members may have begun it
        backend_group_down_on_loop(g);
        group_break_all_on_loop(g, &error);
    } else if (r->state == RUN_UNDER_WAY) {
        group_report_on_loop(g, r->key, r->number, &error);
    }
    r->works = false;
    env_leave(g->agent->env);
}

void run_work(run *r) {
    list_node arrived;
    bool detaches;
    list_init(&arrived);
    while (take_events(r, &arrived, &detaches)) {
        progress(r, &arrived);
        if (gw_ok(r->scope) && r->steps_left == 0 && finish(r, detaches)) break;
        if (!gw_ok(r->scope)) {
            send_failure(r);
            break;
        }
    }
    for (list_node *l; (l = list_take(&arrived));) {
        arrival *a = list_entry(l, arrival, link);
        incoming_close(a->incoming);
        mem_free(a);
    }
}

void run_work_later(task *t) {
    run *r = list_entry(t, run, work);
    env *e = r->group->agent->env;
    env_enter(e);
    r->deferred = false;
    bool goes = !r->works && run_is_at_work(r);
    if (goes) r->works = true;
    env_leave(e);
    if (goes) run_work(r);
    run_release(r);
}
