#include "reference/references.h"

#include "base/log.h"
#include "testing/cluster.h"
#include "testing/testing.h"
#include <gradwire/membership.h>

#include <stdio.h>
#include <string.h>

GW_FUNCTION(report_make, GW_POOL, "int") {
    return gw_value_of(gw_full(s, GW_I64, gw_arg_int(s, a, 0), 2));
}

GW_FUNCTION(report_fail, GW_POOL) {
    gw_fail(s, GW_REMOTE, "cannot make it");
    return gw_none();
}

GW_FUNCTION(report_never, GW_INLINE) {
    return gw_value_of(gw_member_lost(s, NULL, 0));
}

// This worker's report of the forks that the caller holds: "tensor of report_test.c:70 for w0".
GW_FUNCTION(report_list, GW_INLINE) {
    gw_reference_info all[8];
    int count = gw_references(s, all, 8);
    gw_list *out = gw_list_open(s);
    for (int i = 0; i < count; i++) {
        if (all[i].holder.rank != gw_arg_caller(a).rank) continue;
        assert_true(all[i].is_mine && all[i].is_confirmed && all[i].age_ms >= 0);
        gw_list_add(s, out,
                    gw_format(s, "%s %s of %s for %s", all[i].owner.name, all[i].what,
                              all[i].origin, all[i].holder.name));
    }
    return gw_value_of(out);
}

typedef struct report_box {
    gw_scope *own;
    gw_rref *held[30];
} report_box;

GW_CLASS(report_box, report_box_open);

static void report_box_open(gw_scope *own, report_box *self, const gw_args *a) {
    (void)a;
    self->own = own;
}

GW_METHOD(report_box, put, GW_INLINE, "int, rref") {
    gw_set(self->own, &self->held[gw_arg_int(s, a, 0)], gw_arg_rref(s, a, 1));
    return gw_none();
}

static void expect_listed(gw_scope *s, const char *what, const char *origin) {
    // Releases are batched, so they take a moment.
    cluster_sleep_ms(s, 10);
    gw_list *listed = gw_list_of(s, gw_rpc_sync(s, 1, "report_list"));
    char text[200];
    snprintf(text, sizeof text, "w1 %s of report_test.c%s for w0", what, origin);
    assert_int_equal(gw_list_count(listed), 1);
    assert_string_equal(gw_string_of(s, gw_list_get(s, listed, 0)), text);
}

static void list_all(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_scope *s = gw_scope_open(root);
    gw_reference_info all[4];
    assert_int_equal(gw_references(s, all, 4), 0);
    gw_rref *mine = gw_rref_open(s, "text");
    assert_int_equal(gw_references(s, all, 4), 1);
    assert_true(all[0].is_mine && all[0].id == 0);
    assert_string_equal(all[0].what, "string");
    assert_string_equal(all[0].holder.name, "w0");
    gw_drop(s, mine);

    char origin[32];
    snprintf(origin, sizeof origin, ":%d", __LINE__ + 1);
    gw_rref *theirs = gw_remote(s, 1, "report_make", 4);
    gw_to_here(s, theirs);
    assert_int_equal(gw_references(s, all, 4), 1);
    assert_true(!all[0].is_mine && all[0].is_confirmed && all[0].id == theirs->id);
    assert_string_equal(all[0].what, "");
    assert_string_equal(strchr(all[0].origin, ':'), origin);
    assert_string_equal(all[0].owner.name, "w1");
    expect_listed(s, "tensor", origin);
    assert_int_equal(gw_references(s, NULL, 0), 1);
    gw_scope_close_up(s);

    // An origin of the program's own, and values that are not made yet, or never.
    s = gw_scope_open(root);
    gw_call_options here = GW_OPTIONS(gw_call_options, .origin = "report_test.c, the loop");
    gw_remote_with(s, gw_to(1), "report_never", GW_NO_ARGS, here);
    expect_listed(s, "being made", ", the loop");
    gw_scope_close_up(s);
    s = gw_scope_open(root);
    gw_to_here(s, gw_remote_with(s, gw_to(1), "report_fail", GW_NO_ARGS, here));
    gw_scope_clear(s);
    expect_listed(s, "error", ", the loop");
    gw_scope_close_up(s);
    s = gw_scope_open(root);
    gw_rref *box = gw_remote_with(s, gw_to(1), "report_box", GW_NO_ARGS, here);
    gw_rpc_sync(s, box, "put", 0, box);
    gw_rpc_sync(s, box, "put", 0, gw_rref_open(s, 1));
    expect_listed(s, "report_box", ", the loop");
    gw_scope_close_up(s);
}

static void the_report_lists_owner_age_and_origin(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 2, .timeout_ms = 2000 }, list_all, NULL);
}

static void keep_origins(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    agent *a = s->agent;
    references *rs = references_of(a);
    env_enter(a->env);
    const char *kept = origin_keep_on_loop(rs, "train.c:12", 10);
    assert_string_equal(kept, "train.c:12");
    assert_ptr_equal(origin_keep_on_loop(rs, "train.c:12", 10), kept);
    assert_string_equal(origin_keep_on_loop(rs, "a\nb\x7f", 4), "a?b?");
    assert_string_equal(origin_keep_on_loop(rs, "", 0), "");
    char text[32];
    for (int i = 0; i < LIMIT_SITES; i++) {
        int size = snprintf(text, sizeof text, "train.c:%d", i + 100);
        origin_keep_on_loop(rs, text, (size_t)size);
    }
    assert_int_equal(rs->origins.count, LIMIT_SITES);
    assert_string_equal(origin_keep_on_loop(rs, "one.c:1", 7), "");
    assert_ptr_equal(origin_keep_on_loop(rs, "train.c:12", 10), kept);
    env_leave(a->env);
}

static void the_number_of_origins_is_limited_and_they_are_printable(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 2 }, keep_origins, NULL);
}

static int lines, summaries;

static void count_lines(const char *line) {
    if (strstr(line, "still has a reference to its report_box of report_test.c:")) lines++;
    if (strstr(line, " leaves the job while other workers have 6 more references to its values"))
        summaries++;
}

// 26 boxes of w1 and one of w0 that hold each other.
static void tie(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_scope *s = gw_scope_open(root);
    gw_rref *one = gw_remote(s, 2, "report_box");
    for (int i = 0; i < 26; i++) {
        gw_rref *box = gw_remote(s, 1, "report_box");
        gw_rpc_sync(s, box, "put", 0, one);
        gw_rpc_sync(s, one, "put", i, box);
    }
    gw_scope_close_up(s);
}

static void it_logs_twenty_leaks_and_counts_the_rest(void **state) {
    (void)state;
    lines = summaries = 0;
    log_hook = count_lines;
    cluster_run(1, (cluster_options){ .world_size = 3 }, tie, NULL);
    log_hook = NULL;
    assert_int_equal(lines, 20 + 20);
    assert_int_equal(summaries, 2);
}

GW_TESTS(reference_report, the_report_lists_owner_age_and_origin,
         the_number_of_origins_is_limited_and_they_are_printable,
         it_logs_twenty_leaks_and_counts_the_rest);
