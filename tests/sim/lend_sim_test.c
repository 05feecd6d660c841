// Lent memory in the simulator: which numbers are copied, that no worker reads another's writes, and that leases are
// returned whatever happens to their holders.
#include "agent/state/agent.h"
#include "base/mem.h"
#include "base/log.h"
#include "call/protocol.h"
#include "lend/lending.h"
#include "testing/cluster.h"
#include "testing/runner.h"
#include "testing/testing.h"

#include <errno.h>
#include <gradwire.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROWS = 300, COLUMNS = 1024 };  // 1.2 MB

// Writes to the same memory, if nothing else uses it.
static void overwrite(gw_scope *s, gw_tensor *x, float value) {
    float *numbers = gw_data_for_write(s, x);
    for (int i = 0; i < ROWS * COLUMNS; i++) numbers[i] = value;
}

GW_FUNCTION(lend_same, GW_POOL, "tensor") {
    return gw_arg(s, a, 0);
}

GW_FUNCTION(lend_part, GW_POOL, "tensor") {
    return gw_value_of(gw_slice(s, gw_arg_tensor(s, a, 0), 0, 100, 250, 1));
}

GW_FUNCTION(lend_add_one, GW_POOL, "tensor") {
    return gw_value_of(gw_add(s, gw_arg_tensor(s, a, 0), 1.0));
}

// Overwrites its argument, which is its own.
GW_FUNCTION(lend_overwrite, GW_POOL, "tensor") {
    gw_tensor *x = gw_arg_tensor(s, a, 0);
    overwrite(s, x, 7);
    return gw_value_of(x);
}

GW_FUNCTION(lend_nothing, GW_POOL) {
    (void)s;
    (void)a;
    return gw_none();
}

static lend_counts counts_of(gw_scope *s) {
    agent *a = agent_of(s);
    env_enter(a->env);
    lend_counts counts = lend_count_on_loop(a);
    env_leave(a->env);
    return counts;
}

static gw_tensor *large(gw_scope *s, double first) {
    return gw_add(s, gw_reshape(s, gw_arange(s, GW_F32, 0, ROWS * COLUMNS, 1), ROWS, COLUMNS),
                  first);
}

static gw_tensor *call(gw_scope *s, const char *function, gw_tensor *x) {
    return gw_tensor_of(s, gw_rpc_sync(s, 1, function, x));
}

// Both directions are offered with the first message that could be lent.
static void warm_up(gw_scope *root) {
    for (int i = 0; i < 3; i++) {
        gw_scope *s = gw_scope_open(root);
        call(s, "lend_add_one", large(s, 0));
        gw_scope_close_up(s);
    }
    assert_string_equal(gw_scope_error(root)->text, "");
}

static void await_returns(gw_scope *root) {
    for (int i = 0; i < 1000 && counts_of(root).lent_now; i++) gw_rpc_sync(root, 1, "lend_nothing");
    assert_int_equal(counts_of(root).lent_now, 0);
}

static void run(cluster_main *main) {
    cluster_run(1, (cluster_options){ .world_size = 2 }, main, NULL);
}

// ---- Copies -------------------------------------------------------------------------------------

static void send_there_and_back(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    warm_up(root);
    gw_scope *s = gw_scope_open(root);
    gw_tensor *x = large(s, 5);
    lend_counts before = counts_of(s);
    uint64_t bytes = gw_rpc_get_stats(s).bytes_sent + gw_rpc_get_stats(s).bytes_received;
    gw_tensor *y = call(s, "lend_same", x);
    bytes = gw_rpc_get_stats(s).bytes_sent + gw_rpc_get_stats(s).bytes_received - bytes;
    assert_int_equal(counts_of(s).lent, before.lent + 1);
    assert_int_equal(counts_of(s).own_returned, before.own_returned + 1);
    assert_ptr_equal(gw_data(y), gw_data(x));
    assert_true(bytes < 1024);
    gw_tensor *part = call(s, "lend_part", x);
    assert_ptr_equal(gw_data(part), (const float *)gw_data(x) + 100 * COLUMNS);
    assert_true(gw_equal(s, part, gw_slice(s, x, 0, 100, 250, 1)));
    gw_scope_close_up(s);
    await_returns(root);
}

