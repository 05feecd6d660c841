// What mixed workloads have found, each by itself.
#include "jobs.h"
#include "testing/cluster.h"
#include "testing/testing.h"

GW_FUNCTION(found_fail, GW_INLINE, "") {
    gw_fail(s, GW_REMOTE, "as it was asked to");
    return gw_none();
}

GW_FUNCTION(found_same, GW_INLINE, "any") {
    return gw_arg(s, a, 0);
}

static void expect_not_delivered(gw_scope *s) {
    assert_int_equal(gw_scope_error(s)->status, GW_REMOTE);
    assert_int_equal(gw_scope_error(s)->outcome, GW_NOT_DELIVERED);
    gw_scope_clear(s);
}

// The outcome is that of the call that was made, not that of its argument.
static void give_what_has_failed(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_future *f = gw_rpc_async(s, 1, "found_fail");
    gw_wait(s, f);
    assert_int_equal(gw_scope_error(s)->outcome, GW_RAN_AND_FAILED);
    gw_scope_clear(s);
    gw_rpc_sync(s, 1, "found_same", f);
    expect_not_delivered(s);
    gw_rpc_sync(s, 0, "found_same", f);
    expect_not_delivered(s);
}

static void a_call_with_an_argument_that_has_failed_is_not_delivered(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 2 }, give_what_has_failed, NULL);
}

// A thread drops a reference to a value of its own worker while another is still to read it in a
// message to oneself.
static void a_reference_to_oneself_lasts_until_it_is_read(void **state) {
    (void)state;
    jobs_run(22750, JOBS_SLOW);
}

// A producer sends its value to a worker that has not heard yet of who made the promise.
static void a_value_waits_until_the_maker_of_its_promise_is_known(void **state) {
    (void)state;
    jobs_run(178968, JOBS_GROUP);
}

// Who leaves refuses a request, and with it goes the last promise that it has a value of.
static void a_leaving_worker_leaves_once_refused_calls_are_forgotten(void **state) {
    (void)state;
    jobs_run(133615, JOBS_GROUP);
}

static void a_call_of_several_ends_although_the_maker_was_not_known(void **state) {
    (void)state;
    jobs_run(55215, JOBS_GROUP);
}

// A rank is told as a number to a worker that has not heard yet of whom it is.
static void a_rank_that_is_not_known_yet_is_not_found(void **state) {
    (void)state;
    jobs_run(195712, JOBS_GROUP);
}

// The founder ends before those that it has let in are counted, or have heard of each other.
static void a_founder_that_ends_too_soon_may_take_others_along(void **state) {
    (void)state;
    jobs_run(34880, JOBS_GROUP);
    jobs_run(74283, JOBS_GROUP);
    jobs_run(68006, JOBS_GROUP);  // who has just joined waits long before it is fenced
}

// With one place: who has the turn of an object is queued for it, and who had waited had it back
// and wanted the turn.
static void a_call_that_waits_for_a_turn_has_no_place(void **state) {
    (void)state;
    jobs_run(107431, JOBS_TOGETHER);
}

// One has joined already, and hears nobody while the others wait for the store.
static void a_host_that_stops_while_others_join_ends_nobody(void **state) {
    (void)state;
    jobs_run(2371, JOBS_STOPS);
}

// A majority has joined, so that who does not hear the host cannot know that the rest waits for it.
static void who_cannot_know_that_the_others_wait_is_fenced(void **state) {
    (void)state;
    jobs_run(34187, JOBS_STOPS);
    jobs_run(57205, JOBS_ALL);
    jobs_run(90558, JOBS_GROUP);  // and one that never heard a quorum, late
}

GW_TESTS(jobs_found, a_call_with_an_argument_that_has_failed_is_not_delivered,
         a_reference_to_oneself_lasts_until_it_is_read,
         a_value_waits_until_the_maker_of_its_promise_is_known,
         a_leaving_worker_leaves_once_refused_calls_are_forgotten,
         a_call_of_several_ends_although_the_maker_was_not_known,
         a_rank_that_is_not_known_yet_is_not_found,
         a_founder_that_ends_too_soon_may_take_others_along,
         a_call_that_waits_for_a_turn_has_no_place, a_host_that_stops_while_others_join_ends_nobody,
         who_cannot_know_that_the_others_wait_is_fenced);
