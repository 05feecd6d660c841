#include "base/value.h"

#include "base/mem.h"
#include "base/scope.h"
#include "testing/testing.h"

#include <gradwire/binding.h>
#include <stdio.h>
#include <string.h>

static void assert_failed(gw_scope *s, gw_status status, const char *text) {
    assert_int_equal(gw_scope_error(s)->status, status);
    assert_string_equal(gw_scope_error(s)->text, text);
    gw_scope_clear(s);
}

static void c_values_become_values(void **state) {
    (void)state;
    assert_int_equal(gw_value_of(3).kind, GW_INT);
    assert_int_equal(gw_value_of((unsigned char)3).kind, GW_INT);
    assert_int_equal(gw_value_of(UINT64_MAX).as.integer, -1);
    assert_int_equal(gw_value_of(2.5f).kind, GW_FLOAT);
    assert_int_equal(gw_value_of((bool)1).kind, GW_BOOL);
    assert_int_equal(gw_value_of("four").size, 4);
    assert_int_equal(gw_value_of((char *)NULL).kind, GW_NONE);
    assert_int_equal(gw_value_of((gw_tensor *)NULL).kind, GW_NONE);
    assert_int_equal(gw_value_of_bytes("ab", 3).size, 3);
    assert_int_equal(gw_value_of(gw_value_of(7)).as.integer, 7);
}

static void kinds_have_names(void **state) {
    (void)state;
    for (int kind = 0; kind < GW_KIND_COUNT; kind++)
        assert_string_not_equal(gw_kind_name((gw_kind)kind), "unknown kind");
    assert_string_equal(gw_kind_name(GW_TENSOR), "tensor");
    assert_string_equal(gw_kind_name(GW_KIND_COUNT), "unknown kind");
}

static void accessors_check_the_kind(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_worker w = { .name = "ps", .rank = 2 };
    assert_true(gw_bool_of(s, gw_value_of_bool(true)));
    assert_true(gw_bool_of(s, gw_value_of(true)));  // an int in C
    assert_int_equal(gw_int_of(s, gw_value_of(-5)), -5);
    assert_true(gw_float_of(s, gw_value_of(2.5)) == 2.5);
    assert_true(gw_float_of(s, gw_value_of(2)) == 2);
    assert_string_equal(gw_string_of(s, gw_value_of("ps")), "ps");
    assert_int_equal(gw_worker_of(s, gw_value_of(&w)).rank, 2);
    assert_string_equal(gw_worker_of(s, gw_value_of(w)).name, "ps");
    assert_int_equal(gw_value_of((gw_worker *)NULL).kind, GW_NONE);
    assert_true(gw_ok(s));
    gw_scope_close_up(s);
}

static void another_kind_fails_the_scope(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    assert_int_equal(gw_int_of(s, gw_value_of("3")), 0);
    assert_int_equal(gw_int_of(s, gw_none()), 0);  // already failed: the first error stays
    assert_failed(s, GW_INVALID, "gw_int_of: expected int, got string");
    assert_int_equal(gw_int_of(s, gw_value_of(3.0)), 0);
    assert_failed(s, GW_INVALID, "gw_int_of: expected int, got float");
    assert_false(gw_bool_of(s, gw_value_of(2)));
    assert_failed(s, GW_INVALID, "gw_bool_of: expected bool, got int");
    assert_true(gw_float_of(s, gw_none()) == 0);
    assert_failed(s, GW_INVALID, "gw_float_of: expected float, got none");
    assert_string_equal(gw_string_of(s, gw_value_of(1)), "");
    assert_failed(s, GW_INVALID, "gw_string_of: expected string, got int");
    assert_string_equal(gw_worker_of(s, gw_value_of(1)).name, "");
    assert_failed(s, GW_INVALID, "gw_worker_of: expected worker, got int");
    assert_int_equal(gw_list_count(gw_list_of(s, gw_value_of(1))), 0);
    assert_failed(s, GW_INVALID, "gw_list_of: expected list, got int");
    assert_int_equal(gw_map_count(gw_map_of(s, gw_value_of(1))), 0);
    assert_failed(s, GW_INVALID, "gw_map_of: expected map, got int");
    gw_scope_close_up(s);
}