static void a_returned_tensor_is_not_copied(void **state) {
    (void)state;
    run(send_there_and_back);
}

static void send_older_memory(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_tensor *x = large(root, 3), *copy = gw_clone(root, x);
    const void *at = gw_data(x);
    for (int i = 0; i < 4; i++) {
        gw_scope *s = gw_scope_open(root);
        assert_true(gw_equal(s, call(s, "lend_add_one", x), gw_add(s, copy, 1.0)));
        gw_scope_close_up(s);
    }
    if (MEM_CACHED) assert_true(counts_of(root).lent > 0);
    assert_ptr_equal(gw_data(x), at);
    assert_true(gw_equal(root, x, copy));
}

static void memory_older_than_the_offer_moves_under_its_address(void **state) {
    (void)state;
    run(send_older_memory);
}

static void call_without(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    warm_up(root);
    assert_int_equal(counts_of(root).lent, 0);
    agent *a = agent_of(root);
    env_enter(a->env);
    char text[LEND_DESCRIPTION_BYTES];
    assert_string_equal(lend_describe_on_loop(a, 1, text), "sent: turned off here by GW_LEND=0");
    env_leave(a->env);
}

static void it_can_be_turned_off(void **state) {
    (void)state;
    setenv("GW_LEND", "0", 1);
    run(call_without);
    unsetenv("GW_LEND");
}

// ---- Visibility of writes -----------------------------------------------------------------------

static void write_on_both_sides(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    warm_up(root);
    gw_scope *s = gw_scope_open(root);
    gw_tensor *x = large(s, 1), *copy = gw_clone(s, x);
    gw_rref *kept = gw_remote(s, 1, "lend_same", x);
    assert_true(gw_equal(s, gw_to_here(s, kept), copy));
    overwrite(s, x, 2.0);  // while it is lent
    assert_true(gw_equal(s, gw_to_here(s, kept), copy));
    gw_tensor *y = call(s, "lend_overwrite", x);
    assert_true(gw_equal(s, y, gw_full(s, GW_F32, 7.0, ROWS, COLUMNS)));
    assert_true(gw_equal(s, x, gw_full(s, GW_F32, 2.0, ROWS, COLUMNS)));
    gw_tensor *same = call(s, "lend_same", x);
    overwrite(s, same, 3.0);
    assert_true(gw_equal(s, x, gw_full(s, GW_F32, 2.0, ROWS, COLUMNS)));
    same = call(s, "lend_same", x);
    overwrite(s, x, 4.0);
    assert_true(gw_equal(s, same, gw_full(s, GW_F32, 2.0, ROWS, COLUMNS)));
    gw_scope_close_up(s);
    await_returns(root);
}

static void a_write_does_not_change_the_lent_copy(void **state) {
    (void)state;
    run(write_on_both_sides);
}

// After the leases are returned both tensors have one block, and nothing else pins it.
static void write_after_returning(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    warm_up(root);
    gw_tensor *x = large(root, 1), *copy = gw_clone(root, x);
    gw_tensor *same = call(root, "lend_same", x);
    await_returns(root);
    overwrite(root, x, 2.0);
    assert_true(gw_equal(root, same, copy));
    overwrite(root, same, 3.0);
    assert_true(gw_equal(root, x, gw_full(root, GW_F32, 2.0, ROWS, COLUMNS)));
}

static void a_write_after_the_lease_does_not_change_the_copy(void **state) {
    (void)state;
    run(write_after_returning);
}

static void send_integers(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    warm_up(root);
    gw_tensor *x = gw_reshape(root, gw_arange(root, GW_I64, 0, ROWS * COLUMNS, 1), ROWS, COLUMNS);
    gw_tensor *bools = gw_gt(root, gw_to_dtype(root, x, GW_F32), 1000.0);
    for (int i = 0; i < 2; i++) {
        assert_true(gw_equal(root, call(root, "lend_same", x), x));
        assert_true(gw_equal(root, call(root, "lend_same", bools), bools));
    }
    await_returns(root);
}

static void numbers_of_every_dtype_can_be_lent(void **state) {
    (void)state;
    run(send_integers);
}

// ---- Remote reads -------------------------------------------------------------------------------

