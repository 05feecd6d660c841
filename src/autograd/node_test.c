#include "testing/testing.h"

#include "autograd/node.h"

#include <pthread.h>

// A node with up to two edges that counts its calls.
typedef struct probe {
    node base;
    edge room[2];
    int forgotten_count, destroyed_count;
} probe;

static bool forget(node *n) {
    ((probe *)n)->forgotten_count++;
    return false;
}
static void destroy(node *n) {
    ((probe *)n)->destroyed_count++;
}
static const node_class probe_class = { .forget = forget, .destroy = destroy };

static void init(probe *p, probe *to0, probe *to1) {
    *p = (probe){ .base = { .class = &probe_class, .output_count = 1 } };
    atomic_init(&p->base.count, 1);
    p->base.edges = p->room;
    probe *const to[] = { to0, to1 };
    for (int i = 0; i < 2; i++)
        if (to[i])
            p->room[p->base.edge_count++] =
                edge_retain((edge){ .kind = EDGE_NODE, .to.node = &to[i]->base });
}

static void the_last_count_destroys(void **state) {
    (void)state;
    probe p;
    init(&p, NULL, NULL);
    node_retain(&p.base);
    node_release(&p.base);
    assert_int_equal(p.destroyed_count, 0);
    node_release(&p.base);
    assert_int_equal(p.forgotten_count, 1);
    assert_int_equal(p.destroyed_count, 1);
    node_release(NULL);
}

static void a_node_holds_the_nodes_of_its_edges(void **state) {
    (void)state;
    probe bottom, left, right, top;
    init(&bottom, NULL, NULL);
    init(&left, &bottom, NULL);
    init(&right, &bottom, NULL);
    init(&top, &left, &right);
    node_release(&left.base);
    node_release(&right.base);
    node_release(&bottom.base);
    assert_int_equal(bottom.destroyed_count + left.destroyed_count + right.destroyed_count, 0);
    node_release(&top.base);
    assert_int_equal(top.destroyed_count, 1);
    assert_int_equal(left.destroyed_count, 1);
    assert_int_equal(right.destroyed_count, 1);
    assert_int_equal(bottom.destroyed_count, 1);
}

static void edges_lead_to_leaves_nodes_or_nowhere(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_zeros(s, GW_F32);
    assert_int_equal(edge_to(x).kind, EDGE_NONE);
    x->tape = &autograd_tape;
    edge e = edge_retain(edge_to(x));
    assert_int_equal(e.kind, EDGE_LEAF);
    assert_ptr_equal(e.to.leaf, x);
    assert_false(handle_is_sole(&x->handle));
    probe p;
    init(&p, NULL, NULL);
    p.room[0] = e;
    p.base.edge_count = 1;
    node_release(&p.base);
    assert_true(handle_is_sole(&x->handle));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

enum { THREADS = 4, TURNS = 20000 };

static void *retain_and_release(void *arg) {
    for (int i = testing_scaled(TURNS); i > 0; i--) node_release(node_retain(arg));
    return NULL;
}

static void counts_are_kept_across_threads(void **state) {
    (void)state;
    probe p;
    init(&p, NULL, NULL);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, retain_and_release, &p.base);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    assert_int_equal(p.destroyed_count, 0);
    node_release(&p.base);
    assert_int_equal(p.destroyed_count, 1);
}

GW_TESTS(autograd_node, the_last_count_destroys, a_node_holds_the_nodes_of_its_edges,
         edges_lead_to_leaves_nodes_or_nowhere, counts_are_kept_across_threads);
