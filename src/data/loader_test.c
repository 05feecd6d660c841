// Loaders: epochs, batches, errors; the same with threads as without.
#include "data_test.h"

#include "base/mem.h"
#include "base/scope.h"

static gw_dataset *tens(gw_scope *s, int64_t count) {
    return gw_dataset_open(s, "tens", count, ten_times, NULL);
}

static void an_epoch_gives_all_items_in_order(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_data_loader *l = gw_data_loader_open(s, tens(s, 5), .batch_size = 2);
    assert_int_equal(gw_data_loader_count(l), 3);
    for (int epoch = 0; epoch < 2; epoch++) {
        assert_int_equal(gw_data_loader_epoch(l), epoch);
        assert_true(gw_data_loader_next(s, l));
        assert_numbers(s, gw_data_loader_tensor(s, l, 0), 0, 10);
        assert_true(gw_data_loader_next(s, l));
        assert_numbers(s, gw_data_loader_tensor(s, l, 0), 20, 30);
        assert_true(gw_data_loader_next(s, l));
        assert_numbers(s, gw_data_loader_tensor(s, l, 0), 40);
        assert_false(gw_data_loader_next(s, l));
    }
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void the_last_batch_may_be_dropped(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_data_loader *l = gw_data_loader_open(s, tens(s, 5), .batch_size = 2, .drop_last = true);
    int batches = 0;
    assert_int_equal(gw_data_loader_count(l), 2);
    while (gw_data_loader_next(s, l)) batches++;
    assert_int_equal(batches, 2);
    gw_data_loader *none = gw_data_loader_open(s, tens(s, 1), .batch_size = 2, .drop_last = true);
    assert_false(gw_data_loader_next(s, none));
    assert_false(gw_data_loader_next(s, gw_data_loader_open(s, tens(s, 0))));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void without_batches_items_are_as_they_are(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_data_loader *l = gw_data_loader_open(s, tens(s, 2), .batch_size = 0);
    assert_int_equal(gw_data_loader_count(l), 2);
    assert_true(gw_data_loader_next(s, l));
    assert_int_equal(gw_int_of(s, gw_data_loader_batch(s, l)), 0);
    assert_true(gw_data_loader_next(s, l));
    assert_int_equal(gw_int_of(s, gw_data_loader_batch(s, l)), 10);
    assert_false(gw_data_loader_next(s, l));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void rows_of_tensors_are_as_if_stacked(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_reshape(s, gw_arange(s, GW_I64, 0, 6, 1), 3, 2);
    gw_dataset *d = gw_tensor_dataset(s, "rows", x, gw_arange(s, GW_I64, 7, 10, 1));
    gw_dataset *last_two = gw_subset(s, d, gw_from(s, ((int64_t[]){ 2, 1 }), 2));
    gw_data_loader *l = gw_data_loader_open(s, last_two, .batch_size = 2);
    gw_data_loader *slow =
        gw_data_loader_open(s, last_two, .batch_size = 2, .collate_fn = gw_default_collate);
    assert_true(gw_data_loader_next(s, l) && gw_data_loader_next(s, slow));
    assert_int_equal(gw_dims(gw_data_loader_tensor(s, l, 0)), 2);
    assert_numbers(s, gw_data_loader_tensor(s, l, 0), 4, 5, 2, 3);
    assert_numbers(s, gw_data_loader_tensor(s, l, 1), 9, 8);
    assert_true(gw_equal(s, gw_data_loader_tensor(s, l, 0), gw_data_loader_tensor(s, slow, 0)));
    assert_true(gw_equal(s, gw_data_loader_tensor(s, l, 1), gw_data_loader_tensor(s, slow, 1)));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

// ---- Threads make no difference -----------------------------------------------------------------
// Its index, and a random number.
static gw_value noisy(gw_scope *s, void *state, int64_t index) {
    (void)state;
    gw_list *item = gw_list_open(s);
    gw_list_add(s, item, index);
    gw_list_add(s, item, gw_randn(s, GW_F32, 3));
    return gw_value_of(item);
}

// Two epochs of indices and numbers, as columns.
static void read_all(gw_scope *s, gw_data_loader *l, gw_tensor **indices, gw_tensor **noise) {
    gw_tensor *is[64], *xs[64];
    int count = 0;
    for (int epoch = 0; epoch < 2; epoch++) {
        while (gw_data_loader_next(s, l)) {
            is[count] = gw_data_loader_tensor(s, l, 0);
            xs[count++] = gw_data_loader_tensor(s, l, 1);
        }
    }
    assert_true(gw_ok(s));
    *indices = gw_cat(s, is, count, 0);
    *noise = gw_cat(s, xs, count, 0);
}

static void threads_and_batches_change_nothing_but_speed(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_dataset *d = gw_dataset_open(s, "noisy", 31, noisy, NULL);
    gw_tensor *indices, *noise, *others, *other_noise;
    read_all(s, gw_data_loader_open(s, d, .batch_size = 4, .shuffle = true, .seed = 5), &indices,
             &noise);
    const int64_t workers[] = { 1, 3, 2 }, sizes[] = { 4, 4, 3 };
    for (int i = 0; i < 3; i++) {
        read_all(s,
                 gw_data_loader_open(s, d, .batch_size = sizes[i], .shuffle = true, .seed = 5,
                                     .num_workers = (int)workers[i]),
                 &others, &other_noise);
        assert_true(gw_equal(s, indices, others));
        assert_true(gw_equal(s, noise, other_noise));
    }
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static gw_tensor *of_seeded(uint64_t seed, int num_workers, gw_scope *s) {
    gw_tensor *indices, *noise;
    gw_seed(s, seed);
    gw_dataset *d = gw_dataset_open(s, "noisy", 31, noisy, NULL);
    read_all(
        s, gw_data_loader_open(s, d, .batch_size = 4, .shuffle = true, .num_workers = num_workers),
        &indices, &noise);
    return indices;
}

static void the_seed_is_the_scope_s_unless_given(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *one = of_seeded(1, 0, s), *again = of_seeded(1, 2, s), *two = of_seeded(2, 0, s);
    assert_true(gw_equal(s, one, again));
    assert_false(gw_equal(s, one, two));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

// The numbers that the program draws, and the stream of its next call, do not depend on the reading threads.
static void the_program_s_own_numbers_stay(void **state) {
    (void)state;
    uint64_t keys[2];
    for (int threads = 0; threads < 2; threads++) {
        gw_scope *s = gw_scope_open(NULL);
        of_seeded(1, threads, s);
        gw_scope *t = gw_scope_open(s);
        keys[threads] =
            scope_call_key(t) ^ (uint64_t)gw_item_int(t, gw_randint(t, GW_I64, 0, 1 << 30));
        assert_int_equal(gw_scope_close(s).status, GW_OK);
    }
    assert_true(keys[0] == keys[1]);
}

static void epochs_can_be_chosen(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    for (int threads = 0; threads < 2; threads++) {
        gw_data_loader *l = gw_data_loader_open(s, tens(s, 40), .batch_size = 40, .shuffle = true,
                                                .seed = 3, .num_workers = threads);
        assert_true(gw_data_loader_next(s, l));
        gw_tensor *first = gw_data_loader_tensor(s, l, 0);
        assert_false(gw_data_loader_next(s, l));
        assert_true(gw_data_loader_next(s, l));
        assert_false(gw_equal(s, first, gw_data_loader_tensor(s, l, 0)));
        gw_data_loader_set_epoch(s, l, 0);
        assert_true(gw_data_loader_next(s, l));
        assert_true(gw_equal(s, first, gw_data_loader_tensor(s, l, 0)));
    }
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void a_distributed_sampler_cuts_it_into_shares(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_dataset *d = tens(s, 5);
    gw_sampler *mine = gw_distributed_sampler(s, d, .num_replicas = 2, .rank = 1, .shuffle = false);
    gw_data_loader *l = gw_data_loader_open(s, d, .batch_size = 2, .sampler = mine);
    assert_true(gw_data_loader_next(s, l));
    assert_numbers(s, gw_data_loader_tensor(s, l, 0), 10, 30);
    assert_true(gw_data_loader_next(s, l));
    assert_numbers(s, gw_data_loader_tensor(s, l, 0), 0);
    assert_false(gw_data_loader_next(s, l));
    assert_int_equal(gw_sampler_epoch(mine), 1);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

// ---- Errors -------------------------------------------------------------------------------------
// Fails for item 3 as often as |state| counts.
static gw_value torn(gw_scope *s, void *state, int64_t index) {
    int *left = state;
    if (index == 3 && *left > 0) {
        --*left;
        gw_fail(s, GW_NOT_FOUND, "the page is torn out");
    }
    return gw_value_of(index);
}

static void an_error_names_the_dataset_and_the_item_and_the_batch_is_read_again(void **state) {
    (void)state;
    for (int threads = 0; threads < 3; threads++) {
        int failures = 1;
        gw_scope *root = gw_scope_open(NULL), *s = gw_scope_open(root);
        gw_dataset *d = gw_dataset_open(root, "book", 6, torn, &failures);
        gw_data_loader *l = gw_data_loader_open(root, d, .batch_size = 2, .num_workers = threads);
        assert_true(gw_data_loader_next(s, l));
        assert_false(gw_data_loader_next(s, l));
        assert_fails(s, GW_NOT_FOUND, "book[3]: the page is torn out");
        gw_data_loader_batch(root, l);
        assert_int_equal(gw_scope_error(root)->status, GW_WRONG_STATE);
        gw_scope_clear(root);
        assert_true(gw_data_loader_next(root, l));
        assert_numbers(root, gw_data_loader_tensor(root, l, 0), 2, 3);
        assert_true(gw_data_loader_next(root, l));
        assert_numbers(root, gw_data_loader_tensor(root, l, 0), 4, 5);
        assert_false(gw_data_loader_next(root, l));
        assert_int_equal(gw_scope_close(root).status, GW_OK);
    }
}

static gw_value of_some_size(gw_scope *s, void *state, int64_t index) {
    (void)state;
    return gw_value_of(gw_ones(s, GW_F32, index));
}

static void an_error_of_collating_names_the_dataset(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_dataset *d = gw_dataset_open(s, "sizes", 3, of_some_size, NULL);
    gw_data_loader_next(s, gw_data_loader_open(s, d, .batch_size = 3));
    assert_fails(s, GW_INVALID, "sizes: gw.stack");
}

#define assert_refuses(words, ...)                                                                 \
    do {                                                                                           \
        gw_scope *s = gw_scope_open(NULL);                                                         \
        gw_dataset *d = tens(s, 3);                                                                \
        assert_false(gw_data_loader_next(s, gw_data_loader_open(s, d, __VA_ARGS__)));              \
        assert_fails(s, GW_INVALID, words);                                                        \
    } while (0)

static void options_that_make_no_sense_are_refused(void **state) {
    (void)state;
    assert_refuses("tens: batch_size is negative", .batch_size = -1);
    assert_refuses(".drop_last cannot be set with .batch_size = 0, which makes no batches",
                   .batch_size = 0, .drop_last = true);
    assert_refuses(".collate_fn cannot be set with .batch_size = 0", .batch_size = 0,
                   .collate_fn = gw_default_collate);
    assert_refuses(".shuffle cannot be set together with .sampler",
                   .sampler = gw_sequential_sampler(s, d), .shuffle = true);
    assert_refuses("the sampler is of another dataset",
                   .sampler = gw_sequential_sampler(s, tens(s, 4)));
    assert_refuses("num_workers is negative", .num_workers = -1);
    assert_refuses("num_workers is above 256", .num_workers = 257);
    assert_refuses("prefetch_factor is below 1", .num_workers = 1, .prefetch_factor = 0);
    assert_refuses("above 4096", .num_workers = 256, .prefetch_factor = 17);
}

static void a_batch_exists_only_after_next(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_data_loader *l = gw_data_loader_open(s, tens(s, 1));
    assert_true(gw_data_loader_next(s, l));
    gw_scope *t = gw_scope_open(s);
    gw_data_loader_tensor(t, l, 1);
    assert_fails(t, GW_INVALID, "tens: tensor 1 was requested, but the batch is tensor");
    assert_false(gw_data_loader_next(s, l));
    gw_data_loader_tensor(s, l, 0);
    assert_fails(s, GW_WRONG_STATE,
                 "tens: there is no current batch: call gw_data_loader_next first");
}

// A batch belongs to its caller, also when the loader has moved on and is gone.
static void a_batch_outlives_its_loader(void **state) {
    (void)state;
    gw_scope *root = gw_scope_open(NULL), *s = gw_scope_open(root);
    gw_data_loader *l = gw_data_loader_open(s, tens(s, 2), .num_workers = 1);
    assert_true(gw_data_loader_next(s, l));
    gw_tensor *first = gw_data_loader_tensor(root, l, 0);
    gw_scope_close_up(s);
    assert_numbers(root, first, 0);
    assert_int_equal(gw_scope_close(root).status, GW_OK);
}

static void read_without_memory(void *context) {
    int threads = *(int *)context;
    gw_scope *s = gw_scope_open(NULL);
    gw_dataset *d = gw_dataset_open(s, "noisy", 5, noisy, NULL);
    gw_data_loader *l = gw_data_loader_open(s, d, .batch_size = 2, .shuffle = true, .seed = 1,
                                            .num_workers = threads);
    int batches = 0;
    while (gw_data_loader_next(s, l)) batches++;
    gw_map *state = gw_data_loader_state_dict(s, l);
    gw_data_loader_load_state_dict(s, l, state);
    gw_error e = gw_scope_close(s);
    assert_true(e.status == GW_NO_MEMORY || (e.status == GW_OK && batches == 3));
}

static void it_survives_the_lack_of_memory(void **state) {
    (void)state;
    for (int threads = 0; threads < 2; threads++)
        testing_alloc_failure_loop(read_without_memory, &threads);
}

static void rows_without_memory(void *context) {
    (void)context;
    gw_scope *s = gw_scope_open(NULL);
    gw_dataset *d = gw_tensor_dataset(s, "rows", gw_ones(s, GW_F32, 4, 2), gw_ones(s, GW_I64, 4));
    gw_dataset *part = gw_subset(s, d, gw_arange(s, GW_I64, 0, 3, 1));
    gw_sampler *mine = gw_distributed_sampler(s, part, .num_replicas = 2, .rank = 0);
    gw_data_loader *l = gw_data_loader_open(s, part, .batch_size = 2, .sampler = mine);
    bool there = gw_data_loader_next(s, l);
    gw_error e = gw_scope_close(s);
    assert_true(e.status == GW_NO_MEMORY || (e.status == GW_OK && there));
}

static void rows_survive_the_lack_of_memory(void **state) {
    (void)state;
    testing_alloc_failure_loop(rows_without_memory, NULL);
}

GW_TESTS(data_loader, an_epoch_gives_all_items_in_order, the_last_batch_may_be_dropped,
         without_batches_items_are_as_they_are, rows_of_tensors_are_as_if_stacked,
         threads_and_batches_change_nothing_but_speed, the_seed_is_the_scope_s_unless_given,
         the_program_s_own_numbers_stay, epochs_can_be_chosen,
         a_distributed_sampler_cuts_it_into_shares,
         an_error_names_the_dataset_and_the_item_and_the_batch_is_read_again,
         an_error_of_collating_names_the_dataset, options_that_make_no_sense_are_refused,
         a_batch_exists_only_after_next, a_batch_outlives_its_loader,
         it_survives_the_lack_of_memory, rows_survive_the_lack_of_memory);
