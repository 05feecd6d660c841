#include "trainer.h"

#include "autograd/node.h"
#include "base/mem.h"

#include <time.h>

// Computes for a fixed processor time: the same work on a busy machine as on a quiet one.
static void spin(double us) {
    struct timespec t;
    double end_us = -1;
    do {
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        double at_us = (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
        if (end_us < 0) end_us = at_us + us;
        if (at_us >= end_us) return;
    } while (true);
}

// ---- Computation in the backward pass ------------------------------------------------------------
// A node, not a hook: replicas hold their gradients back while hooks run, as these may begin passes.

typedef struct spin_node {
    node base;
    edge edge;
    double us;
} spin_node;

static const char *name_spin(const node *n) {
    (void)n;
    return "spin";
}

static void run_spin(node *n, node_run *r) {
    spin(((const spin_node *)n)->us);
    r->d_inputs[0] = r->d_outputs[0];
}

static bool forget_spin(node *n) {
    (void)n;
    return true;
}

static void destroy_spin(node *n) {
    mem_give(n, sizeof(spin_node));
}

static const node_class spin_class = {
    .name = name_spin, .run = run_spin, .forget = forget_spin, .destroy = destroy_spin
};

static gw_tensor *spin_in_backward(gw_scope *s, gw_tensor *x, double us) {
    spin_node *n = mem_take(sizeof *n);
    if (!n) return x;
    *n = (spin_node){ .base = { .class = &spin_class, .output_count = 1, .edge_count = 1 },
                      .edge = edge_retain(edge_to(x)),
                      .us = us };
    atomic_init(&n->base.count, 1);
    n->base.edges = &n->edge;
    gw_no_grad(s);
    gw_tensor *y = gw_mul(s, x, 1);
    gw_enable_grad(s);
    node_make(&n->base, 0, y);
    node_release(&n->base);
    return y;
}

// ---- The model ----------------------------------------------------------------------------------
static gw_tensor *forward(gw_scope *s, gw_module *m, gw_tensor *x) {
    chain *c = gw_module_state(m);
    for (int i = 0; i < c->layers; i++) {
        if (c->spin_us > 0) spin(c->spin_us / 3);
        x = gw_module_call(s, c->linear[i], x);
        if (c->spin_us > 0) x = spin_in_backward(s, x, c->spin_us * 2 / 3);
        if (i + 1 < c->layers) x = gw_relu(s, x);
    }
    return x;
}

static gw_module *open_chain(gw_scope *s, chain *c) {
    gw_module *m = gw_module_open(s, "chain", forward, c);
    for (int i = 0; i < c->layers; i++) {
        c->linear[i] = gw_nn_linear(s, c->width, c->width);
        gw_module_register_module(s, m, gw_format(s, "%d", i), c->linear[i]);
    }
    return m;
}

void trainer_open(gw_scope *root, trainer *t) {
    chain *c = &t->chain;
    t->model = open_chain(root, c);
    t->x = gw_rand(root, GW_F32, c->batch, c->width);
    t->y = gw_rand(root, GW_F32, c->batch, c->width);
    t->opt = gw_sgd(root, gw_parameters(root, t->model), .lr = 0.01);
}

void trainer_compute(gw_scope *s, trainer *t) {
    gw_backward(s, gw_mse(s, gw_module_call(s, t->model, t->x), t->y));
}

double trainer_time_step(gw_scope *root, trainer *t, bool synchronised) {
    gw_scope *s = gw_scope_open(root);
    if (!synchronised) gw_ddp_no_sync(s);
    double start = now_us();
    trainer_compute(s, t);
    gw_optimizer_step(s, t->opt);
    gw_scope_close_up(s);
    return now_us() - start;
}
