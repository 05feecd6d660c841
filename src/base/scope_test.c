#include "base/scope.h"

#include "base/log.h"
#include "base/mem.h"
#include "testing/testing.h"

#include <stdio.h>
#include <string.h>

// ---- A handle that records its destruction ------------------------------------------------------
typedef struct thing {
    gw_handle handle;
    int *gone;
} thing;

static void destroy_thing(gw_handle *h) {
    thing *t = (thing *)h;
    ++*t->gone;
    mem_give(t, sizeof *t);
}

static const handle_class thing_class = { .name = "thing", .destroy = destroy_thing };

static thing *thing_open(gw_scope *s, int *gone) {
    thing *t = mem_take(sizeof *t);
    if (!t) {
        scope_fail(s, GW_NO_MEMORY, "no memory for a thing");
        return NULL;
    }
    handle_init(&t->handle, &thing_class);
    t->gone = gone;
    return scope_own(s, t);
}

static void closing_releases_every_handle(void **state) {
    (void)state;
    size_t before = mem_live_count();
    int gone = 0;
    gw_scope *s = gw_scope_open(NULL);
    for (int i = 0; i < 100; i++) thing_open(s, &gone);
    assert_int_equal(gone, 0);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
    assert_int_equal(gone, 100);
    assert_int_equal(mem_live_count(), before);
}

static void a_kept_handle_outlives_its_scope(void **state) {
    (void)state;
    int gone = 0;
    gw_scope *s = gw_scope_open(NULL), *inner = gw_scope_open(s);
    thing *t = gw_keep(s, thing_open(inner, &gone));
    gw_scope_close_up(inner);
    assert_int_equal(gone, 0);
    gw_drop(s, t);
    assert_int_equal(gone, 1);
    gw_keep(s, (thing *)NULL);
    gw_drop(s, (thing *)NULL);
    gw_scope_close_up(s);
}

static void dropping_releases_one_count(void **state) {
    (void)state;
    int gone = 0;
    gw_scope *s = gw_scope_open(NULL);
    thing *t = thing_open(s, &gone);
    gw_keep(s, t);
    gw_drop(s, t);
    assert_int_equal(gone, 0);
    gw_drop(s, t);
    assert_int_equal(gone, 1);
    gw_scope_close_up(s);
}

static void gw_set_replaces_the_handle(void **state) {
    (void)state;
    int gone = 0, destroyed_later = 0;
    gw_scope *s = gw_scope_open(NULL);
    thing *slot = NULL;
    for (int step = 0; step < 3; step++) {
        gw_scope *inner = gw_scope_open(s);
        gw_set(s, &slot, thing_open(inner, &gone));
        gw_scope_close_up(inner);
        assert_int_equal(gone, step);
    }
    gw_set(s, &slot, slot);  // itself
    assert_int_equal(gone, 2);
    gw_set(s, &slot, (thing *)NULL);
    assert_int_equal(gone, 3);
    assert_null(slot);
    gw_set(s, &slot, thing_open(s, &destroyed_later));
    gw_scope_close_up(s);
    assert_int_equal(destroyed_later, 1);
}

// ---- Errors -------------------------------------------------------------------------------------
static void the_first_error_stays(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    assert_true(gw_ok(s));
    assert_int_equal(gw_scope_error(s)->status, GW_OK);
    gw_fail(s, GW_TIMEOUT, "first %d", 1);
    gw_fail(s, GW_INVALID, "second");
    assert_false(gw_ok(s));
    gw_error e = gw_scope_close(s);
    assert_int_equal(e.status, GW_TIMEOUT);
    assert_string_equal(e.text, "first 1");
}

static void an_error_is_passed_on_with_its_fields(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL), *t = gw_scope_open(NULL);
    gw_error e = { .status = GW_DISCONNECTED,
                   .outcome = GW_MAY_HAVE_RUN,
                   .function = "f",
                   .text = "ps has ended",
                   .aborts = { { 1, 2, 3 } },
                   .lost = { GW_LOSS_ENDED, 1, 7, "ps" },
                   .is_printed = true };
    gw_scope_fail(t, NULL);
    gw_scope_fail(t, &(gw_error){ .status = GW_OK, .text = "is no error" });
    assert_true(gw_ok(t));
    gw_scope_fail(s, &e);
    gw_scope_fail(t, gw_scope_error(s));
    gw_scope_fail(t, &(gw_error){ .status = GW_INVALID, .text = "second" });
    const gw_error *got = gw_scope_error(t);
    assert_int_equal(got->status, e.status);
    assert_int_equal(got->outcome, e.outcome);
    assert_string_equal(got->function, e.function);
    assert_string_equal(got->text, e.text);
    assert_memory_equal(got->aborts, e.aborts, sizeof e.aborts);
    assert_int_equal(got->lost.how, GW_LOSS_ENDED);
    assert_string_equal(got->lost.name, "ps");
    assert_true(got->is_printed);
    (void)gw_scope_error(s);
    e = gw_scope_close(t);
    e = gw_scope_close(s);
}

