// Every public function that takes an array and a count refuses a NULL array with a count, with an error text. Each row
// runs in its own process, so that a row that crashes is named.
#include "testing/testing.h"

#include <gradwire.h>
#include <gradwire/binding.h>

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct subjects {
    gw_scope *s;
    gw_group *g;
    gw_tensor *x;
    gw_module *m;
    gw_optimizer *opt;
} subjects;

typedef struct row {
    const char *name;
    void (*call)(const subjects *t);
} row;

#define NO_OPTIONS(type) GW_OPTIONS(type)
#define NO_SIZES ((gw_shape){ 2, NULL })
#define NO_VALUES ((gw_values){ 2, NULL })

// The function fails where its result is waited for.
#define LATE_ROW(f, wait, ...)                                                                     \
    static void null_##f(const subjects *t) {                                                      \
        wait(t->s, (f)(t->s, __VA_ARGS__));                                                        \
    }

#define ROW(f, ...)                                                                                \
    static void null_##f(const subjects *t) {                                                      \
        (void)t;                                                                                   \
        (f)(t->s, __VA_ARGS__);                                                                    \
    }

ROW(gw_cat, NULL, 2, 0)
ROW(gw_stack, NULL, 2, 0)
ROW(gw_backward_roots_with, NULL, 2, NO_OPTIONS(gw_backward_options))
ROW(gw_backward_with, t->x, GW_OPTIONS(gw_backward_options, .input_count = 2))
ROW(gw_tensor_dataset_with, "rows", NULL, 2)
ROW(gw_nn_sequential_with, NULL, 2)
ROW(gw_parameters_with, NULL, 2)
ROW(gw_wait_all, NULL, 2)
ROW(gw_wait_any, NULL, 2)
ROW(gw_collect_all, NULL, 2)
ROW(gw_collect_fail_fast, NULL, 2)
ROW(gw_collect_first, NULL, 2)
ROW(gw_rpc_all_gather_with, NULL, 2, gw_value_of(1))
ROW(gw_rpc_barrier, NULL, 2)
ROW(gw_member_lost, NULL, 2)
ROW(gw_group_open_with, NULL, 2, NO_OPTIONS(gw_group_open_options))
ROW(gw_group_of_with, t->g, NULL, 2, NO_OPTIONS(gw_group_open_options))
ROW(gw_all_reduce_coalesced_with, t->g, NULL, 2, GW_SUM, NO_OPTIONS(gw_collective_options))
ROW(gw_all_reduce_coalesced_async_with, t->g, NULL, 2, GW_SUM, NO_OPTIONS(gw_collective_options))
ROW(gw_broadcast_coalesced_with, t->g, NULL, 2, 0, NO_OPTIONS(gw_collective_options))
ROW(gw_broadcast_coalesced_async_with, t->g, NULL, 2, 0, NO_OPTIONS(gw_collective_options))
ROW(gw_all_gather_coalesced_with, t->g, NULL, 2, NO_OPTIONS(gw_collective_options))
ROW(gw_all_gather_coalesced_async_with, t->g, NULL, 2, NO_OPTIONS(gw_collective_options))
ROW(gw_gather_to_coalesced_with, t->g, NULL, 2, 0, NO_OPTIONS(gw_collective_options))
ROW(gw_gather_to_coalesced_async_with, t->g, NULL, 2, 0, NO_OPTIONS(gw_collective_options))
ROW(gw_reduce_scatter_coalesced_with, t->g, NULL, 2, GW_SUM, NO_OPTIONS(gw_collective_options))
ROW(gw_reduce_scatter_coalesced_async_with, t->g, NULL, 2, GW_SUM,
    NO_OPTIONS(gw_collective_options))