// ---- Lists --------------------------------------------------------------------------------------
static void a_list_keeps_copies(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_list *list = gw_list_open(s);
    char text[] = "one", name[] = "ps";
    gw_worker w = { .name = name, .rank = 1 };
    gw_error e = { .status = GW_TIMEOUT, .text = "late" };
    gw_list_add(s, list, text);
    gw_list_add(s, list, gw_value_of_bytes("\0\1", 2));
    gw_list_add(s, list, &w);
    gw_list_add(s, list, &e);
    gw_list_add(s, list, gw_value_of_bytes(NULL, 0));
    text[0] = name[0] = e.text[0] = 'X';
    assert_int_equal(gw_list_count(list), 5);
    assert_string_equal(gw_string_of(s, gw_list_get(s, list, 0)), "one");
    gw_values items = gw_list_items(list);
    assert_int_equal(items.count, gw_list_count(list));
    assert_string_equal(gw_string_of(s, items.items[0]), "one");
    assert_int_equal(gw_list_items(NULL).count, 0);
    assert_memory_equal(gw_list_get(s, list, 1).as.bytes, "\0\1", 2);
    assert_string_equal(gw_worker_of(s, gw_list_get(s, list, 2)).name, "ps");
    assert_string_equal(gw_list_get(s, list, 3).as.error->text, "late");
    assert_int_equal(gw_list_get(s, list, 4).size, 0);
    assert_int_equal(gw_list_get(s, list, 5).kind, GW_NONE);
    assert_failed(s, GW_INVALID, "item 5 is out of range for a list of 5 items");
    assert_int_equal(gw_list_get(s, list, -1).kind, GW_NONE);
    assert_failed(s, GW_INVALID, "item -1 is out of range for a list of 5 items");
    gw_scope_close_up(s);
}

static void a_list_holds_counts(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL), *inner = gw_scope_open(s);
    gw_list *outer = gw_list_open(s), *item = gw_list_open(inner);
    gw_list_add(inner, item, 7);
    gw_list_add(s, outer, item);
    gw_scope_close_up(inner);
    assert_int_equal(gw_int_of(s, gw_list_get(s, gw_list_of(s, gw_list_get(s, outer, 0)), 0)), 7);
    gw_scope_close_up(s);
}

static void no_container_contains_itself(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_list *list = gw_list_open(s);
    gw_map *map = gw_map_open(s);
    gw_list_add(s, list, list);
    assert_failed(s, GW_INVALID, "a list cannot be put into itself");
    gw_map_put(s, map, "list", list);
    gw_list_add(s, list, map);
    assert_failed(s, GW_INVALID, "a map cannot be put into itself");
    gw_list *twice = gw_list_open(s);
    gw_list_add(s, twice, map);
    gw_list_add(s, twice, map);
    gw_list_add(s, list, twice);
    assert_failed(s, GW_INVALID, "a list cannot be put into itself");
    gw_map_put(s, map, "twice", gw_list_open(s));
    assert_true(gw_ok(s));
    gw_scope_close_up(s);
}

// ---- Maps ---------------------------------------------------------------------------------------
// A hundred thousand lists in lists, and maps in maps, are more than the stack has room for.
static void deep_nesting_is_freed(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_list *list = gw_list_open(s);
    gw_map *map = gw_map_open(s);
    for (int i = 0; i < 100000; i++) {
        gw_list *outer_list = gw_list_open(s);
        gw_map *outer_map = gw_map_open(s);
        gw_list_add(s, outer_list, list);
        gw_map_put(s, outer_map, "map", map);
        gw_set(s, &list, (gw_list *)NULL);
        gw_set(s, &map, (gw_map *)NULL);
        list = outer_list;
        map = outer_map;
    }
    gw_list *holder = gw_list_open(s), *both = gw_list_open(s);
    gw_list_add(s, both, holder);
    gw_list_add(s, holder, map);  // which is walked through to its end
    assert_true(gw_ok(s));
    gw_list *innermost = list;
    while (gw_list_count(innermost)) innermost = gw_list_of(s, gw_list_get(s, innermost, 0));
    gw_list_add(s, innermost, list);
    assert_failed(s, GW_INVALID, "a list cannot be put into itself");
    gw_scope_close_up(s);
}