static int ended_count;

static void count_end(void *context) {
    (void)context;
    ended_count++;
}

// Numbers in memory of the program's own.
static gw_tensor *own_numbers(gw_scope *s, float *numbers, float first) {
    for (int i = 0; i < ROWS * COLUMNS; i++) numbers[i] = first + (float)(i % 1000);
    return gw_from_blob(s, GW_F32, numbers, GW_SHAPE(ROWS, COLUMNS), count_end, NULL);
}

static void send_own_memory(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    warm_up(root);
    ended_count = 0;
    float *numbers = malloc(ROWS * COLUMNS * sizeof *numbers);
    gw_scope *s = gw_scope_open(root);
    gw_tensor *x = own_numbers(s, numbers, 3), *copy = gw_clone(s, x);
    uint64_t bytes = gw_rpc_get_stats(s).bytes_sent;
    assert_true(gw_equal(s, call(s, "lend_add_one", x), gw_add(s, copy, 1.0)));
    assert_true(gw_equal(s, call(s, "lend_same", x), copy));
    assert_true(gw_rpc_get_stats(s).bytes_sent - bytes < 2048);
    assert_true(gw_equal(s, call(s, "lend_overwrite", x), gw_full(s, GW_F32, 7.0, ROWS, COLUMNS)));
    assert_true(gw_equal(s, x, copy));
    gw_future *sent = gw_rpc_async(s, 1, "lend_same", x);
    overwrite(s, x, 5);
    assert_true(gw_equal(s, gw_tensor_of(s, gw_wait(s, sent)), copy));
    gw_drop(s, x);
    await_returns(s);
    assert_int_equal(ended_count, 1);
    gw_scope_close_up(s);
    free(numbers);
}

static void memory_of_the_program_is_read_remotely(void **state) {
    (void)state;
    run(send_own_memory);
}

static void expect_remote_reads(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    warm_up(root);
    gw_scope *s = gw_scope_open(root);
    gw_tensor *x = large(s, 5);
    uint64_t bytes = gw_rpc_get_stats(s).bytes_sent + gw_rpc_get_stats(s).bytes_received;
    uint64_t pulled = counts_of(s).read;
    assert_true(gw_equal(s, call(s, "lend_same", x), x));
    assert_true(gw_equal(s, call(s, "lend_add_one", x), gw_add(s, x, 1.0)));
    assert_int_equal(counts_of(s).read, pulled + 2);
    bytes = gw_rpc_get_stats(s).bytes_sent + gw_rpc_get_stats(s).bytes_received - bytes;
    assert_true(bytes < 2048);
    gw_scope_close_up(s);
    await_returns(root);
}

static void run_with_remote_reads(cluster_main *main) {
    setenv("GW_LEND", "pull", 1);
    run(main);
    unsetenv("GW_LEND");
}

static void unmappable_memory_is_read_remotely(void **state) {
    (void)state;
    run_with_remote_reads(expect_remote_reads);
}

static void numbers_of_every_dtype_can_be_read_remotely(void **state) {
    (void)state;
    run_with_remote_reads(send_integers);
}

static void a_write_does_not_change_a_remotely_read_copy(void **state) {
    (void)state;
    run_with_remote_reads(write_on_both_sides);
}

static bool could_not_read;

static void send_unmapped_memory(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    warm_up(root);
    could_not_read = !(lend_peer_of(agent_of(root), 1)->ways & 1u << WAY_READ);
    if (could_not_read) return;  // it would be sent, and sending unmapped memory crashes
    size_t size = ROWS * COLUMNS * sizeof(float);
    void *gone = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(gone, size);
    gw_tensor *x = gw_from_blob(root, GW_F32, gone, GW_SHAPE(ROWS, COLUMNS), NULL, NULL);
    gw_rpc_sync(root, 1, "lend_same", x);
    assert_non_null(strstr(gw_scope_error(root)->text, "w0: could not read 1228800 bytes"));
    gw_scope_clear(root);
    gw_drop(root, x);
    float *numbers = malloc(size);
    x = own_numbers(root, numbers, 1);
    uint64_t pulled = counts_of(root).lent;
    assert_true(gw_equal(root, call(root, "lend_add_one", x), gw_add(root, x, 1.0)));
    assert_true(counts_of(root).lent > pulled);
    gw_drop(root, x);
    await_returns(root);
    free(numbers);
}