static void an_error_that_a_program_has_made_is_in_bounds(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_error e;
    memset(&e, 0x7f, sizeof e);
    e.is_printed = false;
    gw_scope_fail(s, &e);
    e = gw_scope_close(s);
    assert_int_equal(e.status, GW_INVALID);
    assert_int_equal(e.outcome, GW_OUTCOME_NONE);
    assert_int_equal(strlen(e.text), sizeof e.text - 1);
    assert_int_equal(e.text[0], '?');
    assert_int_equal(e.lost.how, GW_LOSS_NONE);
    assert_int_equal(e.trace.first, 0);
}

static void a_scope_inside_a_failed_one_has_failed(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_fail(s, GW_TIMEOUT, "first");
    gw_scope *inner = gw_scope_open(s), *innermost = gw_scope_open(inner);
    assert_string_equal(gw_scope_error(innermost)->text, "first");
    gw_scope_close_up(innermost);
    assert_int_equal(gw_scope_close(inner).status, GW_TIMEOUT);
    gw_scope_clear(s);
    inner = gw_scope_open(s);
    assert_true(gw_ok(inner));
    gw_scope_close_up(inner);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static char logged[1024];

static void keep_line(const char *line) {
    snprintf(logged, sizeof logged, "%s", line);
}

static void closing_up_a_failed_root_logs_its_error(void **state) {
    (void)state;
    log_hook = keep_line;
    gw_scope *s = gw_scope_open(NULL);
    s->worker = "trainer";
    gw_scope_close_up(gw_scope_open(s));
    assert_string_equal(logged, "");
    gw_fail(s, GW_INVALID, "a shape of %d", 3);
    gw_scope_close_up(s);
    assert_string_equal(logged, "trainer: a shape of 3");
}

// ---- Errors of scopes that are left open --------------------------------------------------------
static gw_scope *fail_inside(gw_scope *s, int depth) {
    for (int i = 0; i < depth; i++) s = gw_scope_open(s);
    gw_fail(s, GW_NOT_FOUND, "no data");
    return s;
}

static void an_error_of_a_scope_left_open_becomes_that_of_its_parent(void **state) {
    (void)state;
    for (int depth = 1; depth <= 3; depth++) {
        for (int is_own = 0; is_own <= 1; is_own++) {
            log_hook = keep_line;
            gw_scope *s = gw_scope_open(NULL);
            fail_inside(s, depth);
            gw_scope_open(s);
            if (is_own) gw_fail(s, GW_INVALID, "its own");
            gw_error e = gw_scope_close(s);
            assert_string_equal(e.text, is_own ? "its own" : "no data");
            assert_int_equal(
                strncmp(logged, "no data (the error of a scope that was still open", 38), 0);
            log_hook = NULL;
            logged[0] = '\0';
        }
    }
}

static void an_error_that_the_program_has_read_is_not_propagated(void **state) {
    (void)state;
    log_hook = keep_line;
    gw_scope *s = gw_scope_open(NULL), *inner = fail_inside(s, 2);
    assert_int_equal(gw_scope_error(inner)->status, GW_NOT_FOUND);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
    s = gw_scope_open(NULL);
    gw_scope_clear(fail_inside(s, 1));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
    // A scope opened in a failed scope has its error.
    s = gw_scope_open(NULL);
    gw_fail(s, GW_INVALID, "known");
    gw_scope_open(s);
    gw_scope_clear(s);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
    assert_string_equal(logged, "");
    log_hook = NULL;
}

static void an_error_in_a_scope_that_a_body_leaves_open_is_the_bodys(void **state) {
    (void)state;
    log_hook = keep_line;
    gw_scope *s = gw_scope_open(NULL);
    scope_lend(s);
    fail_inside(s, 1);
    assert_true(gw_ok(s));
    scope_take_back(s);
    assert_string_equal(gw_scope_error(s)->text, "no data");
    assert_int_equal(gw_scope_close(s).status, GW_NOT_FOUND);
    log_hook = NULL;
    logged[0] = '\0';
}

static void closing_leaves_the_parent_clean_and_merging_does_not(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL), *a = gw_scope_open(s), *b = gw_scope_open(s);
    gw_fail(a, GW_TIMEOUT, "of a");
    assert_int_equal(gw_scope_close(a).status, GW_TIMEOUT);
    assert_true(gw_ok(s));
    gw_fail(b, GW_CANCELLED, "of b");
    gw_scope_close_up(b);
    assert_string_equal(gw_scope_error(s)->text, "of b");
    gw_scope_clear(s);
    assert_true(gw_ok(s));
    gw_scope_close_up(s);
}

