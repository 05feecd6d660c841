// Opening a run: its plan, its waits, and this member's input.
#include "collective/run/backend_run.h"

#include "agent/bodies/context.h"
#include "base/mem.h"
#include "base/mutation.h"
#include "call/protocol.h"
#include <gradwire/ops.h>

#include <string.h>

// ---- Tables -------------------------------------------------------------------------------------

// The steps that depend on each step, and the lists of steps that exchange with one member.
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
    uint32_t *at = r->first_dependent;  // advances, and is reset below
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
        if (step_works(x->kind)) continue;
        run_partner *m = &r->partners[x->peer];
        int *head = x->kind == STEP_SEND ? &m->next_send : &m->next_receive;
        r->next_of_peer[i] = *head;
        *head = i;
        if (!m->is_partner) r->enters_missing++;
        m->is_partner = true;
    }
}

// One allocation, in the order of alignment: a small collective takes little other time.
static bool make_tables(run *r) {
    size_t steps = (size_t)r->plan.step_count, inputs = (size_t)r->plan.input_count;
    size_t members = (size_t)r->group->count;
    r->tables_size = steps * (sizeof *r->values + sizeof *r->output_at) +
                     members * sizeof *r->partners + inputs * sizeof *r->dependents +
                     steps * (sizeof *r->missing + sizeof *r->next_of_peer + sizeof *r->ready) +
                     (steps + 1) * sizeof *r->first_dependent;
    r->tables = mem_take(r->tables_size);
    if (!r->tables) return false;
    memset(r->tables, 0, r->tables_size);
    r->values = r->tables;
    r->output_at = (int64_t *)(r->values + steps);
    r->partners = (run_partner *)(r->output_at + steps);
    r->dependents = (uint32_t *)(r->partners + members);
    r->missing = r->dependents + inputs;
    r->first_dependent = r->missing + steps;
    r->next_of_peer = (int *)(r->first_dependent + steps + 1);
    r->ready = r->next_of_peer + steps;
    r->plan_steps = r->plan.step_count;
    return true;
}

_Static_assert(_Alignof(run_value) == 8 && _Alignof(int64_t) == 8 && _Alignof(run_partner) == 4,
               "the tables lie behind one another");

static bool keep_shares(run *r, const int64_t *shares) {
    if (!shares) return true;
    size_t size = (size_t)r->group->count * sizeof *shares;
    r->shares = mem_alloc(size);
    if (r->shares) memcpy(r->shares, shares, size);
    return r->shares;
}

static bool keep_detail(run *r, const char *detail) {
    if (!detail) return true;
    size_t size = strlen(detail) + 1;
    r->detail = mem_alloc(size);
    if (r->detail) memcpy(r->detail, detail, size);
    return r->detail;
}

