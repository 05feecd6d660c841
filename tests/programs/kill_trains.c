#include "kill_trains.h"

#include <stdio.h>

enum { WORKERS_MAX = 64 };

static gw_tensor *weight;

typedef struct name {
    char text[24];
} name;

static name name_of(int rank) {
    name n;
    snprintf(n.text, sizeof n.text, "worker%d", rank);
    return n;
}

GW_FUNCTION(trains_weight, GW_INLINE, "") {
    return gw_value_of(gw_rref_open(s, weight));
}

// Passes |x| through the workers of |workers|, a bit set, the lowest first.
static gw_tensor *through(gw_scope *s, int64_t workers, gw_tensor *x) {
    int next = 0;
    while (next < WORKERS_MAX && !(workers >> next & 1)) next++;
    if (next == WORKERS_MAX) return x;
    return gw_tensor_of(s, gw_rpc_sync(s, name_of(next).text, "trains_through",
                                       workers & ~(INT64_C(1) << next), x));
}

GW_FUNCTION(trains_through, GW_POOL, "int, tensor") {
    gw_tensor *y = gw_add(s, gw_arg_tensor(s, a, 1), weight);
    return gw_value_of(through(s, gw_arg_int(s, a, 0), y));
}

void trains_open(gw_scope *own) {
    weight = gw_requires_grad(own, gw_zeros(own, GW_F64, 1));
}

gw_error trains_work(gw_scope *root, uint64_t workers, int steps_max, int64_t *out_steps) {
    gw_scope *own = gw_scope_open(root);
    gw_list *params = gw_list_open(own);
    gw_list_add(own, params, weight);
    for (int i = 0; i < WORKERS_MAX; i++)
        if (workers >> i & 1)
            gw_list_add_with(own, params, gw_rpc_sync(own, name_of(i).text, "trains_weight"));
    gw_optimizer *opt = gw_sgd(own, params, .lr = 1);
    for (int step = 0; step < steps_max && gw_ok(own); step++) {
        gw_scope *s = gw_scope_open(own);
        gw_backward(s, gw_sum(s, through(s, (int64_t)workers, weight)));
        gw_optimizer_step(s, opt);
        gw_scope_close_up(s);
    }
    *out_steps = gw_optimizer_steps(opt);
    return gw_scope_close(own);
}

int trains_steps(void) {
    return (int)-*(const double *)gw_data(weight);
}