static void a_fault_of_the_users_own_is_remote(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_fail(s, GW_OK, "is no error");
    assert_int_equal(gw_scope_close(s).status, GW_REMOTE);
}

static void labels_make_the_trail(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    s->worker = "trainer";
    gw_scope_label(s, "epoch %d", 3);
    gw_scope *step = gw_scope_open(s);
    gw_scope_label(step, "step %d", 11);
    gw_scope_label(step, "step %d", 12);
    gw_fail(step, GW_INVALID, "index 12 out of range");
    gw_scope_close_up(step);
    assert_string_equal(gw_scope_close(s).text, "trainer: epoch 3: step 12: index 12 out of range");
}

static void children_are_closed_first(void **state) {
    (void)state;
    size_t before = mem_live_count();
    int gone = 0;
    gw_scope *s = gw_scope_open(NULL);
    for (int i = 0; i < 3; i++) thing_open(gw_scope_open(gw_scope_open(s)), &gone);
    gw_scope_close_up(s);
    assert_int_equal(gone, 3);
    assert_int_equal(mem_live_count(), before);
}

// ---- Deadlines, ids, memory ---------------------------------------------------------------------
static void the_earlier_deadline_counts(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    assert_true(gw_scope_time_left_ms(s) == INT64_MAX);
    gw_scope_set_timeout(s, 100000);
    gw_scope *inner = gw_scope_open(s);
    gw_scope_set_timeout(inner, 500000);
    assert_true(gw_scope_time_left_ms(inner) <= 100000);
    gw_scope_set_timeout(inner, 50000);
    assert_true(gw_scope_time_left_ms(inner) <= 50000);
    gw_scope_set_timeout(inner, 0);
    assert_true(gw_scope_time_left_ms(inner) > 50000);
    gw_scope_set_timeout(s, INT64_MAX);
    assert_true(gw_scope_time_left_ms(s) == INT64_MAX);
    s->deadline_ns = 1;
    assert_int_equal(gw_scope_time_left_ms(s), 0);
    gw_scope_set_timeout(s, -1);
    assert_string_equal(gw_scope_error(s)->text, "the timeout is -1 ms, but must not be negative");
    gw_scope_close_up(s);
}

static void ids_are_unique_and_never_0(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL), *inner = gw_scope_open(s);
    uint64_t id = gw_scope_id(inner);
    assert_true(id != 0 && id != gw_scope_id(s));
    assert_true(gw_scope_id(inner) == id);
    scope_ids ids = { .space = 5 };
    gw_scope *other = gw_scope_open(NULL);
    other->ids = &ids;
    assert_true(gw_scope_id(other) >> 48 == 5);
    gw_scope_close_up(other);
    gw_scope_close_up(s);
}

static void memory_lives_as_long_as_the_scope(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    const char *text = gw_format(s, "%s %d", "number", 7);
    for (int i = 1; i < 3000; i += 7) {
        unsigned char *p = gw_alloc(s, (size_t)i);
        assert_int_equal((uintptr_t)p % 16, 0);
        for (int k = 0; k < i; k++) assert_int_equal(p[k], 0);
        memset(p, 0xff, (size_t)i);
    }
    assert_non_null(gw_alloc(s, 0));
    assert_non_null(gw_alloc(s, 100000));
    assert_string_equal(text, "number 7");
    assert_null(gw_alloc(s, SIZE_MAX - 3));
    assert_int_equal(gw_scope_error(s)->status, GW_NO_MEMORY);
    assert_null(gw_alloc(s, 1));
    assert_string_equal(gw_format(s, "x"), "");
    gw_scope_clear(s);
    gw_scope_close_up(s);
}

static void a_seed_is_shared_with_scopes_inside(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL), *inner = gw_scope_open(s);
    assert_ptr_equal(inner->random, s->random);
    gw_seed(inner, 5);
    assert_ptr_not_equal(inner->random, s->random);
    assert_int_equal(inner->random->key, 5);
    assert_ptr_equal(gw_scope_open(inner)->random, inner->random);
    gw_scope_close_up(s);
}

static void note_slot(gw_scope *s, void *data) {
    assert_true(s->handles.count > 0);  // before the handles are released
    ++*(int *)data;
}