static void a_call_with_unreadable_memory_fails_alone(void **state) {
    (void)state;
    run(send_unmapped_memory);
    if (could_not_read)
        testing_skip("the kernel does not allow reading memory of other processes here");
}

// Kernels before 5.3, and filters with a list of allowed system calls.
static void unreadable_memory_without_process_descriptors_fails_alone(void **state) {
    (void)state;
    int child = fork();
    if (child == 0) {
        if (!testing_forbid(SYS_pidfd_open, EPERM)) _exit(TESTING_EXIT_SKIPPED);
        run(send_unmapped_memory);
        _exit(could_not_read);
    }
    int status;
    waitpid(child, &status, 0);
    if (WEXITSTATUS(status) == TESTING_EXIT_SKIPPED) testing_skip("seccomp is not allowed here");
    assert_int_equal(status, 0);
}

enum { LARGE_ROWS = 20000 };  // 80 MB: of several turns

static int received[8], received_count;

GW_FUNCTION(lend_receive, GW_INLINE, "int") {
    received[received_count++] = gw_arg_int(s, a, 0);
    return gw_none();
}

GW_FUNCTION(lend_receive_large, GW_INLINE, "int, tensor") {
    received[received_count++] = gw_arg_int(s, a, 0);
    return gw_value_of(gw_sum(s, gw_arg_tensor(s, a, 1)));
}

static void call_after_a_remote_read(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    warm_up(root);
    received_count = 0;
    gw_tensor *x = gw_ones(root, GW_F32, LARGE_ROWS, COLUMNS);
    gw_future *first = gw_rpc_async(root, 1, "lend_receive", 1);
    gw_future *second = gw_rpc_async(root, 1, "lend_receive_large", 2, x);
    gw_future *third = gw_rpc_async(root, 1, "lend_receive", 3);
    assert_true(gw_item(root, gw_tensor_of(root, gw_wait(root, second))) == LARGE_ROWS * COLUMNS);
    gw_wait(root, first);
    gw_wait(root, third);
    for (int i = 0; i < 3; i++) assert_int_equal(received[i], i + 1);
    await_returns(root);
}

static void calls_after_a_remote_read_keep_their_order(void **state) {
    (void)state;
    run_with_remote_reads(call_after_a_remote_read);
}

static lending *lending_at(gw_scope *s) {
    return lending_of(agent_of(s));
}

// As a lender that ends: its memory is invalid then.
static void call_without_a_tag(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    warm_up(root);
    gw_tensor *x = large(root, 5);
    assert_true(gw_equal(root, call(root, "lend_add_one", x), gw_add(root, x, 1.0)));
    process_tag_close(lending_at(root)->tag);
    gw_rpc_sync(root, 1, "lend_add_one", x);
    assert_non_null(strstr(gw_scope_error(root)->text, "its memory is gone"));
    gw_scope_clear(root);
    // From now on the numbers are sent.
    uint64_t bytes = gw_rpc_get_stats(root).bytes_sent;
    assert_true(gw_equal(root, call(root, "lend_add_one", x), gw_add(root, x, 1.0)));
    assert_true(gw_rpc_get_stats(root).bytes_sent - bytes > ROWS * COLUMNS * sizeof(float));
    await_returns(root);
}

static void read_without_a_tag_with_seed(uint64_t seed, void *context) {
    (void)seed;
    (void)context;
    run_with_remote_reads(call_without_a_tag);
}

static void memory_read_without_a_process_tag_is_not_used(void **state) {
    (void)state;
    testing_for_seeds(1, read_without_a_tag_with_seed, NULL);
}

// ---- Ends ---------------------------------------------------------------------------------------

