// How work grows with how much there is of what a program may have many of: twice as much of it takes
// about twice the steps of searches (base/steps.h), and never four times as many.
#include "testing/testing.h"

#include "base/steps.h"
#include <gradwire.h>

#include <stdio.h>

typedef void grown(gw_scope *s, int count);

// ---- What there may be many of ------------------------------------------------------------------
static void handles_dropped_from_the_first(gw_scope *s, int count) {
    gw_tensor **all = gw_alloc(s, (size_t)count * sizeof(gw_tensor *));
    for (int i = 0; i < count; i++) all[i] = gw_ones(s, GW_F32);
    for (int i = 0; i < count; i++) gw_drop(s, all[i]);
}

static void handles_dropped_from_the_last(gw_scope *s, int count) {
    gw_tensor **all = gw_alloc(s, (size_t)count * sizeof(gw_tensor *));
    for (int i = 0; i < count; i++) all[i] = gw_ones(s, GW_F32);
    for (int i = count; i-- > 0;) gw_drop(s, all[i]);
}

// A window that moves on, beside many that stay.
static void handles_of_a_window(gw_scope *s, int count) {
    gw_tensor *window[100] = { NULL };
    for (int i = 0; i < count; i++) gw_ones(s, GW_F32);
    for (int i = 0; i < count; i++) gw_set(s, &window[i % 100], gw_ones(s, GW_F32));
}

static void one_handle_kept_often(gw_scope *s, int count) {
    gw_tensor *x = gw_ones(s, GW_F32), *y = gw_ones(s, GW_F32);
    for (int i = 0; i < count; i++) gw_keep(s, i % 2 ? x : y);
    for (int i = 0; i < count; i++) gw_drop(s, i % 3 ? x : y);
}

static gw_tensor *through(gw_scope *s, gw_module *m, gw_tensor *x) {
    (void)s, (void)m;
    return x;
}

static gw_module *many_parameters(gw_scope *s, int count) {
    gw_module *m = gw_module_open(s, "many", through, NULL);
    for (int i = 0; i < count; i++) {
        const char *name = gw_format(s, "p%d", i);
        gw_module_register_parameter(s, m, name, gw_ones(s, GW_F32, 2));
    }
    return m;
}

static void parameters(gw_scope *s, int count) {
    gw_module *m = many_parameters(s, count);
    for (int i = 0; i < count; i++) gw_module_parameter_find(m, gw_format(s, "p%d", i));
}

static void children(gw_scope *s, int count) {
    gw_module *m = gw_module_open(s, "many", through, NULL);
    for (int i = 0; i < count; i++) {
        gw_module *child = gw_module_open(s, "child", through, NULL);
        gw_module_register_parameter(s, child, "w", gw_ones(s, GW_F32));
        gw_module_register_module(s, m, gw_format(s, "c%d", i), child);
    }
    for (int i = 0; i < count; i++) gw_module_child(s, m, gw_format(s, "c%d", i));
    gw_module_load_state_dict(s, m, gw_module_state_dict(s, m));
}

static void parameters_of_an_optimizer(gw_scope *s, int count) {
    gw_module *m = many_parameters(s, count);
    gw_optimizer *opt = gw_adam(s, gw_parameters(s, m));
    gw_optimizer_load_state_dict(s, opt, gw_optimizer_state_dict(s, opt));
}

static void groups_of_an_optimizer(gw_scope *s, int count) {
    gw_optimizer *opt = NULL;
    for (int i = 0; i < count; i++) {
        gw_list *one = gw_list_open(s);
        gw_list_add(s, one, gw_requires_grad(s, gw_ones(s, GW_F32)));
        if (opt)
            gw_optimizer_add_group(s, opt, one);
        else
            opt = gw_sgd(s, one);
    }
}

static void states(gw_scope *s, int count) {
    gw_module *m = many_parameters(s, count);
    gw_module_load_state_dict(s, m, gw_module_state_dict(s, m));
}

