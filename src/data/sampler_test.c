// Samplers: PyTorch's lists, each item once, the same order for the same epoch.
#include "data/sampler.h"
#include "data_test.h"
#include "testing/recording.h"

static gw_dataset *tens(gw_scope *s, int64_t count) {
    return gw_dataset_open(s, "tens", count, ten_times, NULL);
}

// The order is given, since PyTorch draws it from another generator.
static void replicas_have_the_items_that_pytorch_gives_them(void **state) {
    (void)state;
    recording r = recording_open(RECORDINGS "samplers.txt");
    int cases = 0;
    for (; recording_takes(&r, "case"); cases++) {
        gw_scope *s = gw_scope_open(NULL);
        int64_t count = (int64_t)recording_number(&r), replicas = (int64_t)recording_number(&r);
        bool drop_last = recording_number(&r) != 0;
        gw_tensor *order = recording_tensor(s, &r);
        for (int64_t rank = 0; rank < replicas; rank++) {
            gw_sampler *p = gw_distributed_sampler(s, tens(s, count), .num_replicas = replicas,
                                                   .rank = rank, .drop_last = drop_last);
            gw_tensor *share = gw_zeros(s, GW_I64, gw_sampler_count(p));
            sampler_share(p, gw_data(order), gw_data_for_write(s, share));
            recording_compare("share", share, recording_tensor(s, &r), 0, 0);
        }
        assert_int_equal(gw_scope_close(s).status, GW_OK);
    }
    assert_int_equal(cases, 22);
    recording_close(&r);
}

static void replicas_share_one_order(void **state) {
    (void)state;
    enum { COUNT = 101, REPLICAS = 4 };
    gw_scope *s = gw_scope_open(NULL);
    int seen[COUNT] = { 0 };
    for (int rank = 0; rank < REPLICAS; rank++) {
        gw_sampler *p = gw_distributed_sampler(s, tens(s, COUNT), .num_replicas = REPLICAS,
                                               .rank = rank, .drop_last = true);
        gw_tensor *mine = gw_sampler_indices(s, p);
        assert_int_equal(gw_numel(mine), 25);
        for (int i = 0; i < 25; i++) seen[((const int64_t *)gw_data(mine))[i]]++;
    }
    int all = 0;
    for (int i = 0; i < COUNT; i++) {
        assert_true(seen[i] <= 1);
        all += seen[i];
    }
    assert_int_equal(all, 100);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void a_random_order_follows_from_seed_and_epoch(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_sampler *a = gw_random_sampler(s, tens(s, 50), 7), *b = gw_random_sampler(s, tens(s, 50), 7);
    gw_sampler *other = gw_random_sampler(s, tens(s, 50), 8);
    gw_tensor *first = gw_sampler_indices(s, a);
    assert_true(gw_equal(s, first, gw_sampler_indices(s, b)));
    assert_false(gw_equal(s, first, gw_sampler_indices(s, other)));
    gw_sampler_set_epoch(s, a, 3);
    assert_int_equal(gw_sampler_epoch(a), 3);
    gw_tensor *third = gw_sampler_indices(s, a);
    assert_false(gw_equal(s, first, third));
    gw_tensor *all = gw_arange(s, GW_I64, 0, 50, 1);
    assert_true(gw_equal(s, gw_sort(s, third).values, all));
    assert_true(gw_equal(s, gw_sampler_indices(s, gw_sequential_sampler(s, tens(s, 50))), all));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

// The numbers are Philox's, the same on every machine.
static void the_order_of_a_seed_stays(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_sampler *p = gw_random_sampler(s, tens(s, 8), 1);
    assert_numbers(s, gw_sampler_indices(s, p), 0, 4, 5, 1, 3, 7, 6, 2);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

#define assert_refuses(sampler, words)                                                             \
    do {                                                                                           \
        gw_scope *s = gw_scope_open(NULL);                                                         \
        assert_int_equal(gw_sampler_count(sampler), 0);                                            \
        assert_fails(s, GW_INVALID, words);                                                        \
    } while (0)

static void an_invalid_share_is_refused(void **state) {
    (void)state;
    assert_refuses(gw_distributed_sampler(s, tens(s, 3)), "num_replicas must be at least 1");
    assert_refuses(gw_distributed_sampler(s, tens(s, 3), .num_replicas = 2), "rank must be 0 to 1");
    assert_refuses(gw_distributed_sampler(s, tens(s, 3), .num_replicas = 2, .rank = 2),
                   "rank must be 0 to 1");
    gw_scope *s = gw_scope_open(NULL);
    gw_sampler_set_epoch(s, gw_random_sampler(s, tens(s, 3), 0), -1);
    assert_fails(s, GW_INVALID, "gw_sampler_set_epoch: the epoch is -1, but must not be negative");
}

GW_TESTS(data_sampler, replicas_have_the_items_that_pytorch_gives_them, replicas_share_one_order,
         a_random_order_follows_from_seed_and_epoch, the_order_of_a_seed_stays,
         an_invalid_share_is_refused);