// Three workers lend to each other under faults. Received numbers must be right.
static void exchange(gw_scope *root, int rank, void *context) {
    (void)context;
    for (int i = 0; i < 6; i++) {
        gw_scope *s = gw_scope_open(root);
        gw_tensor *x = large(s, rank * 100 + i), *expected = gw_add(s, x, 1.0);
        int to = (rank + 1 + i % 2) % 3;
        gw_future *f = gw_rpc_async(s, to, i % 3 ? "lend_add_one" : "lend_same", x);
        gw_rref *kept = gw_remote(s, (to + 1) % 3, "lend_same", x);
        gw_tensor *copy = gw_clone(s, x);
        overwrite(s, x, -1.0);
        gw_tensor *y = gw_tensor_of(s, gw_wait(s, f));
        if (gw_ok(s)) assert_true(gw_equal(s, y, i % 3 ? expected : copy));
        gw_scope_clear(s);
        gw_tensor *z = gw_to_here(s, kept);
        if (gw_ok(s)) assert_true(gw_equal(s, z, copy));
        gw_scope_clear(s);
        gw_scope_close_up(s);
    }
    gw_scope_clear(root);
}

static void exchange_quietly(uint64_t seed, void *context) {
    (void)context;
    size_t live = mem_live_count();
    sim_options network = sim_varied(seed, 500);
    // Numbers that are not lent are sent within the 30 s that shutdown waits.
    if (network.window_bytes < 64 * 1024) network.window_bytes = 64 * 1024;
    cluster_outcome o =
        cluster_run(seed, (cluster_options){ .world_size = 3, .network = network }, exchange, NULL);
    assert_int_equal(mem_live_count(), live);
    for (int rank = 0; rank < 3; rank++) assert_string_equal(o.errors[rank].text, "");
}

static void it_survives_connections_that_break(void **state) {
    (void)state;
    testing_for_seeds(4, exchange_quietly, NULL);
    setenv("GW_LEND", "pull", 1);
    testing_for_seeds(4, exchange_quietly, NULL);
    unsetenv("GW_LEND");
}

static void exchange_with_faults(uint64_t seed, void *context) {
    (void)context;
    cluster_run(seed,
                (cluster_options){ .world_size = 3,
                                   .timeout_ms = 20000,
                                   .network = sim_varied(seed, 200),
                                   .fails = true,
                                   .faults = { .nodes = 3,
                                               .until_ns = SIM_SECOND,
                                               .crashes = 1,
                                               .stops = 1,
                                               .partitions = 1,
                                               .cuts = 2 } },
                exchange, NULL);
}

static void it_survives_workers_that_end_or_stop(void **state) {
    (void)state;
    testing_for_seeds(8, exchange_with_faults, NULL);
    setenv("GW_LEND", "pull", 1);
    testing_for_seeds(8, exchange_with_faults, NULL);
    unsetenv("GW_LEND");
}

static void keep_of_one_that_leaves(gw_scope *root, int rank, void *context) {
    (void)context;
    gw_tensor *x = large(root, rank);
    if (rank == 0) {
        warm_up(root);
        gw_tensor *y = call(root, "lend_add_one", x);
        gw_rpc_shutdown(root);
        assert_true(gw_equal(root, y, gw_add(root, x, 1.0)));
    }
}

static void a_lent_tensor_outlives_the_job(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 2, .leaves = { true } },
                keep_of_one_that_leaves, NULL);
}

// ---- Invalid messages of a peer -----------------------------------------------------------------

typedef struct lie {
    const char *text;
    uint8_t kind;
    uint64_t lease, at, size;
} lie;

static const lie lies[] = {
    { "lent tensor: segment 0 is empty", 1, 9, 1 << 21, 0 },
    { "lent tensor: segment 0 has 4294967297 bytes, at most 4 GiB", 1, 9, 1 << 21, 4294967297 },
    { "malformed lent tensor: unknown kind 9", 9, 9, 1 << 21, 4 },
    { "lent tensor: invalid place: 4 bytes at 0 of an arena", 1, 9, 0, 4 },
    { "lent tensor: invalid place: 8 bytes at 18446744073709551612 of an arena", 1, 9,
      UINT64_MAX - 3, 8 },
    { "lent tensor: lease 77 does not exist", 2, 77, 0, 4 },
    { "lent tensor: segment 0 is empty", 3, 9, 1 << 21, 0 },
    { "lent tensor: invalid place in the memory of the sender: 8 bytes at 18446744073709551612", 3,
      9, UINT64_MAX - 3, 8 },
    { "lent tensor: segment 0 has 4294967297 bytes, at most 4 GiB", 3, 9, 1 << 21, 4294967297 },
};

