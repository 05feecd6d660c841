// Bugs that mixed workloads have found, one test each.
#include "jobs.h"
#include "testing/cluster.h"
#include "testing/testing.h"

GW_FUNCTION(found_fail, GW_INLINE, "") {
    gw_fail(s, GW_REMOTE, "as requested");
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

// The outcome is that of the call itself, not that of its argument.
static void pass_a_failed_future(gw_scope *s, int rank, void *context) {
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
    cluster_run(1, (cluster_options){ .world_size = 2 }, pass_a_failed_future, NULL);
}

// A thread drops a reference to a value of its own worker while another thread has not read it yet in a message to the
// same worker.
static void a_reference_to_oneself_lasts_until_it_is_read(void **state) {
    (void)state;
    jobs_run(22750, JOBS_SLOW);
}

// A producer sends its value to a worker that does not have the maker of the promise in its view yet.
static void a_value_waits_until_the_maker_of_its_promise_is_in_the_view(void **state) {
    (void)state;
    jobs_run(178968, JOBS_GROUP);
}

// A leaving worker refuses a request, and so drops the last promise that it has a value of.
static void a_leaving_worker_leaves_once_refused_calls_are_forgotten(void **state) {
    (void)state;
    jobs_run(133615, JOBS_GROUP);
}

static void a_call_with_several_promises_ends_without_the_maker_in_the_view(void **state) {
    (void)state;
    jobs_run(55215, JOBS_GROUP);
}

// A rank is passed as a number to a worker that does not have this member in its view yet.
static void a_rank_that_is_not_in_the_view_yet_is_not_found(void **state) {
    (void)state;
    jobs_run(195712, JOBS_GROUP);
}

// The founder ends before the members that it has admitted are counted, or have each other in their views.
static void a_founder_that_ends_too_soon_may_end_new_members(void **state) {
    (void)state;
    jobs_run(34880, JOBS_GROUP);
    jobs_run(74283, JOBS_GROUP);
    jobs_run(68006, JOBS_GROUP);  // a new member waits long before it is fenced
}

// With one worker thread slot: the call with the turn of an object is queued for the slot, and a call that had waited
// held the slot and wanted the turn.
static void a_call_that_waits_for_a_turn_holds_no_thread_slot(void **state) {
    (void)state;
    jobs_run(107431, JOBS_TOGETHER);
}

// One worker has joined already, and receives nothing while the others wait for the store.
static void a_store_host_that_stops_during_joining_ends_no_worker(void **state) {
    (void)state;
    jobs_run(2371, JOBS_STOPS);
}

// A majority has joined, so that a member without contact to the host cannot determine whether the others wait for it.
static void a_worker_that_cannot_reach_the_store_host_is_fenced(void **state) {
    (void)state;
    jobs_run(34187, JOBS_STOPS);
    jobs_run(57205, JOBS_ALL);
    jobs_run(90558, JOBS_GROUP);  // and one that never had a quorum, late
}

GW_TESTS(jobs_found, a_call_with_an_argument_that_has_failed_is_not_delivered,
         a_reference_to_oneself_lasts_until_it_is_read,
         a_value_waits_until_the_maker_of_its_promise_is_in_the_view,
         a_leaving_worker_leaves_once_refused_calls_are_forgotten,
         a_call_with_several_promises_ends_without_the_maker_in_the_view,
         a_rank_that_is_not_in_the_view_yet_is_not_found,
         a_founder_that_ends_too_soon_may_end_new_members,
         a_call_that_waits_for_a_turn_holds_no_thread_slot,
         a_store_host_that_stops_during_joining_ends_no_worker,
         a_worker_that_cannot_reach_the_store_host_is_fenced);
