#include "base/list.h"

#include "testing/testing.h"

typedef struct item {
    int number;
    list_node link;
} item;

// The numbers of a list, as decimal digits: 1, 2, 3 is 123.
static int digits(list_node *head) {
    int sum = 0;
    list_each(l, head) sum = sum * 10 + list_entry(l, item, link)->number;
    return sum;
}

static void elements_stand_in_the_order_they_were_put(void **state) {
    (void)state;
    list_node head;
    list_init(&head);
    assert_true(list_is_empty(&head));
    item a = { .number = 1 }, b = { .number = 2 }, c = { .number = 3 };
    assert_false(list_has(&a.link));
    list_append(&head, &b.link);
    list_append(&head, &c.link);
    list_prepend(&head, &a.link);
    assert_true(list_has(&a.link));
    assert_int_equal(digits(&head), 123);
}

static void one_can_be_removed_twice(void **state) {
    (void)state;
    list_node head;
    list_init(&head);
    item a = { .number = 1 }, b = { .number = 2 };
    list_append(&head, &a.link);
    list_append(&head, &b.link);
    list_remove(&a.link);
    list_remove(&a.link);
    assert_int_equal(digits(&head), 2);
    list_insert_before(&b.link, &a.link);
    assert_int_equal(digits(&head), 12);
}

static void the_first_is_taken_until_there_is_none(void **state) {
    (void)state;
    list_node head;
    list_init(&head);
    item a = { .number = 1 }, b = { .number = 2 };
    list_append(&head, &a.link);
    list_append(&head, &b.link);
    assert_ptr_equal(list_take(&head), &a.link);
    assert_ptr_equal(list_take(&head), &b.link);
    assert_null(list_take(&head));
    assert_false(list_has(&b.link));
}

static void all_of_one_list_moves_behind_another(void **state) {
    (void)state;
    list_node left, right;
    list_init(&left);
    list_init(&right);
    item a = { .number = 1 }, b = { .number = 2 }, c = { .number = 3 };
    list_splice(&left, &right);
    assert_true(list_is_empty(&left));
    list_append(&left, &a.link);
    list_append(&right, &b.link);
    list_append(&right, &c.link);
    list_splice(&left, &right);
    assert_int_equal(digits(&left), 123);
    assert_true(list_is_empty(&right));
}

static void an_element_may_be_removed_while_all_are_visited(void **state) {
    (void)state;
    list_node head;
    list_init(&head);
    item all[4];
    for (int i = 0; i < 4; i++) {
        all[i] = (item){ .number = i + 1 };
        list_append(&head, &all[i].link);
    }
    list_each(l, &head) {
        if (list_entry(l, item, link)->number % 2) list_remove(l);
    }
    assert_int_equal(digits(&head), 24);
}

GW_TESTS(base_list, elements_stand_in_the_order_they_were_put, one_can_be_removed_twice,
         the_first_is_taken_until_there_is_none, all_of_one_list_moves_behind_another,
         an_element_may_be_removed_while_all_are_visited);
