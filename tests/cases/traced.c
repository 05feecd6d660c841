// Does work of each kind that is recorded, for `gradwire trace` and `gradwire top`. Started by `gradwire run -n2 -- case-traced`,
// with GW_FLIGHT=all. Rank 0 prints "ready PID" when all have done it, and ends when its standard input ends; `case-traced calls`
// calls rank 1 until then. `case-traced itself FILE LEVELS` ends at once, and writes a trace of its work to FILE.
#include <gradwire.h>
#include <math.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

GW_FUNCTION(twice, GW_INLINE, "tensor") {
    return gw_value_of(gw_mul(s, gw_arg_tensor(s, a, 0), 2.0));
}

static void work(gw_scope *root, gw_group *world, int rank) {
    gw_span *outer = gw_span_open(root, "outer <script>\"");
    for (int step = 0; step < 3; step++) {
        gw_scope *s = gw_scope_open(root);
        gw_span *inner = gw_span_open(s, "inner");
        gw_tensor *x = gw_requires_grad(s, gw_ones(s, GW_F32, 3));
        gw_tensor *y = gw_tensor_of(s, gw_rpc_sync(s, 1 - rank, "twice", x));
        gw_backward(s, gw_sum(s, y));
        gw_all_reduce(s, world, gw_ones(s, GW_F32, 1000), GW_SUM);
        gw_counter(s, "step", step);
        gw_span_close(inner);
        gw_scope_close_up(s);
    }
    gw_counter(root, "broken", NAN);
    gw_mark(root, "half\nway");
    gw_span_close(outer);
    gw_barrier(root, world);
}

// Until the standard input ends.
static void wait(gw_scope *root, bool with_calls) {
    struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };
    while (gw_ok(root) && poll(&in, 1, with_calls ? 0 : -1) == 0) {
        gw_scope *s = gw_scope_open(root);
        gw_rpc_sync(s, 1, "twice", gw_ones(s, GW_F32, 3));
        gw_scope_close_up(s);
    }
}

// A value of the other worker, and a layer.
static void share(gw_scope *root, gw_group *world, int rank) {
    gw_scope *s = gw_scope_open(root);
    gw_tensor *x = gw_to_here(s, gw_remote(s, 1 - rank, "gw.abs", gw_ones(s, GW_F32, 2, 5)));
    gw_module_call(s, gw_nn_linear(s, 5, 3), x);
    gw_scope_close_up(s);
    gw_barrier(root, world);
    // Until the other worker has released its reference, which exists since before the barrier.
    while (gw_ok(root) && gw_rref_owned_count(root) > 0) {
        gw_scope *t = gw_scope_open(root);
        gw_rpc_sync(t, 1 - rank, "gw.abs", gw_ones(t, GW_F32, 1));
        gw_scope_close_up(t);
    }
}

static void trace_itself(gw_scope *root, gw_group *world, int rank, char **argv) {
    gw_mark(root, "before");
    if (rank == 0) gw_trace_start(root, .levels = argv[3]);
    gw_barrier(root, world);
    work(root, world, rank);
    share(root, world, rank);
    gw_barrier(root, world);
    if (rank == 0) gw_trace_stop(root, argv[2]);
    gw_barrier(root, world);
}

int main(int argc, char **argv) {
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root, .timeout_ms = GW_NO_TIMEOUT);
    int rank = gw_ok(root) ? gw_rpc_self(root).rank : -1;
    bool traces_itself = argc > 3 && strcmp(argv[1], "itself") == 0;
    gw_group *world = gw_group_world(root, .timeout_ms = GW_NO_TIMEOUT);
    if (rank >= 0 && traces_itself) trace_itself(root, world, rank, argv);
    if (rank >= 0 && !traces_itself) work(root, world, rank);
    if (rank == 0 && gw_ok(root) && !traces_itself) {
        printf("ready %d\n", (int)getpid());
        wait(root, argc > 1);
    }
    gw_rpc_shutdown(root);
    return gw_exit_code(gw_scope_close(root));
}
