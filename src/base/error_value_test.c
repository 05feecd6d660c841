#include "base/error_value.h"

#include "base/mem.h"
#include "base/scope.h"
#include "testing/testing.h"

#include <pthread.h>
#include <string.h>

// All values without a count are gone afterwards.
static void forget_recent(void) {
    for (int i = 0; i < ERROR_VALUES_RECENT; i++) error_value_release(error_value_make("", 0));
}

static void a_value_lives_as_long_as_its_counts(void **state) {
    (void)state;
    size_t before = mem_live_count();
    uint64_t x = error_value_make("abc", 3), y = error_value_make("", 0);
    assert_true(x && y && x != y);
    assert_true(error_value_retain(x) == x);
    error_value_release(x);
    const error_value *v = error_value_get(x);
    assert_int_equal(v->size, 3);
    assert_memory_equal(v->data, "abc", 3);
    error_value_release(x);
    error_value_release(x);
    forget_recent();
    assert_null(error_value_get(x));
    assert_int_equal(error_value_retain(x), 0);
    error_value_release(x);
    error_value_release(y);
    x = error_value_make("", 0);
    assert_true(x > y);
    error_value_release(x);
    assert_int_equal(mem_live_count(), before);
    assert_null(error_value_get(0));
}

// Errors are copied from scope to scope; each scope holds a count.
static void scopes_hold_it(void **state) {
    (void)state;
    size_t before = mem_live_count();
    gw_scope *s = gw_scope_open(NULL), *t = gw_scope_open(s), *other = gw_scope_open(NULL);
    gw_error e = { .status = GW_REMOTE, .text = "x", .value = error_value_make("v", 1) };
    scope_fail_with(t, &e);
    error_value_release(e.value);
    gw_scope_close_up(t);
    gw_scope_fail(other, gw_scope_error(s));
    e = gw_scope_close(s);
    assert_non_null(error_value_get(e.value));
    error_value_release(e.value);
    gw_scope_clear(other);
    forget_recent();
    assert_null(error_value_get(e.value));
    // A copy of an error whose value is gone is an error without a value.
    gw_scope_fail(other, &e);
    assert_true(gw_scope_error(other)->value == 0);
    gw_error last = gw_scope_close(other);
    assert_string_equal(last.text, "x");
    assert_int_equal(mem_live_count(), before);
}

// The error of a scope is passed on after the scope has closed.
static void a_value_stays_for_a_while_after_its_last_count(void **state) {
    (void)state;
    size_t before = mem_live_count();
    gw_scope *s = gw_scope_open(NULL), *other = gw_scope_open(NULL);
    gw_error e = { .status = GW_REMOTE, .text = "x", .value = error_value_make("v", 1) };
    scope_fail_with(s, &e);
    error_value_release(e.value);
    e = gw_scope_close(s);
    for (int i = 1; i < ERROR_VALUES_RECENT; i++) error_value_release(error_value_make("", 0));
    gw_scope_fail(other, &e);
    assert_true(gw_scope_error(other)->value == e.value);
    forget_recent();
    const error_value *v = error_value_get(e.value);
    assert_memory_equal(v->data, "v", 1);
    error_value_release(e.value);
    e = gw_scope_close(other);
    forget_recent();
    assert_null(error_value_get(e.value));
    assert_int_equal(mem_live_count(), before);
}

static void *hold_often(void *arg) {
    uint64_t x = *(uint64_t *)arg;
    for (int i = 0; i < 10000; i++)
        if (error_value_retain(x)) error_value_release(x);
    return NULL;
}

static void threads_may_hold_one_value(void **state) {
    (void)state;
    size_t before = mem_live_count();
    uint64_t x = error_value_make("v", 1);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hold_often, &x), 0);
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    error_value_release(x);
    assert_int_equal(mem_live_count(), before);
}

static void make_one(void *context) {
    (void)context;
    uint64_t x = error_value_make("abc", 3);
    gw_scope *s = gw_scope_open(NULL);
    scope_fail_with(s, &(gw_error){ .status = GW_REMOTE, .text = "x", .value = x });
    error_value_release(x);
    scope_close_unread(s);
}

static void without_memory_there_is_none(void **state) {
    (void)state;
    testing_alloc_failure_loop(make_one, NULL);
}

GW_TESTS(base_error_value, a_value_lives_as_long_as_its_counts, scopes_hold_it,
         a_value_stays_for_a_while_after_its_last_count, threads_may_hold_one_value,
         without_memory_there_is_none);