static void nothing_at_null_has_a_size(void **state) {
    (void)state;
    assert_int_equal(gw_value_of_bytes(NULL, 5).kind, GW_NONE);
    assert_int_equal(gw_value_of_bytes(NULL, 0).kind, GW_BYTES);
}

static void a_map_is_ordered_by_insertion(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_map *map = gw_map_open(s);
    char key[24];
    for (int i = 0; i < 100; i++) {
        snprintf(key, sizeof key, "key %d", 99 - i);
        gw_map_put(s, map, key, i);
    }
    gw_map_put(s, map, "key 50", "replaced");
    assert_int_equal(gw_map_count(map), 100);
    assert_string_equal(gw_map_key(s, map, 0), "key 99");
    assert_string_equal(gw_map_key(s, map, 49), "key 50");
    assert_string_equal(gw_string_of(s, gw_map_get(s, map, "key 50")), "replaced");
    assert_int_equal(gw_int_of(s, gw_map_get(s, map, "key 0")), 99);
    assert_int_equal(gw_map_find(map, "absent").kind, GW_NONE);
    assert_int_equal(gw_map_get(s, map, "absent").kind, GW_NONE);
    assert_failed(s, GW_NOT_FOUND, "gw_map_get: no \"absent\" in the map");
    assert_string_equal(gw_map_key(s, map, 100), "");
    assert_failed(s, GW_INVALID, "key 100 is out of range for a map of 100 keys");
    gw_scope_close_up(s);
}

static void a_failed_scope_makes_containers_that_swallow_everything(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_fail(s, GW_CANCELLED, "stop");
    gw_list *list = gw_list_open(s);
    gw_map *map = gw_map_open(s);
    gw_scope_clear(s);
    gw_list_add(s, list, 1);
    gw_map_put(s, map, "one", 1);
    assert_int_equal(gw_list_count(list), 0);
    assert_int_equal(gw_map_count(map), 0);
    gw_scope_close_up(s);
}

static void use_containers(void *context) {
    (void)context;
    gw_scope *s = gw_scope_open(NULL);
    gw_list *list = gw_list_open(s);
    gw_map *map = gw_map_open(s);
    gw_worker w = { .name = "ps" };
    for (int i = 0; i < 10; i++) gw_list_add(s, list, "text");
    gw_list_add(s, list, &w);
    gw_map_put(s, map, "list", list);
    gw_map_put(s, map, "text", "text");
    gw_map_put(s, map, "text", "other");
    if (gw_ok(s)) assert_int_equal(gw_map_count(map), 2);
    gw_error error = gw_scope_close(s);
    assert_true(error.status == GW_OK || error.status == GW_NO_MEMORY);
}

static void it_survives_without_memory(void **state) {
    (void)state;
    testing_alloc_failure_loop(use_containers, NULL);
}

static void null_is_no_container(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    assert_int_equal(gw_list_count(NULL), 0);
    assert_int_equal(gw_map_count(NULL), 0);
    assert_int_equal(gw_map_find(NULL, "a").kind, GW_NONE);
    gw_list_get(s, NULL, 0);
    assert_string_equal(gw_scope_error(s)->text, "the list is NULL");
    gw_scope_clear(s);
    gw_map_put(s, NULL, "a", 1);
    assert_string_equal(gw_scope_error(s)->text, "the map is NULL");
    gw_scope_clear(s);
    gw_scope_close_up(s);
}

GW_TESTS(base_value, null_is_no_container, c_values_become_values, kinds_have_names,
         accessors_check_the_kind, another_kind_fails_the_scope, a_list_keeps_copies,
         a_list_holds_counts, no_container_contains_itself, deep_nesting_is_freed,
         nothing_at_null_has_a_size, a_map_is_ordered_by_insertion,
         a_failed_scope_makes_containers_that_swallow_everything, it_survives_without_memory);
