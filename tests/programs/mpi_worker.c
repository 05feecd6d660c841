// gradwire-mpi-worker [any_order | desync | midway | replicas | time | fail | lost | lost_before_mpi]
//
// Started by mpirun. Runs every collective in a group of backend "mpi" and in one of sessions, and ends with 0 if both
// have given the same bits; "any_order": lets MPI choose the order of sums; "desync": members that differ, one that is
// late, one that has failed; "midway": deadlines and cancelling while MPI works; "replicas": the same training over
// both; "time": the time of a step over each; "fail": one breaks the group while MPI works; "lost": the last rank kills
// itself while the others wait for it; "lost_before_mpi": the same before MPI has begun on all.
#include <gradwire.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { NUMBERS = 3001 };

static gw_tensor *numbers(gw_scope *s, int rank, int64_t count, gw_dtype dtype) {
    float *x = gw_alloc(s, (size_t)count * sizeof *x);
    for (int i = 0; x && i < count; i++)
        x[i] = ldexpf((float)((i * 37 + rank * 101) % 255 - 127), (i + 3 * rank) % 11 - 8);
    return gw_to_dtype(s, gw_from_with(s, GW_F32, x, (gw_shape){ 1, &count }), dtype);
}

static void expect_same(gw_scope *s, const char *what, gw_tensor *a, gw_tensor *b, bool exactly) {
    if (!gw_ok(s)) return;
    gw_tensor *x = gw_contiguous(s, a), *y = gw_contiguous(s, b);
    bool alike =
        gw_dims(x) == gw_dims(y) && gw_numel(x) == gw_numel(y) && gw_dtype_of(x) == gw_dtype_of(y);
    size_t size = alike ? (size_t)gw_numel(x) * gw_dtype_size(gw_dtype_of(x)) : 0;
    if (alike && exactly) alike = memcmp(gw_data(x), gw_data(y), size) == 0;
    if (alike && !exactly) alike = gw_allclose(s, x, y, .rtol = 1e-2, .atol = 1e-2);
    if (!alike)
        gw_fail(s, GW_MISMATCH, "%s of %s: mpi and sessions differ", what,
                gw_dtype_name(gw_dtype_of(x)));
}

static void try_sums(gw_scope *s, gw_group *m, gw_group *g, gw_dtype dtype, bool exactly) {
    int rank = gw_group_rank(g), n = gw_group_size(g);
    gw_tensor *x = numbers(s, rank, NUMBERS, dtype), *none = numbers(s, rank, 0, dtype);
    bool is_float = dtype == GW_F32 || dtype == GW_F64 || dtype == GW_F16 || dtype == GW_BF16;
    exactly = exactly || !is_float;
    expect_same(s, "sum", gw_all_reduce(s, m, x, GW_SUM), gw_all_reduce(s, g, x, GW_SUM), exactly);
    expect_same(s, "max", gw_all_reduce(s, m, x, GW_MAX), gw_all_reduce(s, g, x, GW_MAX), exactly);
    expect_same(s, "none", gw_all_reduce(s, m, none, GW_SUM), none, exactly);
    expect_same(s, "reduce", gw_reduce(s, m, x, GW_SUM, n - 1), gw_reduce(s, g, x, GW_SUM, n - 1),
                true);
    gw_tensor *rows = gw_reshape(s, numbers(s, rank, 12 * n, dtype), 2 * n, 6);
    expect_same(s, "reduce_scatter", gw_reduce_scatter(s, m, rows, GW_SUM),
                gw_reduce_scatter(s, g, rows, GW_SUM), true);
    if (!is_float) return;
    expect_same(s, "mean", gw_all_reduce(s, m, x, GW_AVG, .factor = 0.3),
                gw_all_reduce(s, g, x, GW_AVG, .factor = 0.3), exactly);
}