static gw_status make_plan(run *r, const run_request *x, gw_error *error) {
    const gw_group *g = r->group;
    uint64_t *elements = NULL;
    plan_request request = { .operation = (operation)x->signature.operation,
                             .member_count = g->count,
                             .rank = g->self,
                             .root = x->signature.root < 0 ? 0 : x->signature.root,
                             .elements = x->elements,
                             .host_size = g->place.host_size };
    plan_unpack(x->signature.plan, g->count, &request.choice);
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

enum { KEPT_DEPTH = 64 };  // of nested values; deeper ones are not copied

// |v| as it is now: later writes to its tensors, or changes of its lists and maps, have no effect on it.
static gw_value kept(gw_scope *s, gw_value v, int depth) {
    if (v.kind == GW_TENSOR && !tensor_is_rows(v.as.tensor) && !tensor_is_poison(v.as.tensor)) {
        gw_tensor *saved = scope_own(s, tensor_saved(s, v.as.tensor));
        return saved ? gw_value_of_tensor(saved) : gw_none();
    }
    if (v.kind == GW_LIST && depth) {
        gw_list *list = gw_list_open(s);
        for (int i = 0; i < gw_list_count(v.as.list) && gw_ok(s); i++)
            gw_list_add_with(s, list, kept(s, gw_list_get(s, v.as.list, i), depth - 1));
        return gw_value_of_list(list);
    }
    if (v.kind == GW_MAP && depth) {
        gw_map *map = gw_map_open(s);
        for (int i = 0; i < gw_map_count(v.as.map) && gw_ok(s); i++) {
            const char *key = gw_map_key(s, v.as.map, i);
            gw_map_put_with(s, map, key, kept(s, gw_map_get(s, v.as.map, key), depth - 1));
        }
        return gw_value_of_map(map);
    }
    return v;
}

// This member's input as it is now.
static void keep_own(run *r, const run_request *x) {
    gw_scope *s = r->scope;
    s->grad_enabled = false;
    bool forgets = has_mutation(MUTATION_BLOCK_WRITTEN);
    if (x->own && forgets) r->own = gw_contiguous(s, scope_own(s, handle_retain(x->own)));
    if (x->own && !forgets) r->own = gw_contiguous(s, scope_own(s, tensor_saved(s, x->own)));
    if (x->items) {
        r->items = gw_alloc(s, (size_t)r->group->count * sizeof *r->items);
        gw_list *all = gw_list_open(s);  // holds the values
        for (int i = 0; r->items && i < r->group->count; i++) {
            gw_list_add_with(s, all, kept(s, x->items[i], KEPT_DEPTH));
            r->items[i] = gw_list_get(s, all, i);
        }
    }
    bool is_any = x->signature.content == CONTENT_VALUES || signature_is_rows(&x->signature);
    if (is_any && !x->items) {
        gw_list *all = gw_list_open(s);
        gw_list_add_with(s, all, kept(s, x->own_value, KEPT_DEPTH));
        r->own_value = gw_list_get(s, all, 0);
    }
}

// ---- Opening ------------------------------------------------------------------------------------

static bool open_notice(run *r) {
    notice *n = mem_calloc(sizeof *n);
    if (!n) return false;
    n->group = handle_retain(r->group);
    r->notice = n;
    r->future->source = &run_future_source;
    r->future->source_state = n;
    return true;
}

static gw_status fill_run(run *r, gw_scope *s, const run_request *x, gw_error *error) {
    gw_status status = make_plan(r, x, error);
    if (status) return status;
    agent *a = r->group->agent;
    r->future = future_open(a, operation_name((operation)x->signature.operation));
    if (!r->future || !open_notice(r) || !make_tables(r) || !keep_shares(r, x->shares) ||
        !keep_detail(r, x->detail))
        return error_set(error, GW_NO_MEMORY, "no memory for a collective");
    r->scope = agent_scope_open(a, 0, gw_scope_id(s), ENV_NEVER);
    if (!r->scope->error) keep_own(r, x);
    if (r->scope->error) return error_copy(error, r->scope->error);
    link_steps(r);
    link_partners(r);
    r->steps_left = r->plan.step_count;
    if (r->plan.kind >= PLAN_BACKEND) {
        r->steps_left++;  // the step of the backend
        if (!backend_run_open(r))
            return error_set(error, GW_NO_MEMORY, "no memory for a collective");
    }
    for (int i = 0; i < r->plan.step_count; i++)
        if (step_works(r->plan.steps[i].kind) && !r->missing[i]) r->ready[r->ready_count++] = i;
    return GW_OK;
}

static run *open_empty(gw_group *g) {
    run *r = mem_calloc(sizeof *r);
    if (!r) return NULL;
    atomic_init(&r->count, 1);
    r->group = handle_retain(g);
    list_init(&r->arrivals);
    list_init(&r->promised);
    return r;
}

run *run_open_failed(gw_group *g, const gw_error *error) {
    run *r = open_empty(g);
    if (!r) return NULL;
    r->failure = mem_alloc(sizeof *r->failure);
    if (r->failure) *r->failure = *error;
    r->failures = 1;
    r->deadline_ns = ENV_NEVER;
    r->future = future_open(g->agent, "");
    if (r->failure && r->future && open_notice(r)) return r;
    run_free(r);
    return NULL;
}

run *run_open(gw_scope *s, gw_group *g, const run_request *x) {
    run *r = open_empty(g);
    gw_error error;
    if (!r) {
        scope_fail(s, GW_NO_MEMORY, "no memory for a collective");
        return NULL;
    }
    r->signature = x->signature;
    r->as_list = x->as_list;
    r->takes_gradient = x->takes_gradient;
    r->out_place = x->out_place;
    r->with_rows = x->with_rows;
    r->is_awaited = x->is_awaited;
    r->called_in = scope_path_of(s);
    const char *origin = origin_base(x->options.origin);
    memcpy(r->origin, origin, strnlen(origin, sizeof r->origin - 1));
    r->deadline_ns =
        context_deadline_within_ns(g->agent, s, group_timeout_ms(g, x->options.timeout_ms));
    gw_status status = fill_run(r, s, x, &error);
    if (!status) return r;
    scope_fail_with(s, &error);
    run_free(r);
    return NULL;
}
