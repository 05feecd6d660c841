#include "autograd/gate.h"

#include "autograd/grads.h"
#include "autograd/hook.h"
#include "autograd/pass.h"
#include "base/mem.h"

#include <string.h>

uint64_t gates_begin_visit(void) {
    static _Atomic uint64_t last;
    return 1 + atomic_fetch_add_explicit(&last, 1, memory_order_relaxed);
}

// ---- Leaves -------------------------------------------------------------------------------------

static bool put_gate(gw_tensor *leaf, gate *g, int number) {
    grad_hooks *h = grad_hooks_get(&leaf->hooks);
    if (!h) return false;
    h->gate = g;
    h->number = number;
    return true;
}

// Memory that only the gate has used goes with it: the leaf may be one that has no tape to free it.
static void take_gate_off(gw_tensor *leaf) {
    grad_hooks *h = leaf->hooks;
    h->gate = NULL;
    if (h->list.capacity) return;
    leaf->hooks = NULL;
    grad_hooks_free(h);
}

static void unset_first(gate *g, int count) {
    for (int i = 0; i < count; i++) take_gate_off(g->leaves[i]);
}

bool gate_set(gw_scope *s, gate *g) {
    for (int i = 0; i < g->leaf_count && gw_ok(s); i++) {
        int number = 0;
        if (gate_of(g->leaves[i], &number))
            scope_fail(
                s, GW_DUPLICATE,
                "the gradient of this tensor already has a gate, and cannot have a second one");
        else if (!put_gate(g->leaves[i], g, i))
            scope_fail(s, GW_NO_MEMORY, "no memory for a gate");
        if (!gw_ok(s)) {
            unset_first(g, i);
            return false;
        }
    }
    return gw_ok(s);
}

void gate_unset(gate *g) {
    unset_first(g, g->leaf_count);
}

static void release_range(gw_tensor *x) {
    take_gate_off(x);
    handle_release(x);
}

static bool take_ranges(gate *g, gw_tensor **ranges) {
    for (int i = 0; ranges && i < g->leaf_count; i++) {
        if (!ranges[i]) continue;
        if (!put_gate(ranges[i], g, i)) {
            while (i--)
                if (ranges[i]) release_range(ranges[i]);
            return false;
        }
        handle_retain(ranges[i]);
    }
    return true;
}

bool gate_share(gate *g, const bool *gives_away, gw_tensor **ranges) {
    if (!take_ranges(g, ranges)) return false;
    for (int i = 0; g->ranges && i < g->leaf_count; i++)
        if (g->ranges[i]) release_range(g->ranges[i]);
    g->gives_away = gives_away;
    g->ranges = ranges;
    return true;
}

const gw_tensor *gate_kept_of(const gw_tensor *x) {
    int leaf;
    const gate *g = gate_of(x, &leaf);
    return g && g->ranges && g->ranges[leaf] ? g->ranges[leaf] : x;
}

gw_tensor *gate_earlier(const gate_pass *g, int i) {
    return grads_find(g->scope, g->gate->leaves[i]);
}

// ---- Answers --------------------------------------------------------------------

bool gate_has_answered(gate *g, const gw_scope *s) {
    if (!atomic_load_explicit(&g->answered_count, memory_order_relaxed) || !s->env) return false;
    uint64_t id = gw_scope_id(s);
    bool has = false;
    env_enter(s->env);
    for (int i = 0; i < GATE_SCOPES; i++) has = has || g->answered[i] == id;
    env_leave(s->env);
    return has;
}

void gate_note_answer(gate *g, const gw_scope *s) {
    if (gate_has_answered(g, s)) return;
    uint64_t id = gw_scope_id(s);
    env_enter(s->env);
    unsigned number = atomic_fetch_add_explicit(&g->answered_count, 1, memory_order_relaxed);
    g->answered[number % GATE_SCOPES] = id;
    env_leave(s->env);
}

void gate_forget_answers_on_loop(gate *g) {
    memset(g->answered, 0, sizeof g->answered);
    atomic_store_explicit(&g->answered_count, 0, memory_order_relaxed);
}

int gate_list_answers(const gate *g, gw_tensor *const *answers, bool adds, gw_tensor_grad *out) {
    int count = 0;
    for (int i = 0; i < g->leaf_count; i++) {
        gw_tensor *range = g->ranges ? g->ranges[i] : NULL;
        if (range && !adds) out[count++] = (gw_tensor_grad){ g->leaves[i], NULL };
        if (answers[i] || !adds)
            out[count++] =
                (gw_tensor_grad){ range ? range : g->leaves[i], handle_retain(answers[i]) };
    }
    return count;
}

// ---- The gates of a pass ------------------------------------------------------------------------

static gate_pass *find(const pass *p, const gate *g) {
    gate_pass *at = p->gates;
    while (at && at->gate != g) at = at->next;
    return at;
}

