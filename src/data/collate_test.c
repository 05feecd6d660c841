// The default collate: torch's, over the kinds of values that there are.
#include "data_test.h"

static gw_list *items_of(gw_scope *s, gw_values values) {
    gw_list *items = gw_list_open(s);
    for (int i = 0; i < values.count; i++) gw_list_add(s, items, values.items[i]);
    return items;
}

static gw_value together(gw_scope *s, gw_values values) {
    return gw_default_collate(s, NULL, items_of(s, values));
}

static void tensors_are_stacked(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_tensor_of(
        s, together(s, GW_ARGS(gw_arange(s, GW_I64, 0, 2, 1), gw_arange(s, GW_I64, 2, 4, 1))));
    assert_int_equal(gw_dims(x), 2);
    assert_numbers(s, x, 0, 1, 2, 3);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void numbers_become_tensors(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    assert_numbers(s, gw_tensor_of(s, together(s, GW_ARGS(3, -1))), 3, -1);
    gw_tensor *reals = gw_tensor_of(s, together(s, GW_ARGS(0.5, 2.0)));
    assert_int_equal(gw_dtype_of(reals), GW_F64);
    assert_float_equal(gw_item(s, gw_sum(s, reals)), 2.5, 0);
    gw_tensor *bools =
        gw_tensor_of(s, together(s, GW_ARGS(gw_value_of_bool(true), gw_value_of_bool(false))));
    assert_int_equal(gw_dtype_of(bools), GW_BOOL8);
    assert_int_equal(gw_item_int(s, gw_sum(s, bools)), 1);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void strings_stay_a_list(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_list *words = gw_list_of(s, together(s, GW_ARGS("one", "two")));
    assert_string_equal(gw_string_of(s, gw_list_get(s, words, 1)), "two");
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static gw_map *person(gw_scope *s, const char *name, int age) {
    gw_map *map = gw_map_open(s);
    gw_map_put(s, map, "name", name);
    gw_map_put(s, map, "more", items_of(s, GW_ARGS(age, gw_full(s, GW_F32, age))));
    return map;
}

static void lists_and_maps_are_collated_recursively(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_map *all = gw_map_of(s, together(s, GW_ARGS(person(s, "ada", 36), person(s, "alan", 41))));
    gw_list *more = gw_list_of(s, gw_map_get(s, all, "more"));
    assert_numbers(s, gw_tensor_of(s, gw_list_get(s, more, 0)), 36, 41);
    assert_int_equal(gw_numel(gw_tensor_of(s, gw_list_get(s, more, 1))), 2);
    assert_int_equal(gw_list_count(gw_list_of(s, gw_map_get(s, all, "name"))), 2);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

#define assert_refuses(words, ...)                                                                 \
    do {                                                                                           \
        gw_scope *s = gw_scope_open(NULL);                                                         \
        together(s, GW_ARGS(__VA_ARGS__));                                                         \
        gw_error e = gw_scope_close(s);                                                            \
        assert_true(e.status == GW_INVALID || e.status == GW_NOT_FOUND);                           \
        if (!strstr(e.text, words)) fail_msg("\"%s\" does not contain \"%s\"", e.text, words);     \
    } while (0)

static void mixed_items_are_refused(void **state) {
    (void)state;
    assert_refuses("the first item is int, item 1 is string", 1, "two");
    assert_refuses("items of kind none", gw_none(), gw_none());
    assert_refuses("gw.stack", gw_ones(s, GW_F32, 2), gw_ones(s, GW_F32, 3));
    assert_refuses("one list has 1 elements, but another list has 2", items_of(s, GW_ARGS(1)),
                   items_of(s, GW_ARGS(1, 2)));
    assert_refuses("name", person(s, "ada", 36), gw_map_open(s));
    gw_scope *s = gw_scope_open(NULL);
    together(s, GW_NO_ARGS);
    assert_fails(s, GW_INVALID, "the list of items is empty");
}

GW_TESTS(data_collate, tensors_are_stacked, numbers_become_tensors, strings_stay_a_list,
         lists_and_maps_are_collated_recursively, mixed_items_are_refused);
