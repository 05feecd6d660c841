#include "autograd/pass.h"

#include "base/scope.h"
#include "tensor/dtype.h"
#include <gradwire/ops.h>
#include <inttypes.h>
#include "trace/record.h"

enum { ROOTS_SMALL = 4 };

static void fail(gw_scope *s, const char *text) {
    scope_fail_of(s, "backward", GW_INVALID, "%s", text);
}

static bool check(gw_scope *s, gw_tensor *loss, const gw_backward_options *o) {
    if (!tensor_check(s, "backward", loss) || !tensor_check(s, "backward", o->gradient))
        return false;
    if (!loss) {
        fail(s, "no tensor");
    } else if (o->input_count < 0 || (o->input_count > 0 && !o->inputs)) {
        scope_fail_of(s, "backward", GW_INVALID, ".input_count is %d%s", o->input_count,
                      o->inputs ? "" : ", but .inputs is NULL");
    } else if (!tensor_needs_grad(loss)) {
        fail(s, "this tensor needs no gradient: it was not computed from a tensor that needs a "
                "gradient");
    } else if (!o->gradient && loss->numel != 1) {
        scope_fail_of(s, "backward", GW_INVALID,
                      "the tensor has %" PRId64 " elements, not one: give its gradient (.gradient)",
                      loss->numel);
    } else if (o->gradient && !tensor_has_shape_of(loss, o->gradient)) {
        scope_fail_of(s, "backward", GW_INVALID, "the gradient is %s, but the tensor is %s",
                      shape_text(o->gradient).text, shape_text(loss).text);
    } else if (o->gradient && !dtype_is_float((gw_dtype)o->gradient->dtype)) {
        scope_fail_of(s, "backward", GW_INVALID, "the gradient is %s, but must be floating",
                      gw_dtype_name((gw_dtype)o->gradient->dtype));
    }
    for (int i = 0; gw_ok(s) && i < o->input_count && o->inputs; i++)
        if (tensor_check(s, "backward", o->inputs[i]) &&
            (!o->inputs[i] || !tensor_needs_grad(o->inputs[i])))
            scope_fail_of(s, "backward", GW_INVALID, "input %d needs no gradient", i);
    return gw_ok(s);
}

gw_tensor *pass_first_gradient(pass *p, gw_tensor *root, gw_tensor *given) {
    if (!given) return tensor_full_like(p->work, root, 1);
    return given->dtype == root->dtype ? given : gw_to_dtype(p->work, given, (gw_dtype)root->dtype);
}

// A pass with gates is going to wait: where nothing may, it does not begin.
static bool begin(pass *p) {
    const scope_remote *remote = p->scope->remote;
    if (p->gates && remote && remote->late && !remote->late->check(p->scope)) return false;
    return gates_begin(p);
}

static bool run(pass *p) {
    bool ok = pass_run(p);
    while (ok && p->late_count) {
        p->scope->remote->late->wait(p);
        ok = pass_run(p);
    }
    return ok;
}

static void walk(gw_scope *s, gw_tensor *const *roots, int count, gw_backward_options options) {
    part small[ROOTS_SMALL], *parts = small;
    if (count > ROOTS_SMALL && !(parts = gw_alloc(s, (size_t)count * sizeof *parts))) return;
    // A hook may drop the program's handles of them.
    for (int i = 0; i < count; i++) handle_retain(roots[i]);
    pass p;
    pass_open(&p, s, options);
    for (int i = 0; i < count; i++) parts[i] = pass_expect(&p, edge_to(roots[i]));
    bool planned = pass_plan(&p);
    if (planned && p.remote) {
        p.remote->run_distributed(&p, roots, parts, count);
    } else if (planned) {
        bool ok = begin(&p);
        for (int i = 0; i < count && ok; i++)
            ok = pass_deliver(&p, parts[i], pass_first_gradient(&p, roots[i], options.gradient));
        if (ok && run(&p)) pass_commit(&p);
    }
    pass_close(&p);  // hands on an error of the gradient to start from, too
    for (int i = 0; i < count; i++) handle_release(roots[i]);
}

// The parts of a distributed pass have the same id on all workers, but where its scope is that of a body.
static void walk_recorded(gw_scope *s, gw_tensor *const *roots, int count,
                          gw_backward_options options) {
    bool is_on = trace_is_on(TRACE_PASS);
    uint64_t id =
        is_on ? gw_scope_id(s) : 0;  // a body that begins a pass gets another one meanwhile
    if (is_on) trace_record(TRACE_PASS_BEGUN, -1, id, 0, 0);
    walk(s, roots, count, options);
    if (is_on) trace_record(TRACE_PASS_ENDED, -1, id, s->error ? s->error->status : GW_OK, 0);
}

void gw_backward_with(gw_scope *s, gw_tensor *loss, gw_backward_options options) {
    if (check(s, loss, &options)) walk_recorded(s, &loss, 1, options);
    if (!gw_ok(s)) gates_report_failure(s);
}

void gw_backward_roots_with(gw_scope *s, gw_tensor *const *roots, int count,
                            gw_backward_options options) {
    if (!gw_ok(s)) {
        gates_report_failure(s);
        return;
    }
    if (count < 1 || !roots) {
        fail(s, "no loss is given");
    } else if (options.gradient) {
        fail(s, ".gradient cannot be given for several losses");
    }
    for (int i = 0; i < count && gw_ok(s); i++) check(s, roots[i], &options);
    if (gw_ok(s)) walk_recorded(s, roots, count, options);
    if (!gw_ok(s)) gates_report_failure(s);
}
