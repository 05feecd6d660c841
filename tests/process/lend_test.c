// Lent memory between real processes: results, ends at any time, and remaining memory.
#include "agent/state/agent.h"
#include "base/mem.h"
#include "lend/lend.h"
#include "testing/runner.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { NUMBERS = 1 << 20 };  // 4 MiB

GW_FUNCTION(lend_echo, GW_POOL, "tensor") {
    return gw_arg(s, a, 0);
}

GW_FUNCTION(lend_touch, GW_POOL, "tensor") {
    return gw_value_of(gw_add(s, gw_arg_tensor(s, a, 0), 1.0));
}

GW_FUNCTION(lend_die, GW_POOL, "tensor") {
    (void)s;
    (void)a;
    raise(SIGKILL);
    return gw_none();
}

static char url[64];

static void choose_url(void) {
    snprintf(url, sizeof url, "file:///tmp/gradwire-lend-%d", (int)getpid());
}

static gw_scope *join(int rank) {
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root, .name = rank ? "there" : "here", .rank = rank, .world_size = 2,
                .init_method = url);
    return root;
}

// Another worker in a child process, which serves until all leave. 77: |prepare| reports that this system does not
// support it.
static int start_other_as(bool (*prepare)(void)) {
    int child = fork();
    assert_true(child >= 0);
    if (child) return child;
    if (prepare && !prepare()) _exit(77);
    gw_scope *root = join(1);
    gw_rpc_shutdown(root);
    gw_error error = gw_scope_close(root);
    _exit(error.status ? 1 : 0);
}

static int start_other(void) {
    return start_other_as(NULL);
}

