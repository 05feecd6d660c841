// Errors of groups and what closed scopes keep, in the simulator: mismatches that a sender gets by its next call,
// invalid statuses and names, timeouts of messages, memory of dropped values, closed groups.
#include "base/check.h"
#include "base/mem.h"
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

// ---- Mismatches ---------------------------------------------------------------------------------

typedef struct difference {
    int members;
    int64_t numbers;
    uint64_t key;
    bool with_barriers;  // odd members call a barrier instead of the broadcast
} difference;

static bool has_mismatch(gw_scope *s, const char *part) {
    if (gw_ok(s)) return false;
    const gw_error *e = gw_scope_error(s);
    if (e->status != GW_MISMATCH || !strstr(e->text, part)) fail_msg("%s", e->text);
    gw_scope_clear(s);
    return true;
}

// A call of a member that only sends may succeed; then its next call fails, on all members: GRP-24.
static void name_own_root(gw_scope *s, int rank, void *context) {
    const difference *d = context;
    gw_group *g = gw_group_world(s, .timeout_ms = 60000);
    gw_barrier(s, g, .key = d->key);
    if (d->with_barriers && rank % 2)
        gw_barrier(s, g, .key = d->key);
    else
        gw_broadcast(s, g, gw_full(s, GW_F32, rank, d->numbers), rank, .key = d->key);
    bool reported = has_mismatch(s, "broadcast");
    gw_barrier(s, g, .key = d->key);
    reported = has_mismatch(s, "broadcast") || reported;
    if (!reported) fail_msg("w%d of %d has no error", rank, d->members);
    gw_barrier(s, g, .key = d->key);
    if (!gw_ok(s)) fail_msg("w%d cannot continue: %s", rank, gw_scope_error(s)->text);
}

static void differ_with_seed(uint64_t seed, void *context) {
    (void)context;
    static const int members[] = { 2, 3, 5, 8 };
    difference d = { .members = members[seed % 4],
                     .numbers = seed / 4 % 4 ? 4 : 40000,
                     .key = seed / 16 % 3 ? 0 : 7,
                     .with_barriers = seed / 48 % 4 == 0 };
    cluster_run(seed, (cluster_options){ .world_size = d.members, .network = sim_varied(seed, 0) },
                name_own_root, &d);
}

static void a_member_that_only_sends_gets_the_mismatch_by_its_next_call(void **state) {
    (void)state;
    testing_for_seeds(120, differ_with_seed, NULL);
}

// ---- Invalid statuses and names -----------------------------------------------------------------

static void expect(gw_scope *s, gw_status status, const char *part) {
    const gw_error *e = gw_scope_error(s);
    if (e->status != status || !strstr(e->text, part))
        fail_msg("\"%s\" (%d) instead of \"%s\"", e->text, e->status, part);
    gw_scope_clear(s);
}

GW_FUNCTION(group_errors_fail, GW_INLINE) {
    (void)a;
    gw_fail(s, (gw_status)12345, "odd");
    return gw_none();
}

GW_FUNCTION(group_errors_fail_later, GW_INLINE) {
    (void)a;
    gw_future *f = gw_future_open(s);
    gw_future_fail(s, f, (gw_status)-3, "odd");
    return gw_value_of(f);
}

static const char invalid[] = "12345 is not the status of an error: odd";