static void gradients(gw_scope *s, int count) {
    gw_module *m = many_parameters(s, count);
    gw_list *params = gw_parameters(s, m);
    gw_optimizer *opt = gw_sgd(s, params);
    for (int i = 0; i < count; i++)
        gw_set_grad(s, gw_tensor_of(s, gw_list_get(s, params, i)), gw_ones(s, GW_F32, 2));
    gw_clip_grad_norm(s, params, 1.0);
    gw_optimizer_step(s, opt);
}

static void items_of_a_map(gw_scope *s, int count) {
    gw_map *m = gw_map_open(s);
    for (int i = 0; i < count; i++) gw_map_put(s, m, gw_format(s, "k%d", i), i);
    for (int i = 0; i < count; i++) gw_map_get(s, m, gw_format(s, "k%d", i));
}

// Lists that are in others are looked through for what is put into them.
static void lists_in_lists(gw_scope *s, int count) {
    gw_list *list = gw_list_open(s), *holder = gw_list_open(s);
    gw_list_add(s, holder, list);
    for (int i = 0; i < count; i++) {
        gw_list *inner = gw_list_open(s);
        gw_list_add(s, list, inner);
        if (i % 2) list = inner;
    }
}

// Each is in the next one twice: there are 2^count ways to the innermost.
static void lists_twice_in_lists(gw_scope *s, int count) {
    gw_list *list = gw_list_open(s);
    for (int i = 0; i < count / 32; i++) {
        gw_list *outer = gw_list_open(s);
        gw_list_add(s, outer, list);
        gw_list_add(s, outer, list);
        list = outer;
    }
    gw_list *holder = gw_list_open(s), *other = gw_list_open(s);
    gw_list_add(s, other, holder);
    gw_list_add(s, holder, list);
}

static void scopes_in_one(gw_scope *s, int count) {
    gw_scope **all = gw_alloc(s, (size_t)count * sizeof(gw_scope *));
    for (int i = 0; i < count; i++) all[i] = gw_scope_open(s);
    for (int i = 0; i < count; i++) gw_scope_close_up(all[i]);
}

static const struct {
    const char *name;
    grown *grown;
} all[] = {
    { "handles dropped from the first", handles_dropped_from_the_first },
    { "handles dropped from the last", handles_dropped_from_the_last },
    { "handles of a window", handles_of_a_window },
    { "one handle kept often", one_handle_kept_often },
    { "parameters of a module", parameters },
    { "children of a module", children },
    { "parameters of an optimizer", parameters_of_an_optimizer },
    { "groups of an optimizer", groups_of_an_optimizer },
    { "states", states },
    { "gradients", gradients },
    { "items of a map", items_of_a_map },
    { "lists in lists", lists_in_lists },
    { "lists twice in lists", lists_twice_in_lists },
    { "scopes in one", scopes_in_one },
};

// ---- Growth -------------------------------------------------------------------------------------
static uint64_t steps_of(grown *g, int count) {
    gw_scope *s = gw_scope_open(NULL);
    uint64_t before = steps_taken;
    g(s, count);
    gw_error e = gw_scope_close(s);
    if (e.status) fail_msg("%s", e.text);
    return steps_taken - before;
}

static void twice_as_much_takes_twice_the_steps(void **state) {
    (void)state;
    enum { COUNT = 1000, FEW = 100 };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        uint64_t once = steps_of(all[i].grown, COUNT), twice = steps_of(all[i].grown, 2 * COUNT);
        if (twice > 3 * once + FEW * (uint64_t)COUNT / 10)
            fail_msg("%s: %d take %llu steps, and %d take %llu", all[i].name, COUNT,
                     (unsigned long long)once, 2 * COUNT, (unsigned long long)twice);
    }
}

GW_TESTS(growth, twice_as_much_takes_twice_the_steps);