static gw_status read_entry(agent *a, const uint8_t *entry, size_t size, gw_error *error) {
    gw_handle *taken = NULL;
    reader r = reader_of(entry, size);
    env_enter(a->env);
    gw_status status = lend_attachment.read(a, 0, &r, &taken, error);
    env_leave(a->env);
    handle_release(taken);
    return status;
}

// Runs on the worker that maps or reads.
GW_FUNCTION(lend_receive_invalid, GW_POOL) {
    (void)a;
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        const lie *x = &lies[i];
        bytes entry = { 0 };
        gw_error error;
        bytes_put_u32(&entry, 0);
        bytes_put_u8(&entry, x->kind);
        bytes_put_u64(&entry, x->lease);
        bytes_put_u64(&entry, x->at);
        bytes_put_u64(&entry, x->size);
        assert_int_not_equal(read_entry(agent_of(s), entry.data, entry.size, &error), GW_OK);
        assert_int_equal(strncmp(error.text, x->text, strlen(x->text)), 0);
        for (size_t cut = 0; cut < entry.size; cut++)
            assert_int_equal(read_entry(agent_of(s), entry.data, cut, &error), GW_PROTOCOL);
        bytes_fini(&entry);
    }
    return gw_none();
}

static void send_invalid_offsets(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    warm_up(root);
    gw_rpc_sync(root, 1, "lend_receive_invalid");
}

static void it_names_the_error_of_an_offset(void **state) {
    (void)state;
    run(send_invalid_offsets);
}

static char lines[2048];

static void keep_line(const char *line) {
    size_t at = strlen(lines);
    snprintf(lines + at, sizeof lines - at, "%s\n", line);
}

typedef struct false_message {
    const char *text;
    uint8_t kind;
    uint8_t head[32];
    size_t size;
} false_message;

static const false_message false_messages[] = {
    { "malformed offer to lend", LEND_KIND_OFFER, { 1 }, 32 },
    { "an answer to an offer to lend that this worker has not made", LEND_KIND_ANSWER, { 0 }, 14 },
    { "malformed answer to an offer to lend", LEND_KIND_ANSWER, { 2 }, 14 },
    { "malformed answer to an offer to lend", LEND_KIND_ANSWER, { 0, 2 }, 14 },
    { "malformed return of leases: lease 1 does not exist",
      LEND_KIND_RETURNS,
      { 1, 0, 0, 0, 1 },
      12 },
    { "malformed return of leases: 2 leases in 8 bytes", LEND_KIND_RETURNS, { 2, 0, 0, 0, 1 }, 12 },
    { "malformed recall", LEND_KIND_RECALL, { 0 }, 7 },
};

static void send_invalid_message(gw_scope *root, int rank, void *context) {
    const false_message *x = context;
    if (rank != 1) return;
    agent *a = agent_of(root);
    message *m = message_open(x->kind);
    bytes_put(&m->head, x->head, x->size);
    env_enter(a->env);
    agent_send_on_loop(a, 0, m, true, NULL);
    env_leave(a->env);
}

static void it_loses_a_peer_with_an_invalid_message(void **state) {
    (void)state;
    log_hook = keep_line;
    for (size_t i = 0; i < sizeof false_messages / sizeof *false_messages; i++) {
        const false_message *x = &false_messages[i];
        lines[0] = 0;
        cluster_run(1, (cluster_options){ .world_size = 2, .fails = true }, send_invalid_message,
                    (void *)(uintptr_t)x);
        testing_note("%s: %s", x->text, lines);
        assert_non_null(strstr(lines, x->text));
    }
    log_hook = NULL;
}

// ---- Invalid lent segments ----------------------------------------------------------------------

typedef enum carrier { BY_REQUEST, BY_REPLY } carrier;

typedef struct false_segment {
    const lie *lie;
    carrier carrier;
} false_segment;

