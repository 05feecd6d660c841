#include "base/hook_list.h"

#include "testing/testing.h"

static void nothing(void) {}

static int count_from(const hook_list *all, hook_walk w) {
    int count = 0, last = 0;
    for (hook_entry h; hooks_next(all, &w, &h); count++) {
        assert_true(h.number > last);
        last = h.number;
    }
    return count;
}

static void hooks_are_called_in_order(void **state) {
    (void)state;
    hook_list all = { 0 };
    int contexts[3];
    for (int i = 0; i < 3; i++) assert_int_equal(hooks_add(&all, nothing, &contexts[i], 0), i + 1);
    hook_entry h;
    hook_walk w = hooks_walk(&all);
    for (int i = 0; i < 3; i++) {
        assert_true(hooks_next(&all, &w, &h));
        assert_ptr_equal(h.context, &contexts[i]);
    }
    assert_false(hooks_next(&all, &w, &h));
    hooks_fini(&all);
}

// Removes and adds during a walk, at each position.
static void a_walk_survives_changes(void **state) {
    (void)state;
    enum { COUNT = 40 };
    for (int at = 0; at <= COUNT; at++) {
        hook_list all = { 0 };
        hook_entry h;
        for (int i = 0; i < COUNT; i++) hooks_add(&all, nothing, NULL, 0);
        hook_walk w = hooks_walk(&all);
        for (int i = 0; i < at; i++) assert_true(hooks_next(&all, &w, &h));
        for (int i = 1; i <= COUNT; i += 2) assert_true(hooks_remove(&all, i, 0));
        for (int i = 0; i < COUNT; i++) hooks_add(&all, nothing, NULL, 0);
        for (int i = 1; i <= COUNT; i += 4) assert_false(hooks_remove(&all, i, 0));
        assert_int_equal(count_from(&all, w), COUNT / 2 - at / 2);
        assert_int_equal(count_from(&all, hooks_walk(&all)), COUNT / 2 + COUNT);
        hooks_fini(&all);
    }
}

static void a_removed_hook_is_not_called(void **state) {
    (void)state;
    hook_list all = { 0 };
    assert_false(hooks_remove(&all, 1, 0));
    int first = hooks_add(&all, nothing, NULL, 0), second = hooks_add(&all, nothing, NULL, 1);
    assert_false(hooks_remove(&all, second, 0));  // of another kind
    assert_true(hooks_remove(&all, first, 0));
    assert_false(hooks_remove(&all, first, 0));
    assert_true(hooks_any(&all));
    assert_true(hooks_remove(&all, second, 1));
    assert_false(hooks_any(&all));
    assert_int_equal(hooks_add(&all, nothing, NULL, 0), 3);  // numbers are not reused
    hooks_fini(&all);
}

GW_TESTS(base_hook_list, hooks_are_called_in_order, a_walk_survives_changes,
         a_removed_hook_is_not_called);