static void slots_are_finished_before_handles(void **state) {
    (void)state;
    int gone = 0, finished = 0;
    gw_scope *s = gw_scope_open(NULL);
    thing_open(s, &gone);
    scope_set_slot(s, SCOPE_GRADS, &finished, note_slot);
    gw_scope_close_up(s);
    assert_int_equal(finished, 1);
}

// ---- Without memory -----------------------------------------------------------------------------
static void use_scopes(void *context) {
    (void)context;
    int gone = 0, made = 0;
    gw_scope *s = gw_scope_open(NULL), *inner = gw_scope_open(s);
    gw_scope_label(s, "a label");
    for (int i = 0; i < 40; i++) made += thing_open(inner, &gone) != NULL;
    gw_alloc(inner, 100);
    gw_format(inner, "%d", 7);
    gw_seed(inner, 1);
    gw_scope_id(inner);
    gw_scope_set_timeout(inner, 100);
    gw_fail(inner, GW_CANCELLED, "the end");
    gw_scope_clear(inner);
    gw_scope_close_up(inner);
    gw_error error = gw_scope_close(s);
    assert_true(error.status == GW_OK || error.status == GW_NO_MEMORY);
    assert_true(gone >= made);  // a handle that the scope cannot hold is released at once
}

static void it_survives_without_memory(void **state) {
    (void)state;
    testing_alloc_failure_loop(use_scopes, NULL);
}

static int fail_always(size_t size) {
    (void)size;
    return 1;
}

static void without_memory_a_scope_is_failed_and_harmless(void **state) {
    (void)state;
    mem_fail_hook = fail_always;
    gw_scope *s = gw_scope_open(NULL);
    mem_fail_hook = NULL;
    assert_int_equal(gw_scope_error(s)->status, GW_NO_MEMORY);
    gw_scope *inner = gw_scope_open(s);
    assert_false(gw_ok(inner));  // it inherits the failure
    gw_scope_label(s, "no");
    gw_seed(s, 1);
    gw_scope_clear(s);
    gw_scope_set_timeout(s, 5);
    assert_false(gw_ok(s));
    assert_null(gw_alloc(s, 5));
    gw_scope_close_up(inner);
    gw_scope_close_up(s);
    s = gw_scope_open(NULL);
    assert_true(gw_ok(s));
    assert_true(gw_scope_time_left_ms(s) == INT64_MAX);
    gw_scope_close_up(s);
}

// The streams of calls depend on the seed and on where they are made, not on when, and not on
// the numbers drawn.
static void calls_draw_from_streams_of_their_own(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_seed(s, 7);
    gw_scope *a = gw_scope_open(s), *b = gw_scope_open(s);
    uint64_t keys[] = { scope_call_key(s), scope_call_key(s), scope_call_key(b),
                        scope_call_key(a), scope_call_key(a), scope_call_key(gw_scope_open(a)) };
    enum { COUNT = sizeof keys / sizeof *keys };
    for (int i = 0; i < COUNT; i++)
        for (int k = 0; k < i; k++) assert_true(keys[i] != keys[k]);
    gw_seed(s, 7);
    generator_take(s->random, 5);
    gw_scope *again = gw_scope_open(s);
    assert_true(scope_call_key(again) == keys[3]);
    assert_true(scope_call_key(again) == keys[4]);
    assert_true(scope_call_key(gw_scope_open(again)) == keys[5]);
    assert_true(scope_call_key(s) == keys[0]);
    assert_int_equal(s->random->counter, 5);
    gw_seed(s, 8);
    assert_true(scope_call_key(s) != keys[0]);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

GW_TESTS(base_scope, closing_releases_every_handle, a_kept_handle_outlives_its_scope,
         dropping_releases_one_count, gw_set_replaces_the_handle, the_first_error_stays,
         closing_leaves_the_parent_clean_and_merging_does_not,
         an_error_of_a_scope_left_open_becomes_that_of_its_parent,
         an_error_that_the_program_has_read_is_not_propagated,
         an_error_in_a_scope_that_a_body_leaves_open_is_the_bodys,
         an_error_is_passed_on_with_its_fields, an_error_that_a_program_has_made_is_in_bounds,
         a_scope_inside_a_failed_one_has_failed, closing_up_a_failed_root_logs_its_error,
         a_fault_of_the_users_own_is_remote, labels_make_the_trail, children_are_closed_first,
         the_earlier_deadline_counts, ids_are_unique_and_never_0, memory_lives_as_long_as_the_scope,
         a_seed_is_shared_with_scopes_inside, slots_are_finished_before_handles,
         it_survives_without_memory, without_memory_a_scope_is_failed_and_harmless,
         calls_draw_from_streams_of_their_own);