static gate_pass *find_or_add(pass *p, gate *g) {
    gate_pass *at = find(p, g);
    if (at) return at;
    at = mem_calloc(sizeof *at + (size_t)g->leaf_count * sizeof(bool));
    if (!at) {
        scope_fail_of(p->scope, "backward", GW_NO_MEMORY, "no memory for a gate");
        return NULL;
    }
    gate_pass **last = &p->gates;
    while (*last) last = &(*last)->next;
    at->gate = handle_retain(g);
    at->scope = p->scope;
    at->reached = (bool *)(at + 1);
    return *last = at;
}

static gate *gate_of_target(const target *t, int *out_leaf) {
    return t->is_leaf && t->needed ? gate_of(t->key, out_leaf) : NULL;
}

// A pass that is not the gate's, and leaves a gradient of |leaf|.
static bool check_apart(const pass *p, const gw_tensor *leaf) {
    int number;
    gate *g = gate_of(leaf, &number);
    if (!g || !gate_has_answered(g, p->scope)) return true;
    return scope_fail_of(
        p->scope, "backward", GW_WRONG_STATE,
        "a pass that is not synchronised cannot be made in a scope that has the mean "
        "over replicas: its gradients would be added to the mean");
}

static bool check_all_apart(const pass *p) {
    const gw_backward_options *o = &p->options;
    bool ok = true;
    for (int i = 0; i < o->input_count && ok; i++) ok = check_apart(p, o->inputs[i]);
    for (uint32_t i = 0; i < p->target_count && ok && !o->inputs; i++)
        if (p->targets[i].is_leaf && p->targets[i].needed) ok = check_apart(p, p->targets[i].key);
    return ok;
}

// A pass inside a hook of another.
static bool note_inside(const pass *p) {
    int leaf;
    for (uint32_t i = 0; i < p->target_count; i++) {
        gate *g = gate_of_target(&p->targets[i], &leaf);
        if (!g) continue;
        atomic_store_explicit(&g->has_inside, true, memory_order_relaxed);
        if (!atomic_load_explicit(&g->overlaps, memory_order_relaxed)) continue;
        return scope_fail(p->scope, GW_INVALID,
                          "static_graph: a pass inside a hook uses a parameter of the model, but "
                          "no pass inside a hook did so in the first pass");
    }
    return true;
}

static bool has_hooks(const target *t) {
    return grad_hooks_any(t->is_leaf ? ((const gw_tensor *)t->key)->hooks
                                     : ((const node *)t->key)->hooks);
}

// A hook may begin another pass, whichever leaves that reaches.
static void hold_gradients(pass *p) {
    bool overlaps = true, hooks = false;
    for (const gate_pass *at = p->gates; at; at = at->next)
        overlaps = overlaps && atomic_load_explicit(&at->gate->overlaps, memory_order_relaxed);
    for (uint32_t i = 0; i < p->target_count && p->gates; i++) {
        p->left += p->targets[i].needed;
        hooks = hooks || (p->targets[i].needed && has_hooks(&p->targets[i]));
    }
    p->holds = hooks && !overlaps;
    for (gate_pass *at = p->gates; at; at = at->next) at->holds = p->holds;
}

bool gates_find(pass *p) {
    if (p->options.inputs || p->scope->not_synchronised || p->is_inside) {
        if (!check_all_apart(p)) return false;
        return p->options.inputs || p->scope->not_synchronised || note_inside(p);
    }
    for (uint32_t i = 0; i < p->target_count; i++) {
        target *t = &p->targets[i];
        int leaf;
        gate *g = gate_of_target(t, &leaf);
        if (!g) continue;
        gate_pass *at = find_or_add(p, g);
        if (!at) return false;
        ((bool *)(at + 1))[leaf] = true;
        t->gated = true;
    }
    hold_gradients(p);
    return true;
}

static void note_reported_once(gw_scope *s, gate *g);

bool gates_begin(pass *p) {
    for (gate_pass *at = p->gates; at; at = at->next) {
        late *l = late_open(p, (uint32_t)at->gate->leaf_count);
        if (!l) return false;
        l->gate = at;
        at->answer = at->answered = l;
        at->adds = gate_has_answered(at->gate, p->scope);
        gate_forget_note(p->scope, at->gate);
        at->gate->class->begin(at, p->work);
        if (!gw_ok(p->work)) {
            late_release(l);
            scope_fail_with(p->scope, scope_error(p->work));
            note_reported_once(p->scope, at->gate);
            return false;
        }
        at->begun = true;
        scope_release_from(p->work, 0);
    }
    return true;
}

bool gates_pass_gradient(pass *p, gw_tensor *leaf, gw_tensor *gradient) {
    int i = 0;
    gate_pass *at = find(p, gate_of(leaf, &i));
    at->gate->class->gradient(at, p->work, i, gradient);
    bool ok = gw_ok(p->work);
    if (!ok) scope_fail_with(p->scope, scope_error(p->work));
    scope_release_from(p->work, 0);
    return ok;
}