static int end_of(int child) {
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static lend_counts counts_of(gw_scope *s) {
    agent *a = agent_of(s);
    env_enter(a->env);
    lend_counts counts = lend_count_on_loop(a);
    env_leave(a->env);
    return counts;
}

static gw_tensor *ramp(gw_scope *s) {
    return gw_arange(s, GW_F32, 0, NUMBERS, 1);
}

// Lines of a file of this process that have |word|.
static int count_lines(const char *path, const char *word) {
    FILE *f = fopen(path, "r");
    char line[512];
    int count = 0;
    while (f && fgets(line, sizeof line, f)) count += strstr(line, word) != NULL;
    if (f) fclose(f);
    return count;
}

static int count_descriptors(void) {
    int count = 0;
    for (int i = 0; i < 1024; i++) {
        char path[64], target[64];
        snprintf(path, sizeof path, "/proc/self/fd/%d", i);
        count += readlink(path, target, sizeof target) >= 0;
    }
    return count;
}

static bool forbid_reading(void) {
    return testing_forbid(SYS_process_vm_readv, EPERM);
}

static bool forbid_descriptors_of_processes(void) {
    return testing_forbid(SYS_pidfd_open, ENOSYS);
}

// ---- Results ------------------------------------------------------------------------------------

static uint64_t play(gw_scope *root, uint64_t *out_bytes) {
    uint64_t hash = 0;
    for (int i = 0; i < 6; i++) {
        gw_scope *s = gw_scope_open(root);
        gw_tensor *x = gw_mul(s, ramp(s), 0.5 + i);
        gw_tensor *y = gw_tensor_of(s, gw_rpc_sync(s, 1, "lend_touch", x));
        gw_tensor *z = gw_tensor_of(s, gw_rpc_sync(s, 1, "lend_echo", y));
        assert_true(gw_equal(s, z, gw_add(s, x, 1.0)));
        gw_fill_(s, x, 0.0);
        hash = hash * 31 + hash_bytes(gw_data(z), NUMBERS * sizeof(float));
        gw_scope_close_up(s);
    }
    *out_bytes = gw_rpc_get_stats(root).bytes_sent;
    return hash;
}

static uint64_t play_with(const char *variable, const char *value, uint64_t *out_bytes) {
    choose_url();
    if (variable) setenv(variable, value, 1);
    int child = start_other();
    gw_scope *root = join(0);
    uint64_t hash = play(root, out_bytes);
    gw_rpc_shutdown(root);
    assert_string_equal(gw_scope_close(root).text, "");
    if (variable) unsetenv(variable);
    assert_int_equal(end_of(child), 0);
    unlink(url + 7);
    return hash;
}

static void results_are_the_same_bit_for_bit(void **state) {
    (void)state;
    uint64_t lent, pulled, sent, sent_by_tcp;
    uint64_t hash = play_with(NULL, NULL, &lent);
    assert_int_equal(play_with("GW_LEND", "0", &sent), hash);
    assert_int_equal(play_with("GW_LEND", "pull", &pulled), hash);
    assert_int_equal(play_with("GW_TRANSPORT", "tcp", &sent_by_tcp), hash);
    assert_true(sent > 6 * NUMBERS * sizeof(float) && sent_by_tcp >= sent / 2);
    assert_true(lent < 3 * NUMBERS * sizeof(float));
    assert_true(pulled < 3 * NUMBERS * sizeof(float));
}

static void an_echo_sends_no_numbers(void **state) {
    (void)state;
    choose_url();
    int child = start_other();
    gw_scope *root = join(0);
    uint64_t ignored;
    play(root, &ignored);
    gw_scope *s = gw_scope_open(root);
    gw_tensor *x = ramp(s);
    gw_rpc_stats before = gw_rpc_get_stats(s);
    gw_peer_stats peer = gw_rpc_get_peer_stats(s, (gw_worker){ .rank = 1 });
    for (int i = 0; i < 10; i++)
        assert_ptr_equal(gw_data(gw_tensor_of(s, gw_rpc_sync(s, 1, "lend_echo", x))), gw_data(x));
    gw_rpc_stats after = gw_rpc_get_stats(s);
    gw_peer_stats peer_after = gw_rpc_get_peer_stats(s, (gw_worker){ .rank = 1 });
    assert_int_equal(peer_after.shared_sent - peer.shared_sent, 10 * NUMBERS * sizeof(float));
    assert_int_equal(peer_after.shared_received, peer.shared_received);  // it is passed back
    assert_true(after.bytes_sent - before.bytes_sent < 10 * 1024);
    assert_true(after.bytes_received - before.bytes_received < 10 * 1024);
    gw_scope_close_up(s);
    gw_rpc_shutdown(root);
    assert_string_equal(gw_scope_close(root).text, "");
    assert_int_equal(end_of(child), 0);
    unlink(url + 7);
}

// The value that the other worker keeps is this worker's tensor.
static void lent_bytes_are_those_that_are_not_returned(void **state) {
    (void)state;
    choose_url();
    int child = start_other();
    gw_scope *root = join(0);
    gw_worker other = { .rank = 1 };
    uint64_t ignored;
    play(root, &ignored);
    gw_scope *s = gw_scope_open(root);
    gw_rref *kept = gw_remote(s, 1, "lend_echo", ramp(s));
    gw_to_here(s, kept);
    if (strstr(gw_rpc_path(s, other), "lent"))
        assert_int_equal(gw_rpc_get_peer_stats(s, other).lent_bytes, NUMBERS * sizeof(float));
    gw_scope_close_up(s);
    while (gw_ok(root) && gw_rpc_get_peer_stats(root, other).lent_bytes)
        gw_rpc_sync(root, 1, "gw.add", gw_ones(root, GW_F32, 1), 1.0);
    gw_rpc_shutdown(root);
    assert_string_equal(gw_scope_close(root).text, "");
    assert_int_equal(end_of(child), 0);
    unlink(url + 7);
}

// ---- Ends ---------------------------------------------------------------------------------------

// A lent tensor keeps its numbers when its lender has ended, and at the end no memory remains.
static void a_lent_tensor_outlives_its_lender(void **state) {
    (void)state;
    choose_url();
    int descriptors = 0;
    for (int round = 0; round < 3; round++) {
        int child = start_other();
        gw_scope *root = join(0);
        uint64_t ignored;
        play(root, &ignored);
        gw_tensor *x = ramp(root);
        gw_tensor *y = gw_tensor_of(root, gw_rpc_sync(root, 1, "lend_touch", x));
        gw_rpc_sync(root, 1, "lend_die", x);
        assert_int_equal(gw_scope_error(root)->status, GW_DISCONNECTED);
        gw_scope_clear(root);
        end_of(child);
        assert_true(gw_equal(root, y, gw_add(root, x, 1.0)));
        gw_fill_(root, y, 2.0);
        assert_true(gw_equal(root, y, gw_full(root, GW_F32, 2.0, NUMBERS)));
        gw_rpc_shutdown(root);
        gw_error error = gw_scope_close(root);
        (void)error;
        assert_int_equal(count_lines("/proc/self/maps", "r--s 00000000"), 0);
        if (round == 0) descriptors = count_descriptors();
        assert_int_equal(count_descriptors(), descriptors);
        unlink(url + 7);
    }
}

static void check_returned_leases(void) {
    choose_url();
    int child = start_other();
    gw_scope *root = join(0);
    uint64_t ignored;
    play(root, &ignored);
    gw_tensor *x = ramp(root);
    gw_rref *kept = gw_remote(root, 1, "lend_echo", x);
    while (!gw_rref_is_confirmed(kept)) gw_rpc_sync(root, 1, "lend_echo", gw_ones(root, GW_F32, 1));
    gw_rpc_sync(root, 1, "lend_echo", gw_ones(root, GW_F32, 1));
    assert_true(counts_of(root).lent_now > 0);
    kill(child, SIGKILL);
    end_of(child);
    gw_scope_set_timeout(root, 10000);
    gw_rpc_sync(root, 1, "lend_echo", x);
    gw_scope_clear(root);
    assert_int_equal(counts_of(root).lent_now, 0);
    // No process can read them any more, so that a write needs no copy, once the message of the failed call is freed.
    const void *numbers;
    do numbers = gw_data(x);
    while (gw_data_for_write(root, x) != numbers);
    gw_rpc_shutdown(root);
    gw_error error = gw_scope_close(root);
    (void)error;
    unlink(url + 7);
}

static void leases_of_a_killed_worker_are_returned(void **state) {
    (void)state;
    check_returned_leases();
}

static void leases_are_returned_without_process_descriptors(void **state) {
    (void)state;
    int child = fork();
    if (child == 0) {
        if (!forbid_descriptors_of_processes()) _exit(TESTING_EXIT_SKIPPED);
        check_returned_leases();
        _exit(0);
    }
    int end = end_of(child);
    if (WEXITSTATUS(end) == TESTING_EXIT_SKIPPED) testing_skip("seccomp is not allowed here");
    assert_int_equal(end, 0);
}

static void results_can_be_read_after_the_job(void **state) {
    (void)state;
    choose_url();
    int child = start_other();
    gw_scope *outer = gw_scope_open(NULL);
    gw_scope *root = join(0);
    uint64_t ignored;
    play(root, &ignored);
    gw_tensor *x = ramp(root);
    gw_tensor *y = gw_tensor_of(root, gw_rpc_sync(root, 1, "lend_touch", x));
    gw_keep(outer, y);
    gw_rpc_shutdown(root);
    assert_int_equal(end_of(child), 0);
    assert_true(gw_equal(root, y, gw_add(root, x, 1.0)));
    assert_string_equal(gw_scope_close(root).text, "");
    assert_true(gw_item(outer, gw_select(outer, y, 0, 41)) == 42);
    assert_string_equal(gw_scope_close(outer).text, "");
    unlink(url + 7);
}

// A child of the lender has a copy of the visible memory, and lends nothing.
static void a_forked_child_writes_to_its_own_memory(void **state) {
    (void)state;
    choose_url();
    int child = start_other();
    gw_scope *root = join(0);
    uint64_t ignored;
    play(root, &ignored);
    gw_tensor *x = ramp(root);
    int own = fork();
    if (own == 0) {
        gw_fill_(root, x, 3.0);
        _exit(gw_item(root, gw_select(root, x, 0, 5)) == 3 ? 0 : 1);
    }
    assert_int_equal(end_of(own), 0);
    assert_true(gw_item(root, gw_select(root, x, 0, 5)) == 5);
    gw_rpc_shutdown(root);
    assert_string_equal(gw_scope_close(root).text, "");
    assert_int_equal(end_of(child), 0);
    unlink(url + 7);
}

// ---- Remote reads -------------------------------------------------------------------------------

enum { OWN_NUMBERS = 4 << 20 };  // 16 MiB

static float *own;

static gw_tensor *own_numbers(gw_scope *s) {
    if (!own) own = malloc(OWN_NUMBERS * sizeof *own);
    for (int i = 0; i < OWN_NUMBERS; i++) own[i] = (float)(i % 4096);
    return gw_from_blob(s, GW_F32, own, GW_SHAPE(OWN_NUMBERS), NULL, NULL);
}

// Returns memory of its own, and is killed so many microseconds later.
GW_FUNCTION(lend_own_and_die, GW_POOL, "int") {
    gw_tensor *x = own_numbers(s);
    struct sigevent end = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL };
    struct itimerspec when = { .it_value.tv_nsec = 1000 * gw_arg_int(s, a, 0) };
    timer_t t;
    timer_create(CLOCK_MONOTONIC, &end, &t);
    timer_settime(t, 0, &when, NULL);
    return gw_value_of(x);
}