// A valid message, except the lent segment in its table.
static message *carry(const false_segment *x) {
    message *m = message_open(x->carrier == BY_REQUEST ? KIND_REQUEST : KIND_REPLY);
    request_fixed request = { .call = 1000, .depth = 1 };
    reply_fixed reply = { .id = 1000 };  // of no call
    if (x->carrier == BY_REQUEST) {
        request_write(&m->head, &request, "lend_nothing", NULL, 0);
    } else {
        reply_write(&m->head, &reply);
        bytes_put_u8(&m->head, GW_NONE);
    }
    uint32_t at = (uint32_t)m->head.size;
    size_t field =
        x->carrier == BY_REQUEST ? REQUEST_ATTACHMENTS_FIELD : (size_t)REPLY_ATTACHMENTS_FIELD;
    memcpy(m->head.data + field, &at, sizeof at);
    bytes_put_u32(&m->head, 1);
    bytes_put_u8(&m->head, LEND_ATTACHMENT);
    bytes_put_u32(&m->head, 0);
    bytes_put_u8(&m->head, x->lie->kind);
    bytes_put_u64(&m->head, x->lie->lease);
    bytes_put_u64(&m->head, x->lie->at);
    bytes_put_u64(&m->head, x->lie->size);
    return m;
}

static void lend_invalid_segment(gw_scope *root, int rank, void *context) {
    if (rank != 0) return;
    warm_up(root);
    agent *a = agent_of(root);
    env_enter(a->env);
    agent_send_on_loop(a, 1, carry(context), true, NULL);
    env_leave(a->env);
    // The sender is lost, and so are its calls.
    gw_rpc_sync(root, 1, "lend_nothing");
    assert_int_equal(gw_scope_error(root)->status, GW_DISCONNECTED);
}

static void it_loses_a_peer_with_an_invalid_segment(void **state) {
    (void)state;
    log_hook = keep_line;
    for (size_t i = 0; i < 2 * sizeof lies / sizeof *lies; i++) {
        false_segment x = { .lie = &lies[i / 2], .carrier = i % 2 ? BY_REPLY : BY_REQUEST };
        char text[160];
        snprintf(text, sizeof text, "w0 (rank 0) broke the protocol: %s", x.lie->text);
        lines[0] = 0;
        cluster_run(1, (cluster_options){ .world_size = 2, .fails = true }, lend_invalid_segment,
                    &x);
        testing_note("%s: %s", text, lines);
        assert_non_null(strstr(lines, text));
    }
    log_hook = NULL;
}

// The returned answer crosses later messages that used the memory.
static void read_after_the_end(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    warm_up(root);
    gw_tensor *x = large(root, 5);
    process_tag_close(lending_at(root)->tag);
    gw_future *calls[3];
    for (int i = 0; i < 3; i++) calls[i] = gw_rpc_async(root, 1, "lend_add_one", x);
    for (int i = 0; i < 3; i++) {
        gw_wait(root, calls[i]);
        assert_int_equal(gw_scope_error(root)->status, GW_SYSTEM);
        gw_scope_clear(root);
    }
    assert_true(gw_equal(root, call(root, "lend_add_one", x), gw_add(root, x, 1.0)));
    await_returns(root);
}

static void no_worker_is_lost_when_memory_was_freed(void **state) {
    (void)state;
    run_with_remote_reads(read_after_the_end);
}

GW_TESTS(lend_sim, a_returned_tensor_is_not_copied,
         memory_older_than_the_offer_moves_under_its_address, it_can_be_turned_off,
         a_write_does_not_change_the_lent_copy, a_write_after_the_lease_does_not_change_the_copy,
         numbers_of_every_dtype_can_be_lent, memory_of_the_program_is_read_remotely,
         a_call_with_unreadable_memory_fails_alone,
         unreadable_memory_without_process_descriptors_fails_alone,
         unmappable_memory_is_read_remotely, numbers_of_every_dtype_can_be_read_remotely,
         a_write_does_not_change_a_remotely_read_copy, calls_after_a_remote_read_keep_their_order,
         memory_read_without_a_process_tag_is_not_used, it_survives_connections_that_break,
         it_survives_workers_that_end_or_stop, a_lent_tensor_outlives_the_job,
         it_names_the_error_of_an_offset, it_loses_a_peer_with_an_invalid_message,
         it_loses_a_peer_with_an_invalid_segment, no_worker_is_lost_when_memory_was_freed);
