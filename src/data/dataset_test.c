// Datasets: items of functions, rows of tensors, subsets.
#include "data_test.h"

static void a_function_gives_items(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_dataset *d = gw_dataset_open(s, "tens", 5, ten_times, NULL);
    assert_int_equal(gw_dataset_count(d), 5);
    assert_string_equal(gw_dataset_name(d), "tens");
    assert_int_equal(gw_int_of(s, gw_dataset_get(s, d, 4)), 40);
    gw_dataset_get(s, d, 5);
    assert_fails(s, GW_INVALID, "gw_dataset_get: tens: item 5 is out of range for 5 items");
}

static gw_tensor *numbers(gw_scope *s, int64_t rows, int64_t columns) {
    return gw_reshape(s, gw_arange(s, GW_I64, 0, (double)(rows * columns), 1), rows, columns);
}

static void rows_of_tensors_are_items(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_dataset *d = gw_tensor_dataset(s, "rows", numbers(s, 3, 2), numbers(s, 3, 1));
    gw_list *item = gw_list_of(s, gw_dataset_get(s, d, 1));
    assert_int_equal(gw_dataset_count(d), 3);
    assert_int_equal(gw_list_count(item), 2);
    assert_numbers(s, gw_tensor_of(s, gw_list_get(s, item, 0)), 2, 3);
    assert_numbers(s, gw_tensor_of(s, gw_list_get(s, item, 1)), 1);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void an_item_is_a_copy_of_its_row(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = numbers(s, 3, 2);
    gw_list *item = gw_list_of(s, gw_dataset_get(s, gw_tensor_dataset(s, "rows", x), 0));
    gw_zero_(s, gw_tensor_of(s, gw_list_get(s, item, 0)));
    assert_numbers(s, x, 0, 1, 2, 3, 4, 5);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void a_subset_has_the_items_it_names(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_dataset *all = gw_dataset_open(s, "tens", 5, ten_times, NULL);
    gw_dataset *some = gw_subset(s, all, gw_from(s, ((int64_t[]){ 4, 0, 4 }), 3));
    gw_dataset *fewer = gw_subset(s, some, gw_from(s, ((int64_t[]){ 2, 1 }), 2));
    assert_int_equal(gw_dataset_count(some), 3);
    assert_int_equal(gw_int_of(s, gw_dataset_get(s, some, 2)), 40);
    assert_int_equal(gw_int_of(s, gw_dataset_get(s, fewer, 0)), 40);
    assert_int_equal(gw_int_of(s, gw_dataset_get(s, fewer, 1)), 0);
    gw_subset(s, some, gw_from(s, ((int64_t[]){ 3 }), 1));
    assert_fails(s, GW_INVALID, "gw_subset: tens: index 3 is out of range for 3 items");
}

#define assert_refuses(make, words)                                                                \
    do {                                                                                           \
        gw_scope *s = gw_scope_open(NULL);                                                         \
        gw_dataset *d = make;                                                                      \
        assert_int_equal(gw_dataset_count(d), 0);                                                  \
        assert_fails(s, GW_INVALID, words);                                                        \
    } while (0)

static void an_invalid_dataset_is_refused(void **state) {
    (void)state;
    assert_refuses(gw_dataset_open(s, "", 3, ten_times, NULL), "gw_dataset_open: no name");
    assert_refuses(gw_dataset_open(s, "tens", -1, ten_times, NULL), "tens: the count is negative");
    assert_refuses(gw_dataset_open(s, "tens", 3, NULL, NULL), "tens: no function");
    assert_refuses(gw_tensor_dataset(s, "rows", numbers(s, 3, 2), numbers(s, 4, 2)),
                   "gw_tensor_dataset: rows: tensor 1 has 4 rows, but the first has 3");
    assert_refuses(gw_tensor_dataset(s, "rows", gw_ones(s, GW_F32)),
                   "rows: tensor 0 is a scalar, which has no rows");
    assert_refuses(gw_tensor_dataset_with(s, "rows", NULL, 0), "rows: no tensors");
    assert_refuses(
        gw_subset(s, gw_tensor_dataset(s, "rows", numbers(s, 3, 2)), gw_ones(s, GW_F32, 2)),
        "gw_subset: rows: the indices must be a tensor of one dimension and i64");
}

static void a_dataset_that_failed_is_refused_elsewhere(void **state) {
    (void)state;
    gw_scope *failed = gw_scope_open(NULL), *s = gw_scope_open(NULL);
    gw_dataset *d = gw_dataset_open(failed, "tens", -1, ten_times, NULL);
    assert_int_equal(gw_scope_close(failed).status, GW_INVALID);
    gw_data_loader_open(s, d);
    assert_fails(s, GW_INVALID, "gw_data_loader_open: the dataset could not be made");
}

GW_TESTS(data_dataset, a_function_gives_items, rows_of_tensors_are_items,
         an_item_is_a_copy_of_its_row, a_subset_has_the_items_it_names,
         an_invalid_dataset_is_refused, a_dataset_that_failed_is_refused_elsewhere);
