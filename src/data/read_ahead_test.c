// Reading ahead: at once, in order, bounded; and how it is waited for and ended.
#include "data_test.h"

#include "base/scope.h"

#include <semaphore.h>
#include <stdatomic.h>

// Item 0 is ready only when item 1 has been read.
static gw_value second_first(gw_scope *s, void *state, int64_t index) {
    (void)s;
    sem_t *second_read = state;
    if (index == 0) sem_wait(second_read);
    if (index == 1) sem_post(second_read);
    return gw_value_of(index);
}

static void batches_are_read_at_once_and_given_in_order(void **state) {
    (void)state;
    sem_t second_read;
    sem_init(&second_read, 0, 0);
    gw_scope *s = gw_scope_open(NULL);
    gw_dataset *d = gw_dataset_open(s, "pair", 4, second_first, &second_read);
    gw_data_loader *l = gw_data_loader_open(s, d, .num_workers = 2, .prefetch_factor = 1);
    for (int64_t i = 0; i < 4; i++) {
        assert_true(gw_data_loader_next(s, l));
        assert_numbers(s, gw_data_loader_tensor(s, l, 0), i);
    }
    assert_int_equal(gw_scope_close(s).status, GW_OK);
    sem_destroy(&second_read);
}

typedef struct bound {
    atomic_int requested;  // batches that the program has requested
    atomic_bool was_exceeded;
} bound;

enum { WORKERS = 3, FACTOR = 2 };

static gw_value within_bound(gw_scope *s, void *state, int64_t index) {
    (void)s;
    bound *b = state;
    if (index >= atomic_load(&b->requested) + WORKERS * FACTOR)
        atomic_store(&b->was_exceeded, true);
    return gw_value_of(index);
}

static void read_ahead_is_limited(void **state) {
    (void)state;
    bound b = { 0 };
    gw_scope *s = gw_scope_open(NULL);
    gw_dataset *d = gw_dataset_open(s, "bound", 200, within_bound, &b);
    gw_data_loader *l =
        gw_data_loader_open(s, d, .num_workers = WORKERS, .prefetch_factor = FACTOR);
    for (int64_t i = 0; i < 200; i++) {
        atomic_fetch_add(&b.requested, 1);
        assert_true(gw_data_loader_next(s, l));
        assert_numbers(s, gw_data_loader_tensor(s, l, 0), i);
    }
    assert_false(atomic_load(&b.was_exceeded));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static gw_value after_post(gw_scope *s, void *state, int64_t index) {
    (void)s;
    sem_wait(state);
    sem_post(state);
    return gw_value_of(index);
}

static void a_wait_ends_at_the_deadline_and_the_batch_is_not_lost(void **state) {
    (void)state;
    sem_t may_read;
    sem_init(&may_read, 0, 0);
    gw_scope *root = gw_scope_open(NULL), *s = gw_scope_open(root);
    gw_dataset *d = gw_dataset_open(root, "slow", 3, after_post, &may_read);
    gw_data_loader *l = gw_data_loader_open(root, d, .num_workers = 1);
    gw_scope_set_timeout(s, 1);
    assert_false(gw_data_loader_next(s, l));
    assert_fails(s, GW_TIMEOUT,
                 "gw_data_loader_next: slow: the batch was not read within the deadline");
    sem_post(&may_read);
    assert_true(gw_data_loader_next(root, l));
    assert_numbers(root, gw_data_loader_tensor(root, l, 0), 0);
    assert_int_equal(gw_scope_close(root).status, GW_OK);
    sem_destroy(&may_read);
}

static void an_inline_function_does_not_wait_for_threads(void **state) {
    (void)state;
    gw_scope *root = gw_scope_open(NULL), *s = gw_scope_open(root);
    gw_dataset *d = gw_dataset_open(root, "tens", 3, ten_times, NULL);
    gw_data_loader *threads = gw_data_loader_open(root, d, .num_workers = 1);
    s->may_wait = false;
    assert_true(gw_data_loader_next(s, gw_data_loader_open(root, d)));
    assert_false(gw_data_loader_next(s, threads));
    assert_fails(s, GW_WOULD_BLOCK,
                 ": a GW_INLINE function must not wait for the threads of a loader");
    assert_int_equal(gw_scope_close(root).status, GW_OK);
}

// Closed, or moved to another epoch, while threads read, have read, and wait.
static void it_can_be_left_at_any_time(void **state) {
    (void)state;
    for (int given = 0; given < 6; given++) {
        gw_scope *s = gw_scope_open(NULL);
        gw_dataset *d = gw_dataset_open(s, "tens", 9, ten_times, NULL);
        gw_data_loader *l = gw_data_loader_open(s, d, .num_workers = 2, .prefetch_factor = 3);
        for (int i = 0; i < given; i++) assert_true(gw_data_loader_next(s, l));
        gw_data_loader_set_epoch(s, l, given);
        assert_true(gw_data_loader_next(s, l));
        assert_numbers(s, gw_data_loader_tensor(s, l, 0), 0);
        assert_int_equal(gw_scope_close(s).status, GW_OK);
    }
}

GW_TESTS(data_read_ahead, batches_are_read_at_once_and_given_in_order, read_ahead_is_limited,
         a_wait_ends_at_the_deadline_and_the_batch_is_not_lost,
         an_inline_function_does_not_wait_for_threads, it_can_be_left_at_any_time);
