// A client: its digits never leave it.
#include "client.h"

#include "../common/curve.h"
#include "../common/digits.h"
#include "../common/weights.h"

#include <gradwire.h>

typedef struct client {
    gw_scope *own;
    digits data;
    gw_module *model;  // as large as the first weights it receives
} client;

GW_CLASS(client, client_open);  // file or none, share, shares

static void client_open(gw_scope *own, client *self, const gw_args *a) {
    self->own = own;
    gw_value path = gw_arg(own, a, 0);
    digits all = digits_load(own, path.kind == GW_STRING ? path.as.string : NULL).train;
    self->data = digits_share(own, all, (int)gw_arg_int(own, a, 1), (int)gw_arg_int(own, a, 2));
}

static void load(gw_scope *s, client *self, gw_list *weights) {
    int64_t width = gw_size(gw_tensor_of(s, gw_list_get(s, weights, 0)), 0);
    if (!self->model && gw_ok(s)) self->model = digits_model(self->own, width);
    if (gw_ok(s)) weights_load(s, self->model, weights);
}

static gw_value answer(gw_scope *s, client *self, gw_list *numbers, double loss, double since_s) {
    gw_map *m = gw_map_open(s);
    gw_map_put(s, m, "numbers", numbers);
    gw_map_put(s, m, "count", self->data.count);
    gw_map_put(s, m, "loss", loss);
    gw_map_put(s, m, "seconds", now_s() - since_s);
    return gw_value_of(m);
}

// Federated averaging: trains the weights for some passes over the data of this client, and returns them.
GW_METHOD(client, avg, GW_POOL, "list, int, int, float") {  // weights, epochs, batch, lr
    double since_s = now_s(), loss = 0;
    load(s, self, gw_arg_list(s, a, 0));
    if (!gw_ok(s)) return gw_none();
    gw_optimizer *opt = gw_sgd(s, gw_parameters(s, self->model), .lr = gw_arg_float(s, a, 3));
    for (int64_t epoch = 0; epoch < gw_arg_int(s, a, 1) && gw_ok(s); epoch++)
        loss = digits_train_epoch(s, self->model, opt, self->data, gw_arg_int(s, a, 2));
    return answer(s, self, weights_of(s, self->model), loss, since_s);
}

// Federated SGD: the gradient over all the data of this client.
GW_METHOD(client, sgd, GW_POOL, "list, int, int, float") {  // weights; the others are for avg
    double since_s = now_s();
    load(s, self, gw_arg_list(s, a, 0));
    if (!gw_ok(s)) return gw_none();
    gw_tensor *loss = digits_loss(s, self->model, self->data);
    gw_backward(s, loss);
    return answer(s, self, gradients_of(s, self->model), gw_item(s, loss), since_s);
}

int client_run(const options *o) {
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root, .name = gw_format(root, "client%d", (int)o->number), .job = GW_JOB_JOIN,
                .init_method = o->join);
    gw_value path = gw_value_of(o->data);
    gw_rref *me = gw_remote(root, gw_rpc_self(root), "client", path, o->number - 1, o->shares);
    gw_rref *server = gw_named(root, "server", "server");
    gw_rpc_sync(root, server, "enlist", me, o->number);
    gw_rpc_sync_with(root, gw_to(server), "await_dismissal", GW_NO_ARGS,
                     GW_OPTIONS(gw_call_options, .timeout_ms = GW_NO_TIMEOUT));
    gw_rpc_leave(root);
    return gw_exit_code(gw_scope_close(root));
}