static void try_copies(gw_scope *s, gw_group *m, gw_group *g, gw_dtype dtype) {
    int rank = gw_group_rank(g), n = gw_group_size(g);
    gw_tensor *x = gw_reshape(s, numbers(s, rank, 10 * (rank + 1), dtype), -1, 5);
    gw_tensor *mine = rank == 1 % n ? x : NULL;
    expect_same(s, "broadcast", gw_broadcast(s, m, mine, 1 % n), gw_broadcast(s, g, mine, 1 % n),
                true);
    expect_same(s, "all_gather", gw_all_gather(s, m, x), gw_all_gather(s, g, x), true);
    expect_same(s, "gather", gw_gather_to(s, m, x, 0), gw_gather_to(s, g, x, 0), true);
    int64_t sizes[64];
    for (int i = 0; i < n; i++) sizes[i] = (i + rank) % 3;
    int64_t total = 0;
    for (int i = 0; i < n; i++) total += sizes[i];
    gw_tensor *rows = gw_reshape(s, numbers(s, rank, total * 4, dtype), total, 4);
    expect_same(s, "all_to_all", gw_all_to_all(s, m, rows, .sizes = sizes),
                gw_all_to_all(s, g, rows, .sizes = sizes), true);
    gw_all_gather_value(s, m, "values go over sessions");
    gw_barrier(s, m);
}

static void try_many(gw_scope *s, gw_group *m, gw_group *g) {
    enum { MANY = 100 };
    gw_future *fs[MANY];
    int rank = gw_group_rank(g), n = gw_group_size(g);
    for (int i = 0; i < MANY; i++)
        fs[i] = i % 7 == 3 ? gw_all_reduce_async(s, m, gw_full(s, GW_I64, rank, 4), GW_SUM,
                                                 .key = (uint64_t)(1 + (i + rank) % 2))
                           : gw_all_reduce_async(s, m, gw_full(s, GW_I64, rank + i, 4), GW_SUM);
    for (int i = 0; i < MANY && gw_ok(s); i++) {
        gw_tensor *sum = gw_tensor_of(s, gw_wait(s, fs[i]));
        int64_t expected = n * (n - 1) / 2 + (i % 7 == 3 ? 0 : n * i);
        if (gw_ok(s) && ((const int64_t *)gw_data(sum))[3] != expected)
            gw_fail(s, GW_MISMATCH, "number %d is wrong", i);
    }
    gw_tensor *leaf = gw_requires_grad(s, gw_ones(s, GW_F32, 2 + rank));
    gw_backward(s, gw_sum(s, gw_mul(s, gw_all_gather(s, m, leaf), rank + 1)));
    expect_same(s, "gradient", gw_grad(s, leaf), gw_full(s, GW_F32, n * (n + 1) / 2, 2 + rank),
                true);
}

static void try_all(gw_scope *root, gw_group *m, gw_group *g, bool exactly) {
    static const gw_dtype dtypes[] = { GW_F32, GW_F64, GW_F16, GW_BF16, GW_I32, GW_I64, GW_U8 };
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        gw_scope *s = gw_scope_open(root);
        try_sums(s, m, g, dtypes[i], exactly);
        try_copies(s, m, g, dtypes[i]);
        gw_scope_close_up(s);
    }
    if (gw_ok(root)) try_many(root, m, g);
}

static void expect_error(gw_scope *s, gw_status status, const char *text) {
    gw_error e = *gw_scope_error(s);
    gw_scope_clear(s);
    if (e.status != status || !strstr(e.text, text))
        gw_fail(s, GW_MISMATCH, "\"%s\" where \"%s\" was expected", e.text, text);
}

// The group continues after aborts.
static void differ(gw_scope *s, gw_group *m, gw_group *g) {
    int rank = gw_group_rank(g), n = gw_group_size(g);
    for (int i = 0; i < 6; i++) {
        gw_tensor *x = numbers(s, rank, NUMBERS + (i == 2 ? rank : 0), GW_F32);
        if (i == 3 && rank == n - 1)
            gw_recv(s, g, 0);  // which is received when the others have given up
        if (i == 4 && rank == 0) gw_fail(s, GW_INVALID, "no more data");
        gw_all_reduce(s, m, x, GW_SUM, .timeout_ms = 1000);
        if (i == 2) expect_error(s, GW_MISMATCH, "by its backend");
        if (i == 3) expect_error(s, GW_TIMEOUT, "has not entered");
        if (i == 4) expect_error(s, GW_INVALID, "no more data");
        if (i == 3 && rank == 0) gw_send(s, g, gw_ones(s, GW_F32, 1), n - 1);
        gw_barrier(s, g);
    }
    if (gw_ok(s)) try_all(s, m, g, true);
}

