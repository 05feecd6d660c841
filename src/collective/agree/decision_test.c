#include "collective/agree/decision.h"

#include "base/status.h"
#include "testing/testing.h"

#include <stdio.h>

static decision *sample(void) {
    decision *d = decision_open(3, 2);
    assert_non_null(d);
    d->flags = 0x123456789abcdef0;
    d->here[0] = d->here[2] = true;
    d->id = 77;
    d->generation = 4;
    snprintf(d->name, sizeof d->name, "trainers");
    d->members[0] = (group_peer){ 0, 1000 };
    d->members[1] = (group_peer){ 7, 2000 };
    return d;
}

static bytes encoded(const decision *d) {
    bytes b = { 0 };
    decision_encode(&b, d);
    assert_false(b.failed);
    return b;
}

static void it_arrives_as_it_was_sent(void **state) {
    (void)state;
    decision *d = sample(), *e;
    bytes b = encoded(d);
    reader in = reader_of(b.data, b.size);
    assert_true(decision_decode(&in, &e));
    assert_non_null(e);
    assert_int_equal(reader_left(&in), 0);
    assert_true(e->flags == d->flags && e->id == 77 && e->generation == 4 && !e->error);
    assert_true(e->here[0] && !e->here[1] && e->here[2]);
    assert_string_equal(e->name, "trainers");
    assert_int_equal(e->member_count, 2);
    assert_true(decision_has_member(e, 7, 2000));
    assert_false(decision_has_member(e, 7, 1000));
    assert_false(decision_has_member(e, 1, 2000));
    decision_release(d);
    decision_release(e);
    bytes_fini(&b);
}

static void an_error_arrives_with_its_text(void **state) {
    (void)state;
    decision *d = decision_open(2, 0), *e;
    gw_error error;
    error_set(&error, GW_TIMEOUT, "w1 has not entered");
    error_keep(&d->error, &error);
    d->spares_reforms = true;
    bytes b = encoded(d);
    reader in = reader_of(b.data, b.size);
    assert_true(decision_decode(&in, &e));
    assert_string_equal(error_kept(e->error)->text, "w1 has not entered");
    assert_int_equal(error_kept(e->error)->status, GW_TIMEOUT);
    assert_true(e->spares_reforms);
    decision_release(d);
    decision_release(e);
    bytes_fini(&b);
}

static void a_truncated_decision_is_refused(void **state) {
    (void)state;
    decision *d = sample(), *e;
    bytes b = encoded(d);
    for (size_t size = 0; size < b.size; size++) {
        reader in = reader_of(b.data, size);
        assert_false(decision_decode(&in, &e));
        assert_null(e);
    }
    decision_release(d);
    bytes_fini(&b);
}

static void a_duplicate_member_is_refused(void **state) {
    (void)state;
    decision *d = sample(), *e;
    d->members[1].rank = 0;
    bytes b = encoded(d);
    reader in = reader_of(b.data, b.size);
    assert_false(decision_decode(&in, &e));
    assert_null(e);
    decision_release(d);
    bytes_fini(&b);
}

static void without_memory(void *context) {
    const bytes *b = context;
    decision *e = NULL;
    reader in = reader_of(b->data, b->size);
    assert_true(decision_decode(&in, &e));
    decision_release(e);
}

static void without_memory_there_is_none(void **state) {
    (void)state;
    decision *d = sample();
    bytes b = encoded(d);
    testing_alloc_failure_loop(without_memory, &b);
    decision_release(d);
    bytes_fini(&b);
}

GW_TESTS(collective_decision, it_arrives_as_it_was_sent, an_error_arrives_with_its_text,
         a_truncated_decision_is_refused, a_duplicate_member_is_refused,
         without_memory_there_is_none);
