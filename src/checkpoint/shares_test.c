#include "checkpoint/shares.h"
#include "testing/testing.h"

#include <gradwire/ops.h>
#include <string.h>

enum { WRITERS_MAX = 9 };

static void add(checkpoint *c, const char *name, gw_dtype dtype, int64_t count) {
    checkpoint_entry *e = checkpoint_add(c, name);
    assert_non_null(e);
    e->x = gw_zeros_with(c->scope, dtype, GW_SHAPE(count));
    e->dtype = dtype;
}

static void make(checkpoint *c, gw_scope *s) {
    checkpoint_init(c, s);
    add(c, "table", GW_F32, 1000);
    add(c, "none", GW_F32, 0);
    add(c, "step", GW_I64, 1);
    add(c, "mask", GW_BOOL8, 333);
    add(c, "weight", GW_F64, 4000);
    add(c, "bias", GW_F16, 77);
    checkpoint_lay_out(c);
}

// Each byte has one writer, writers ascend, and entries that are not divided are whole.
static void expect_all(const checkpoint *c, const shares *x, int writer_count, uint64_t split,
                       uint64_t *out_sizes) {
    int entry = -1, writer = 0;
    uint64_t at = 0, size = 0;
    for (int i = 0; i < x->count; i++) {
        const share *p = &x->items[i];
        if (p->entry != entry) {
            assert_int_equal(at, size);
            assert_int_equal(p->entry, entry + 1);
            entry = p->entry;
            at = 0;
            size = c->items[entry].end - c->items[entry].begin;
        }
        assert_int_equal(p->first, at);
        assert_true(p->end > p->first || !size);
        assert_true(p->writer >= writer && p->writer < writer_count);
        assert_int_equal(p->is_whole, p->first == 0 && p->end == size);
        if (size < split) assert_true(p->is_whole);
        if (p->end < size) assert_int_equal(p->end % 64, 0);
        writer = p->writer;
        at = p->end;
        out_sizes[writer] += p->end - p->first;
    }
    assert_int_equal(at, size);
    assert_int_equal(entry, c->count - 1);
}

static void each_byte_has_one_writer(void **state) {
    (void)state;
    static const uint64_t splits[] = { 1, 100, 4000, 4001, 1 << 20 };
    gw_scope *s = gw_scope_open(NULL);
    checkpoint c;
    make(&c, s);
    for (size_t k = 0; k < sizeof splits / sizeof *splits; k++) {
        for (int count = 1; count <= WRITERS_MAX; count++) {
            uint64_t sizes[WRITERS_MAX] = { 0 };
            shares x = { 0 };
            testing_note("%d writers, split at %d", count, (int)splits[k]);
            assert_true(shares_divide(&c, count, splits[k], &x));
            expect_all(&c, &x, count, splits[k], sizes);
            shares_fini(&x);
        }
    }
    checkpoint_fini(&c);
    assert_string_equal(gw_scope_close(s).text, "");
}

static void writers_have_equal_shares(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    checkpoint c;
    checkpoint_init(&c, s);
    add(&c, "a", GW_F32, 100000);
    add(&c, "b", GW_F32, 1);
    add(&c, "c", GW_F32, 50000);
    checkpoint_lay_out(&c);
    for (int count = 1; count <= WRITERS_MAX; count++) {
        uint64_t sizes[WRITERS_MAX] = { 0 }, equal = 600004 / (uint64_t)count;
        shares x = { 0 };
        assert_true(shares_divide(&c, count, 1000, &x));
        expect_all(&c, &x, count, 1000, sizes);
        for (int i = 0; i < count; i++)
            assert_true(sizes[i] + 128 > equal && sizes[i] < equal + 128);
        shares_fini(&x);
    }
    checkpoint_fini(&c);
    assert_string_equal(gw_scope_close(s).text, "");
}

static void ranges_are_named_by_their_elements(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    checkpoint c;
    checkpoint_init(&c, s);
    add(&c, "a.weight", GW_F64, 100);
    checkpoint_lay_out(&c);
    shares x = { 0 };
    assert_true(shares_divide(&c, 2, 1, &x));
    assert_int_equal(x.count, 2);
    assert_string_equal(shares_name(s, &c, &x.items[0]), "a.weight[0:48]");
    assert_string_equal(shares_name(s, &c, &x.items[1]), "a.weight[48:100]");
    shares_fini(&x);
    assert_true(shares_divide(&c, 1, 1, &x));
    assert_string_equal(shares_name(s, &c, &x.items[0]), "a.weight");
    shares_fini(&x);
    checkpoint_fini(&c);
    assert_string_equal(gw_scope_close(s).text, "");
}

static void without_values_there_are_no_shares(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    checkpoint c;
    checkpoint_init(&c, s);
    shares x = { 0 };
    assert_true(shares_divide(&c, 3, 1, &x));
    assert_int_equal(x.count, 0);
    checkpoint_fini(&c);
    assert_string_equal(gw_scope_close(s).text, "");
}

GW_TESTS(checkpoint_shares, each_byte_has_one_writer, writers_have_equal_shares,
         ranges_are_named_by_their_elements, without_values_there_are_no_shares);