// Whether |m| has given all members a sum: a late abort may still arrive for an operation that has ended.
static bool is_usable(gw_scope *s, gw_group *m, gw_group *g) {
    gw_tensor *sum = gw_all_reduce(s, m, gw_ones(s, GW_I64, 10), GW_SUM);
    int64_t ok = gw_ok(s) && ((const int64_t *)gw_data(sum))[9] == gw_group_size(m);
    gw_scope_clear(s);
    return gw_item_int(s, gw_all_reduce(s, g, gw_from(s, &ok, 1), GW_MIN));
}

// An abort ends an operation that MPI carries out in MPI, too, and the group continues.
static void end_midway(gw_scope *root, gw_group *m, gw_group *g) {
    enum { ROUNDS = 30, LARGE = 1 << 20 };
    for (int i = 0; i < ROUNDS && gw_ok(root); i++) {
        gw_scope *s = gw_scope_open(root);
        bool cancels = i % 2 && gw_group_rank(g) == i / 2 % gw_group_size(g);
        gw_future *f = gw_all_reduce_async(s, m, gw_ones(s, GW_F32, LARGE), GW_SUM,
                                           .timeout_ms = i % 2 ? 60000 : 1);
        gw_future *behind = gw_all_reduce_async(s, m, gw_ones(s, GW_F32, LARGE), GW_SUM);
        if (cancels) gw_cancel(s, f);
        gw_wait(s, f);
        gw_wait(s, behind);
        gw_status status = gw_scope_error(s)->status;
        gw_scope_clear(s);
        if (status && status != GW_TIMEOUT && status != GW_CANCELLED)
            gw_fail(s, GW_MISMATCH, "%s in round %d", gw_status_name(status), i);
        int tries = 0;
        while (gw_ok(s) && !is_usable(s, m, g)) {
            if (++tries == 20) gw_fail(s, GW_MISMATCH, "the group does not continue");
        }
        gw_scope_close_up(s);
    }
    if (gw_ok(root)) try_all(root, m, g, true);
}

static gw_tensor *no_forward(gw_scope *s, gw_module *m, gw_tensor *x) {
    (void)s, (void)m;
    return x;
}

enum { LEAVES = 8, LEAF_NUMBERS = 40000 };

// Each leaf is a bucket.
static void train(gw_scope *s, gw_group *g, int rank, gw_tensor *out[LEAVES]) {
    gw_module *model = gw_module_open(s, "leaves", no_forward, NULL);
    for (int i = 0; i < LEAVES; i++) {
        out[i] = gw_requires_grad(s, gw_full(s, GW_F32, i + 1, LEAF_NUMBERS));
        gw_module_register_parameter(s, model, gw_format(s, "x%d", i), out[i]);
    }
    gw_ddp_open(s, model, .group = g, .first_bucket_bytes = 1, .bucket_bytes = 1);
    gw_optimizer *o = gw_sgd(s, gw_parameters(s, model), .lr = 0.1);
    for (int step = 0; step < 10 && gw_ok(s); step++) {
        gw_scope *t = gw_scope_open(s);
        gw_tensor *loss = gw_zeros(t, GW_F32, LEAF_NUMBERS);
        for (int i = 0; i < LEAVES; i++) {
            gw_tensor *by = numbers(t, rank + i + step, LEAF_NUMBERS, GW_F32);
            loss = gw_add(t, loss, gw_mul(t, gw_mul(t, out[i], out[i]), by));
        }
        gw_backward(t, gw_mean(t, loss));
        gw_optimizer_step(t, o);
        gw_scope_close_up(t);
    }
}

static void train_both(gw_scope *s, gw_group *m, gw_group *g) {
    gw_tensor *a[LEAVES], *b[LEAVES];
    train(s, m, gw_group_rank(g), a);
    train(s, g, gw_group_rank(g), b);
    for (int i = 0; i < LEAVES; i++) expect_same(s, "a weight", a[i], b[i], true);
}

