// Structures of a program, nested as deep as COUNT, on a thread with a stack of KIB:
//     gradwire run -n 2 -- case-deep_structures WHAT COUNT KIB
// Each is built, used and released; "all fine" on both, exit 0. Where there is a limit, its error is the expected
// outcome.
#include <gradwire.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static gw_scope *root;
static int64_t count;

static void expect(gw_scope *s, bool is_right, const char *what) {
    if (gw_ok(s) && !is_right) gw_fail(s, GW_INVALID, "%s", what);
}

static void expect_error(gw_scope *s, gw_status status) {
    if (gw_scope_error(s)->status == status) {
        gw_scope_clear(s);
        return;
    }
    gw_error e = *gw_scope_error(s);
    gw_scope_clear(s);
    gw_fail(s, GW_INVALID, "not %s, but %s: %s", gw_status_name(status), gw_status_name(e.status),
            e.text);
}

// ---- Futures ------------------------------------------------------------------------------------
GW_FUNCTION(deep_next, GW_INLINE, "int") {
    return gw_value_of(gw_arg_int(s, a, 0) + 1);
}

typedef struct loop {
    int64_t left;
} loop;

// Each attempt returns the future of the next one.
static gw_value attempt(gw_scope *s, gw_value v, void *context) {
    loop *l = context;
    int64_t k = gw_int_of(s, v);
    if (l->left-- <= 0) return gw_value_of(k);
    return gw_value_of(gw_then(s, gw_rpc_async(s, "worker1", "deep_next", k), attempt, l));
}

static void retry(gw_scope *s) {
    loop l = { count };
    gw_future *f = gw_then(s, gw_rpc_async(s, "worker1", "deep_next", 0), attempt, &l);
    expect(s, gw_int_of(s, gw_wait(s, f)) == count + 1, "a wrong count of attempts");
}

// A chain in which each future resolves to the next one. |out_last| has to be set.
static gw_future *chain(gw_scope *s, gw_future **out_last) {
    gw_future *first = gw_future_open(s), *last = first;
    for (int64_t i = 0; i < count && gw_ok(s); i++) {
        gw_future *next = gw_future_open(s);
        gw_future_set(s, last, next);
        if (last != first) gw_drop(s, last);
        last = next;
    }
    *out_last = last;
    return first;
}

static void follow(gw_scope *s) {
    gw_future *last, *first = chain(s, &last);
    gw_future_set(s, last, 7);
    expect(s, gw_int_of(s, gw_wait(s, first)) == 7, "another value");
}

static void cancel(gw_scope *s) {
    gw_future *last, *first = chain(s, &last);
    gw_cancel(s, first);
    gw_wait(s, first);
    expect_error(s, GW_CANCELLED);
}

static gw_value plus_one(gw_scope *s, gw_value v, void *context) {
    (void)context;
    return gw_value_of(gw_int_of(s, v) + 1);
}

static gw_future *then_chain(gw_scope *s, gw_future *first) {
    gw_future *last = first;
    for (int64_t i = 0; i < count && gw_ok(s); i++) {
        gw_future *next = gw_then(s, last, plus_one, NULL);
        if (last != first) gw_drop(s, last);
        last = next;
    }
    return last;
}

static void then(gw_scope *s) {
    gw_future *first = gw_future_open(s), *last = then_chain(s, first);
    gw_future_set(s, first, 0);
    expect(s, gw_int_of(s, gw_wait(s, last)) == count, "a wrong sum");
}

static void then_cancel(gw_scope *s) {
    gw_future *first = gw_future_open(s), *last = then_chain(s, first);
    gw_cancel(s, last);
    gw_wait(s, last);
    expect_error(s, GW_CANCELLED);
}

typedef gw_future *collector(gw_scope *s, gw_future *const *fs, int count);

static gw_future *collect_chain(gw_scope *s, gw_future *first, collector *of) {
    gw_future *last = first;
    for (int64_t i = 0; i < count && gw_ok(s); i++) {
        gw_future *next = of(s, &last, 1);
        if (last != first) gw_drop(s, last);
        last = next;
    }
    return last;
}

static void collect(gw_scope *s) {
    gw_future *first = gw_future_open(s), *last = collect_chain(s, first, gw_collect_first);
    gw_future_set(s, first, 3);
    expect(s, gw_int_of(s, gw_wait(s, last)) == 3, "another value");
}

static void collect_cancel(gw_scope *s) {
    gw_future *last = collect_chain(s, gw_future_open(s), gw_collect_all);
    gw_cancel(s, last);
    gw_wait(s, last);
    expect_error(s, GW_CANCELLED);
}

// Futures whose values are lists with futures.
static void futures_in_values(gw_scope *s) {
    gw_future *inner = gw_future_open(s);
    gw_future_set(s, inner, 1);
    for (int64_t i = 0; i < count && gw_ok(s); i++) {
        gw_list *list = gw_list_open(s);
        gw_list_add(s, list, inner);
        gw_future *outer = gw_future_open(s);
        gw_future_set(s, outer, list);
        gw_drop(s, inner);
        gw_drop(s, list);
        inner = outer;
    }
}

// ---- Scopes -------------------------------------------------------------------------------------
static void scopes(gw_scope *s) {
    gw_scope *outer = gw_scope_open(s), *inner = outer;
    for (int64_t i = 0; i < count; i++) inner = gw_scope_open(inner);
    expect(inner, gw_item(inner, gw_ones(inner, GW_F32)) == 1, "another number");
    gw_scope_close_up(outer);
}