static void a_remote_read_is_right_or_an_error(void **state) {
    (void)state;
    choose_url();
    for (int round = 0; round < 8; round++) {
        int child = start_other();
        gw_scope *root = join(0);
        uint64_t ignored;
        play(root, &ignored);
        gw_tensor *x =
            gw_tensor_of(root, gw_rpc_sync(root, 1, "lend_own_and_die", 1 + round * 1000));
        if (gw_ok(root)) assert_true(gw_equal(root, x, own_numbers(root)));
        gw_scope_clear(root);
        end_of(child);
        gw_rpc_shutdown(root);
        gw_error error = gw_scope_close(root);
        (void)error;
        assert_int_equal(count_lines("/proc/self/maps", "r--s 00000000"), 0);
        unlink(url + 7);
    }
    free(own);
    own = NULL;
}

// ---- Reasons not to lend ------------------------------------------------------------------------

// Limits the address space to less than the arena of another worker.
static bool limit_address_space(void) {
    struct rlimit limit = { (rlim_t)8 << 30, (rlim_t)8 << 30 };
    return !setrlimit(RLIMIT_AS, &limit);
}

static bool enter_pid_namespace(void) {
    if (unshare(CLONE_NEWPID)) return false;
    int child = fork();
    if (child == 0) return true;
    int status;
    waitpid(child, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

static bool leave_proc(void) {
    return !unshare(CLONE_NEWNS) && !mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
           !mount("none", "/proc", "tmpfs", 0, NULL);
}

static bool become_another_user(void) {
    return !chmod(url + 7, 0666) && !setresgid(65534, 65534, 65534) &&
           !setresuid(65534, 65534, 65534);
}

static bool turn_off(void) {
    return !setenv("GW_LEND", "0", 1);
}

static bool turn_off_by_transport(void) {
    return !setenv("GW_TRANSPORT", "tcp", 1);
}

typedef struct obstacle {
    bool (*prepare)(void);
    const char *path;  // to it
} obstacle;

static const obstacle obstacles[] = {
    { NULL, "shm; large tensors: lent, or pulled if they are in the program's own memory" },
    { turn_off, "shm; large tensors: sent: turned off there by GW_LEND=0" },
    { turn_off_by_transport, "tcp; large tensors: sent: turned off there by GW_TRANSPORT=tcp; not "
                             "shm: turned off on that worker, by GW_TRANSPORT or its addresses" },
    { forbid_descriptors_of_processes,
      "shm; large tensors: lent, or pulled if they are in the program's own memory" },
    { forbid_reading, "shm; large tensors: lent, or sent if they are in the program's own memory: "
                      "seccomp: process_vm_readv: Operation not permitted" },
    { limit_address_space, "; large tensors: pulled, not lent: its memory of " },
    { enter_pid_namespace, "; large tensors: sent: it is in another pid namespace" },
    { leave_proc, "tcp; large tensors: sent: there is no /proc" },
    { become_another_user,
      "tcp; large tensors: sent, not lent: its memory cannot be opened: its process belongs to "
      "user 0; not pulled: its memory cannot be read: its process belongs to user 0; not shm: " },
};

// Whatever prevents lending, results are right, and the log names the reason.
static void the_log_names_what_prevents_lending(void **state) {
    (void)state;
    uint64_t bytes, hash = 0;
    for (size_t i = 0; i < sizeof obstacles / sizeof *obstacles; i++) {
        const obstacle *x = &obstacles[i];
        // A sanitizer needs more addresses than remain then.
        if (!MEM_CACHED && x->prepare == limit_address_space) continue;
        choose_url();
        int file = open(url + 7, O_CREAT | O_RDWR, 0666);
        close(file);
        int child = start_other_as(x->prepare);
        gw_scope *root = join(0);
        uint64_t now = play(root, &bytes);
        if (!hash) hash = now;
        if (gw_ok(root)) assert_int_equal(now, hash);
        const char *path = gw_rpc_path(root, gw_rpc_worker(root, 1));
        if (!strstr(path, x->path)) fail_msg("\"%s\", not \"%s\"", path, x->path);
        gw_rpc_shutdown(root);
        assert_string_equal(gw_scope_close(root).text, "");
        assert_int_equal(end_of(child), 0);
        unlink(url + 7);
    }
}

GW_TESTS(lend, results_are_the_same_bit_for_bit, an_echo_sends_no_numbers,
         lent_bytes_are_those_that_are_not_returned, a_lent_tensor_outlives_its_lender,
         leases_of_a_killed_worker_are_returned, leases_are_returned_without_process_descriptors,
         results_can_be_read_after_the_job, a_forked_child_writes_to_its_own_memory,
         a_remote_read_is_right_or_an_error, the_log_names_what_prevents_lending);
