// Intrusive doubly linked lists. A list head is a node; an element has a node for each list that it
// may be in.
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

typedef struct list_node {
    struct list_node *next, *previous;  // both NULL when in no list
} list_node;

#define list_entry(l, type, member) ((type *)(void *)((char *)(l)-offsetof(type, member)))
#define list_each(l, head)                                                                         \
    for (list_node *l = (head)->next, *l##_next; l##_next = l->next, l != (head); l = l##_next)

static inline void list_init(list_node *head) {
    head->next = head->previous = head;
}
static inline bool list_is_empty(const list_node *head) {
    return head->next == head;
}
static inline bool list_has(const list_node *l) {
    return l->next != NULL;
}

static inline void list_insert_before(list_node *at, list_node *l) {
    l->next = at;
    l->previous = at->previous;
    at->previous->next = l;
    at->previous = l;
}

static inline void list_append(list_node *head, list_node *l) {
    list_insert_before(head, l);
}
static inline void list_prepend(list_node *head, list_node *l) {
    list_insert_before(head->next, l);
}

static inline void list_remove(list_node *l) {
    if (!l->next) return;
    l->next->previous = l->previous;
    l->previous->next = l->next;
    l->next = l->previous = NULL;
}

// Takes the first element out; NULL when empty.
static inline list_node *list_take(list_node *head) {
    if (list_is_empty(head)) return NULL;
    list_node *l = head->next;
    list_remove(l);
    return l;
}

// Moves all elements of |from| to the end of |to|.
static inline void list_splice(list_node *to, list_node *from) {
    if (list_is_empty(from)) return;
    from->next->previous = to->previous;
    to->previous->next = from->next;
    from->previous->next = to;
    to->previous = from->previous;
    list_init(from);
}

#endif