ROW(gw_batch_with, t->g, NULL, 2, NO_OPTIONS(gw_message_options))
ROW(gw_batch_async_with, t->g, NULL, 2, NO_OPTIONS(gw_message_options))
ROW(gw_join_open_with, NULL, 2, NO_OPTIONS(gw_join_options))
ROW(gw_operator_call, gw_operator_find("add"), NULL, 2)
ROW(gw_rpc_sync_with, gw_to_rank(0), "f", NO_VALUES, NO_OPTIONS(gw_call_options))
LATE_ROW(gw_rpc_async_with, gw_wait, gw_to_rank(0), "f", NO_VALUES, NO_OPTIONS(gw_call_options))
LATE_ROW(gw_remote_with, gw_to_here, gw_to_rank(0), "f", NO_VALUES, NO_OPTIONS(gw_call_options))
ROW(gw_rpc_notify_with, gw_to_rank(0), "f", NO_VALUES, NO_OPTIONS(gw_call_options))
ROW(gw_rpc_sync_all_with, gw_to_workers(NULL, 2), "f", GW_NO_ARGS, NO_OPTIONS(gw_call_options))
ROW(gw_rpc_async_all_with, gw_to_workers(NULL, 2), "f", GW_NO_ARGS, NO_OPTIONS(gw_call_options))
ROW(gw_module_call_value_with, t->m, NO_VALUES)
ROW(gw_module_call_value_async_with, t->m, NO_VALUES)
ROW(gw_ddp_open_with, t->m, GW_OPTIONS(gw_ddp_options, .ignore_count = 2))
ROW(gw_multi_step_lr_with, t->opt, GW_OPTIONS(gw_multi_step_lr_options, .milestone_count = 2))
ROW(gw_dataset_open, "rows", 2, NULL, NULL)
ROW(gw_zeros_with, GW_F32, NO_SIZES)
ROW(gw_ones_with, GW_F32, NO_SIZES)
ROW(gw_rand_with, GW_F32, NO_SIZES)
ROW(gw_randn_with, GW_F32, NO_SIZES)
ROW(gw_full_with, GW_F32, gw_value_of(1), NO_SIZES)
ROW(gw_from_with, GW_F32, &(float[4]){ 0 }, NO_SIZES)
ROW(gw_from_blob, GW_F32, &(float[4]){ 0 }, NO_SIZES, NULL, NULL)
ROW(gw_randint_with, GW_I64, 0, 9, NO_SIZES)
ROW(gw_reshape_with, t->x, NO_SIZES)
ROW(gw_view_with, t->x, NO_SIZES)
ROW(gw_expand_with, t->x, NO_SIZES)
ROW(gw_permute_with, t->x, NO_SIZES)
ROW(gw_split_with_sizes, t->x, NO_SIZES, 0)
ROW(gw_layer_norm, t->x, NO_SIZES, NULL, NULL, 1e-5)
ROW(gw_nn_layer_norm_with, NO_SIZES, NO_OPTIONS(gw_nn_layer_norm_options))

#define R(f)                                                                                       \
    { #f, null_##f }
static const row rows[] = {
    R(gw_cat),
    R(gw_stack),
    R(gw_backward_roots_with),
    R(gw_backward_with),
    R(gw_tensor_dataset_with),
    R(gw_nn_sequential_with),
    R(gw_parameters_with),
    R(gw_wait_all),
    R(gw_wait_any),
    R(gw_collect_all),
    R(gw_collect_fail_fast),
    R(gw_collect_first),
    R(gw_rpc_all_gather_with),
    R(gw_rpc_barrier),
    R(gw_member_lost),
    R(gw_group_open_with),
    R(gw_group_of_with),
    R(gw_all_reduce_coalesced_with),
    R(gw_all_reduce_coalesced_async_with),
    R(gw_broadcast_coalesced_with),
    R(gw_broadcast_coalesced_async_with),
    R(gw_all_gather_coalesced_with),
    R(gw_all_gather_coalesced_async_with),
    R(gw_gather_to_coalesced_with),
    R(gw_gather_to_coalesced_async_with),
    R(gw_reduce_scatter_coalesced_with),
    R(gw_reduce_scatter_coalesced_async_with),
    R(gw_batch_with),
    R(gw_batch_async_with),
    R(gw_join_open_with),
    R(gw_operator_call),
    R(gw_rpc_sync_with),
    R(gw_rpc_async_with),
    R(gw_remote_with),
    R(gw_rpc_notify_with),
    R(gw_rpc_sync_all_with),
    R(gw_rpc_async_all_with),
    R(gw_module_call_value_with),
    R(gw_module_call_value_async_with),
    R(gw_ddp_open_with),
    R(gw_multi_step_lr_with),
    R(gw_dataset_open),
    R(gw_zeros_with),
    R(gw_ones_with),
    R(gw_rand_with),
    R(gw_randn_with),
    R(gw_full_with),
    R(gw_from_with),
    R(gw_from_blob),
    R(gw_randint_with),
    R(gw_reshape_with),
    R(gw_view_with),
    R(gw_expand_with),
    R(gw_permute_with),
    R(gw_split_with_sizes),
    R(gw_layer_norm),
    R(gw_nn_layer_norm_with),
};

static void try_row(const row *r) {
    gw_scope *root = gw_scope_open(NULL), *s;
    gw_rpc_init(root, .rank = 0, .world_size = 1);
    subjects t = { .g = gw_group_world(root), .x = gw_ones(root, GW_F32, 2, 2) };
    t.m = gw_nn_linear(root, 2, 2);
    t.opt = gw_sgd(root, gw_parameters(root, t.m));
    if (!gw_ok(root)) _exit(gw_exit_code(gw_scope_close(root)));
    t.s = s = gw_scope_open(root);
    r->call(&t);
    gw_error e = gw_scope_close(s);
    if (e.status == GW_INVALID && e.text[0]) {
        testing_note("%s: %s", r->name, e.text);
        _exit(0);
    }
    fprintf(stderr, "%s: %s: %s\n", r->name, gw_status_name(e.status), e.text);
    _exit(1);
}

static void every_function_refuses_a_null_array_with_a_count(void **state) {
    (void)state;
    int failed = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int status;
        fflush(NULL);
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (!pid) try_row(&rows[i]);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (!status) continue;
        failed++;
        fprintf(stderr, "%s ends with %#x\n", rows[i].name, (unsigned)status);
    }
    assert_int_equal(failed, 0);
}

GW_TESTS(null_arrays, every_function_refuses_a_null_array_with_a_count);