static void use_invalid_statuses(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s);
    if (!rank) gw_fail(s, (gw_status)12345, "odd");
    gw_barrier(s, g);
    expect(s, GW_INVALID, invalid);
    gw_rpc_sync(s, rank ? "w0" : "w1", "group_errors_fail");
    expect(s, GW_INVALID, invalid);
    gw_rpc_sync(s, rank ? "w0" : "w1", "group_errors_fail_later");
    expect(s, GW_INVALID, "-3 is not the status of an error: odd");
    gw_error none = { 0 }, wrong = { .status = GW_STATUS_COUNT };
    gw_rpc_sync(s, rank ? "w0" : "w1", "group_errors_fail_later", &none);
    expect(s, GW_INVALID, "an error with status 0");
    gw_all_gather_value(s, g, gw_value_of(&wrong));
    expect(s, GW_INVALID, "an error with status ");
    gw_group_fail(s, g, (gw_status)12345, "odd");
    expect(s, GW_INVALID, "gw_group_fail: 12345 is not the status of an error");
    gw_group_fail(s, g, GW_OK, "odd");
    expect(s, GW_INVALID, "gw_group_fail: 0 is not the status of an error");
    gw_group_fail(s, NULL, GW_INVALID, "odd");
    expect(s, GW_INVALID, "gw_group_fail: the group is NULL");
    gw_barrier(s, gw_group_world(s));
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
}

static void invalid_statuses_end_no_worker(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++)
        cluster_run(seed, (cluster_options){ .world_size = 2 }, use_invalid_statuses, NULL);
}

static void time_out_on_messages(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s, .name = "pair");
    if (rank == 0) {
        gw_recv(s, g, 1, .tag = 7, .timeout_ms = 100);
        expect(s, GW_TIMEOUT,
               "gw_recv from w1 of group \"pair\", tag 7: has not ended before the deadline");
        gw_recv_any(s, g, NULL, .timeout_ms = 100);
        expect(s, GW_TIMEOUT, "gw_recv_any from any member of group \"pair\", tag 0");
        gw_send(s, g, gw_ones(s, GW_F32), 1, .timeout_ms = 100);
        expect(s, GW_TIMEOUT, "gw_send to w1 of group \"pair\", tag 0");
    }
    gw_barrier(s, g);
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
}

static void timeouts_of_messages_name_the_peer(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++)
        cluster_run(seed, (cluster_options){ .world_size = 2 }, time_out_on_messages, NULL);
}

static void use_invalid_names(gw_scope *s, int rank, void *context) {
    (void)context, (void)rank;
    static const char *const names[] = { "",         "a\nb",         "100%",
                                         "\x7f",     "\xff\xfe",     "\xc3",
                                         "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                                         "\xc2\x85" };
    gw_worker self = gw_rpc_self(s);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        gw_group_open(s, &self, 1, .name = names[i]);
        expect(s, GW_INVALID, "the name of a group has ");
        gw_group_world(s, .name = names[i]);
        expect(s, GW_INVALID, "the name of a group has ");
        gw_group_join(s, names[i]);
        expect(s, GW_INVALID, "gw_group_join: ");
    }
    gw_barrier(s,
               gw_group_open(s, &self, 1, .name = "stage 1, \xc3\xa4\xe2\x82\xac\xf0\x9f\x8e\x89"));
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
}

static void group_names_that_are_not_printable_are_refused(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 1 }, use_invalid_names, NULL);
}

// ---- Memory and closed groups -------------------------------------------------------------------

enum { OFTEN = 1000, FEW = 60 };

typedef void form(gw_scope *s, gw_group *g, gw_tensor *x);

static void reduce_and_drop(gw_scope *s, gw_group *g, gw_tensor *x) {
    gw_drop(s, gw_all_reduce(s, g, x, GW_SUM));
}

static void reduce_into(gw_scope *s, gw_group *g, gw_tensor *x) {
    gw_all_reduce(s, g, x, GW_MAX, .into = x);
}

static void share_and_drop(gw_scope *s, gw_group *g, gw_tensor *x) {
    gw_drop(s, gw_broadcast(s, g, x, 0));
    gw_drop(s, gw_all_gather(s, g, x));
    gw_drop(s, gw_all_gather_list(s, g, x));
    gw_drop(s, gw_all_gather_value(s, g, 1));
    gw_broadcast_value(s, g, 1.5, 0);
    gw_drop(s, gw_all_reduce_coalesced(s, g, &x, 1, GW_SUM));
}