bool gates_all_arrived(pass *p) {
    for (gate_pass *at = p->gates; at; at = at->next) {
        if (at->begun && at->gate->class->all_arrived) at->gate->class->all_arrived(at, p->work);
        if (!gw_ok(p->work)) return scope_fail_with(p->scope, scope_error(p->work));
        scope_release_from(p->work, 0);
    }
    return true;
}

void gates_end(pass *p, const gw_error *error) {
    for (gate_pass *at = p->gates; at; at = at->next) {
        if (at->begun) at->gate->class->end(at, error);
        if (at->begun && error) note_reported_once(p->scope, at->gate);
        at->begun = false;
    }
}

void gates_close(pass *p) {
    for (gate_pass *at; (at = p->gates);) {
        p->gates = at->next;
        gate *g = at->gate;
        mem_free(at);
        handle_release(g);
    }
}

// ---- Scopes in which a gate's leaves are used ---------------------------------------------------

typedef struct note {
    struct note *next;
    gate *gate;  // one count
    // In a scope that has failed: the error is reported, and a call of gw_backward behind that reports nothing. Nor does
    // any later one, if the gate gets an error once.
    bool is_reported;
} note;

static void free_note(note *n) {
    gate *g = n->gate;
    mem_give(n, sizeof *n);
    handle_release(g);
}

static note *find_note(const gw_scope *s, const gate *g) {
    note *n = s->slots[SCOPE_GATES].data;
    while (n && n->gate != g) n = n->next;
    return n;
}

// In |s|, which has failed, or in the scopes around it that have.
static note *find_failed(const gw_scope *s, const gate *g) {
    note *n = NULL;
    for (; s && !n && !gw_ok(s); s = s->parent) n = find_note(s, g);
    return n;
}

static gw_scope *outermost_failed(gw_scope *s) {
    while (s->parent && !gw_ok(s->parent)) s = s->parent;
    return s;
}

static void close_notes(gw_scope *s, void *data);

static note *add_note(gw_scope *s, gate *g) {
    note *n = mem_take(sizeof *n);
    if (!n) return NULL;
    *n = (note){ .next = s->slots[SCOPE_GATES].data, .gate = handle_retain(g) };
    scope_set_slot(s, SCOPE_GATES, n, close_notes);
    return n;
}

// Without memory the error is reported once more.
static void note_reported(gw_scope *s, gate *g) {
    bool is_shared = !s->ids;  // the scope that is returned without memory for one
    if (is_shared) return;
    note *n = gw_ok(s) ? find_note(s, g) : find_failed(s, g);
    if (!n) n = add_note(gw_ok(s) ? s : outermost_failed(s), g);
    if (n) n->is_reported = true;
}

static void note_reported_once(gw_scope *s, gate *g) {
    if (g->fails_once) note_reported(s, g);
}

// Tensors of a scope may be used in the one around it, if it had no error.
static void close_notes(gw_scope *s, void *data) {
    for (note *n = data, *next; n; n = next) {
        next = n->next;
        bool failed = !gw_ok(s);
        if (failed && !n->is_reported) n->gate->class->abandoned(n->gate, scope_error(s));
        if (failed && s->parent && !gw_ok(s->parent)) note_reported(s->parent, n->gate);
        if (!failed && s->parent && !n->is_reported) gate_note(s->parent, n->gate);
        free_note(n);
    }
}

void gate_note(gw_scope *s, gate *g) {
    note *n = gw_ok(s) ? find_note(s, g) : find_failed(s, g);
    if (n && gw_ok(s)) n->is_reported = false;
    if (n || add_note(gw_ok(s) ? s : outermost_failed(s), g)) return;
    scope_fail(s, GW_NO_MEMORY, "no memory for the gate of a model");
    g->class->abandoned(g, scope_error(s));
}

void gate_forget_note(gw_scope *s, const gate *g) {
    for (; s; s = s->parent) {
        note *first = s->slots[SCOPE_GATES].data;
        for (note **at = &first; *at; at = &(*at)->next) {
            note *n = *at;
            if (n->gate != g) continue;
            *at = n->next;
            scope_set_slot(s, SCOPE_GATES, first, first ? close_notes : NULL);
            free_note(n);
            break;
        }
    }
}

bool gate_is_noted(const gw_scope *s, const gate *g) {
    for (; s; s = s->parent) {
        const note *n = find_note(s, g);
        if (n && !n->is_reported) return true;
    }
    return false;
}

void gate_report_failure(gw_scope *failed, gate *g) {
    const note *n = find_failed(failed, g);
    bool is_reported = n && n->is_reported;
    handle_retain(g);
    gate_forget_note(failed, g);
    if (!is_reported) g->class->abandoned(g, scope_error(failed));
    note_reported_once(failed, g);
    handle_release(g);
}

static note *first_due(const gw_scope *s) {
    note *n = s->slots[SCOPE_GATES].data;
    while (n && n->is_reported && n->gate->fails_once) n = n->next;
    return n;
}

void gates_report_failure(gw_scope *failed) {
    for (gw_scope *s = failed; s; s = s->parent)
        for (note *n; (n = first_due(s));) gate_report_failure(failed, n->gate);
}