static void scopes_with_an_error(gw_scope *s) {
    gw_scope *outer = gw_scope_open(s), *inner = outer;
    for (int64_t i = 0; i < count; i++) inner = gw_scope_open(inner);
    gw_fail(inner, GW_NOT_FOUND, "deep inside");
    gw_error e = gw_scope_close(outer);
    expect(s, e.status == GW_NOT_FOUND, "an error was lost");
}

// ---- Values -------------------------------------------------------------------------------------
static gw_list *nested(gw_scope *s, int64_t depth) {
    gw_list *list = gw_list_open(s);
    for (int64_t i = 0; i < depth && gw_ok(s); i++) {
        gw_list *outer = gw_list_open(s);
        gw_list_add(s, outer, list);
        gw_drop(s, list);
        list = outer;
    }
    return list;
}

static void lists(gw_scope *s) {
    gw_list *list = nested(s, count), *holder = gw_list_open(s), *other = gw_list_open(s);
    gw_list_add(s, other, holder);
    gw_list_add(s, holder, list);  // is searched: it might hold |holder|
}

GW_FUNCTION(deep_take, GW_INLINE, "any") {
    (void)a, (void)s;
    return gw_none();
}

static void lists_that_travel(gw_scope *s) {
    gw_rpc_sync(s, "worker1", "deep_take", nested(s, count));
    expect_error(s, GW_LIMIT);
}

static void maps(gw_scope *s) {
    gw_map *map = gw_map_open(s);
    for (int64_t i = 0; i < count && gw_ok(s); i++) {
        gw_map *outer = gw_map_open(s);
        gw_map_put(s, outer, "inner", map);
        gw_drop(s, map);
        map = outer;
    }
}

// Built from outside: each list is put into one that other lists contain.
static void lists_from_outside(gw_scope *s) {
    gw_list *list = gw_list_open(s);
    for (int64_t i = 0; i < count && gw_ok(s); i++) {
        gw_list *inner = gw_list_open(s);
        gw_list_add(s, list, inner);
        list = inner;
    }
}

// ---- Graphs -------------------------------------------------------------------------------------
static gw_tensor *recorded(gw_scope *s, gw_tensor *x) {
    gw_tensor *y = x;
    for (int64_t i = 0; i < count && gw_ok(s); i++) {
        gw_tensor *next = gw_mul(s, y, 1.0);
        if (y != x) gw_drop(s, y);
        y = next;
    }
    return y;
}

static void graph(gw_scope *s) {
    gw_tensor *x = gw_requires_grad(s, gw_ones(s, GW_F32));
    gw_backward(s, recorded(s, x));
    expect(s, gw_item(s, gw_grad(s, x)) == 1, "another gradient");
}

static void graph_without_a_pass(gw_scope *s) {
    recorded(s, gw_requires_grad(s, gw_ones(s, GW_F32)));
}

// ---- Modules ------------------------------------------------------------------------------------
static gw_tensor *through(gw_scope *s, gw_module *m, gw_tensor *x) {
    (void)s, (void)m;
    return x;
}

static void modules(gw_scope *s) {
    gw_module *m = gw_module_open(s, "inner", through, NULL);
    for (int64_t i = 0; i < count && gw_ok(s); i++) {
        gw_module *outer = gw_module_open(s, "outer", through, NULL);
        gw_module_register_module(s, outer, "inner", m);
        m = outer;
    }
    expect_error(s, GW_LIMIT);
    gw_parameters(s, m);
    gw_module_state_dict(s, m);
    gw_module_eval(s, m);
}

// ---- All of them --------------------------------------------------------------------------------
static const struct {
    const char *name;
    void (*run)(gw_scope *s);
} structures[] = {
    { "retry", retry },
    { "follow", follow },
    { "cancel", cancel },
    { "then", then },
    { "then_cancel", then_cancel },
    { "collect", collect },
    { "collect_cancel", collect_cancel },
    { "futures_in_values", futures_in_values },
    { "scopes", scopes },
    { "scopes_with_an_error", scopes_with_an_error },
    { "lists", lists },
    { "lists_that_travel", lists_that_travel },
    { "lists_from_outside", lists_from_outside },
    { "maps", maps },
    { "graph", graph },
    { "graph_without_a_pass", graph_without_a_pass },
    { "modules", modules },
};

static void *run(void *name) {
    bool is_found = false;
    for (size_t i = 0; i < sizeof structures / sizeof *structures; i++) {
        if (strcmp(name, "all") != 0 && strcmp(name, structures[i].name) != 0) continue;
        gw_scope *s = gw_scope_open(root);
        gw_scope_label(s, "%s", structures[i].name);
        structures[i].run(s);
        gw_scope_close_up(s);
        is_found = true;
    }
    if (!is_found) gw_fail(root, GW_INVALID, "no structure \"%s\"", (const char *)name);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    count = strtoll(argv[2], NULL, 10);
    root = gw_scope_open(NULL);
    gw_rpc_init(root);
    if (gw_rpc_self(root).rank == 0) {
        pthread_attr_t small;
        pthread_t thread;
        pthread_attr_init(&small);
        if (pthread_attr_setstacksize(&small, (size_t)strtol(argv[3], NULL, 10) << 10)) return 2;
        if (pthread_create(&thread, &small, run, argv[1])) return 2;
        pthread_join(thread, NULL);
        pthread_attr_destroy(&small);
    }
    gw_rpc_shutdown(root);
    gw_error e = gw_scope_close(root);
    if (!e.status) printf("all fine\n");
    return gw_exit_code(e);
}