static void exchange_messages(gw_scope *s, gw_group *g, gw_tensor *x) {
    int other = 1 - gw_group_rank(g);
    gw_future *sent = gw_isend(s, g, x, other);
    gw_drop(s, gw_recv(s, g, other));
    gw_wait(s, sent);
    gw_drop(s, sent);
    if (other) gw_send(s, g, x, other);
    if (!other) gw_drop(s, gw_recv_any(s, g, NULL));
}

static void agree(gw_scope *s, gw_group *g, gw_tensor *x) {
    (void)x;
    gw_group_agree(s, g, 1);
}

static void wait_at_barrier(gw_scope *s, gw_group *g, gw_tensor *x) {
    (void)x;
    gw_barrier(s, g);
}

static size_t after_all(gw_scope *s, gw_group *g) {
    for (int i = 0; i < 3; i++) gw_barrier(s, g);
    cluster_pause_ms(s, 2000);
    size_t count = mem_live_count();
    cluster_pause_ms(s, 2000);
    gw_barrier(s, g);
    return count;
}

static void repeat(gw_scope *s, int rank, void *context) {
    form *once = *(form **)context;
    (void)rank;
    gw_group *g = gw_group_world(s);
    gw_tensor *x = gw_ones(s, GW_F32, 100);
    for (int i = 0; i < FEW; i++) once(s, g, x);
    size_t before = after_all(s, g);
    for (int i = 0; i < OFTEN; i++) once(s, g, x);
    size_t after = after_all(s, g);
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
    if (after > before + FEW)
        fail_msg("%zu allocations are left of %d times", after - before, OFTEN);
}

static void a_long_scope_does_not_keep_dropped_values(void **state) {
    (void)state;
    static form *const forms[] = { reduce_and_drop,   reduce_into,     share_and_drop,
                                   exchange_messages, wait_at_barrier, agree };
    mem_account();
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        form *once = forms[i];
        testing_note("form %zu", i);
        sim_options calm = { .interleave_per_million = -1 };
        cluster_run(1, (cluster_options){ .world_size = 2, .network = calm }, repeat, &once);
    }
}

static void open_again(gw_scope *s, int rank, void *context) {
    (void)context, (void)rank;
    for (int i = 0; i < 5; i++) {
        gw_group *g = gw_group_world(s, .name = "again");
        gw_barrier(s, g);
        gw_drop(s, gw_all_reduce(s, g, gw_ones(s, GW_F32, 4), GW_SUM));
        cluster_pause_ms(s, 1000);  // until all members have completed both
        gw_drop(s, g);
    }
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
}

static void a_group_that_is_dropped_is_closed(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++)
        cluster_run(seed, (cluster_options){ .world_size = 3 }, open_again, NULL);
}

static void use_a_closed_group(gw_scope *s, int rank, void *context) {
    (void)rank, (void)context;
    gw_scope *inner = gw_scope_open(s);
    gw_group *g = gw_group_world(inner);
    gw_scope_close_up(inner);
    gw_barrier(s, g);
}

static void a_closed_group_is_seen_in_the_checked_mode(void **state) {
    (void)state;
    char text[2048];
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
        signal(SIGABRT, SIG_DFL);
        dup2(ends[1], STDERR_FILENO);
        check_enabled = true;
        cluster_run(1, (cluster_options){ .world_size = 1 }, use_a_closed_group, NULL);
        _exit(0);
    }
    close(ends[1]);
    size_t at = 0;
    for (ssize_t size; (size = read(ends[0], text + at, sizeof text - 1 - at)) > 0;)
        at += (size_t)size;
    text[at] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_non_null(
        strstr(text, "GW_CHECK: the group was dropped, or the scope that held it is closed"));
}

GW_TESTS(group_errors_sim, a_member_that_only_sends_gets_the_mismatch_by_its_next_call,
         invalid_statuses_end_no_worker, timeouts_of_messages_name_the_peer,
         group_names_that_are_not_printable_are_refused, a_long_scope_does_not_keep_dropped_values,
         a_group_that_is_dropped_is_closed, a_closed_group_is_seen_in_the_checked_mode);