static int compare(const void *a, const void *b) {
    const double *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

// 4 layers of 512 x 512, batch 8, in turns; rank 0's times, from a barrier on.
static void time_both(gw_scope *s, gw_group *m, gw_group *g) {
    enum { WIDTH = 512, BATCH = 8, STEPS = 60 };
    gw_group *groups[] = { g, m };
    gw_module *models[2];
    gw_tensor *x = gw_rand(s, GW_F32, BATCH, WIDTH);
    double times[2][STEPS];
    for (int k = 0; k < 2; k++) {
        models[k] =
            gw_nn_sequential(s, gw_nn_linear(s, WIDTH, WIDTH), gw_nn_linear(s, WIDTH, WIDTH),
                             gw_nn_linear(s, WIDTH, WIDTH), gw_nn_linear(s, WIDTH, WIDTH));
        gw_ddp_open(s, models[k], .group = groups[k]);
    }
    for (int i = 0; i < 2 * STEPS && gw_ok(s); i++) {
        gw_scope *t = gw_scope_open(s);
        struct timespec from, to;
        gw_barrier(t, g);
        clock_gettime(CLOCK_MONOTONIC, &from);
        gw_backward(t, gw_mean(t, gw_module_call(t, models[i % 2], x)));
        clock_gettime(CLOCK_MONOTONIC, &to);
        times[i % 2][i / 2] =
            (double)(to.tv_sec - from.tv_sec) * 1e6 + (double)(to.tv_nsec - from.tv_nsec) * 1e-3;
        gw_scope_close_up(t);
    }
    for (int k = 0; k < 2 && gw_ok(s) && gw_group_rank(g) == 0; k++) {
        qsort(times[k], STEPS, sizeof times[k][0], compare);
        printf("%s %.0f %.0f\n", k ? "mpi" : "session", times[k][STEPS / 2], times[k][0]);
    }
}

static void break_midway(gw_scope *s, gw_group *m, gw_group *g) {
    enum { MANY = 40 };
    gw_future *fs[MANY];
    for (int i = 0; i < MANY; i++)
        fs[i] = gw_all_reduce_async(s, m, gw_ones(s, GW_F32, 1 << 18), GW_SUM);
    gw_wait(s, fs[3]);
    if (gw_group_rank(g) == 1) gw_group_fail(s, m, GW_REMOTE, "the disk is full");
    gw_wait(s, fs[MANY - 1]);
    gw_scope_clear(s);
    gw_all_reduce(s, m, gw_ones(s, GW_F32, 10), GW_SUM);
    expect_error(s, GW_REMOTE, "worker1: the disk is full");
}

static void lose_last(gw_scope *s, gw_group *m) {
    gw_barrier(s, m);
    if (gw_group_rank(m) == gw_group_size(m) - 1) kill(getpid(), SIGKILL);
    gw_all_reduce(s, m, gw_ones(s, GW_F32, 1000), GW_SUM);
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root);
    gw_group *g = gw_group_world(root);
    bool any_order = strcmp(how, "any_order") == 0;
    gw_group *m = gw_group_world(root, .backend = "mpi", .any_order = any_order);
    if (gw_ok(root) && strcmp(how, "lost") == 0) {
        gw_all_reduce(root, m, gw_ones(root, GW_F32, 1000), GW_SUM);
        lose_last(root, m);
    } else if (gw_ok(root) && strcmp(how, "lost_before_mpi") == 0) {
        lose_last(root, m);
    } else if (gw_ok(root) && strcmp(how, "desync") == 0) {
        differ(root, m, g);
    } else if (gw_ok(root) && strcmp(how, "midway") == 0) {
        end_midway(root, m, g);
    } else if (gw_ok(root) && strcmp(how, "replicas") == 0) {
        train_both(root, m, g);
    } else if (gw_ok(root) && strcmp(how, "time") == 0) {
        time_both(root, m, g);
    } else if (gw_ok(root) && strcmp(how, "fail") == 0) {
        break_midway(root, m, g);
    } else if (gw_ok(root)) {
        try_all(root, m, g, !any_order);
    }
    gw_rpc_shutdown(root);
    int code = gw_exit_code(gw_scope_close(root));
    if (!code) puts("the same");
    return code;
}
