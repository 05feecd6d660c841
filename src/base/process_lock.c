#include "base/process_lock.h"

#include <stddef.h>

static process_lock *first;  // by their orders; complete before main

static void take_all(void) {
    for (process_lock *l = first; l; l = l->next) process_lock_take(l);
}

static void release_all(void) {
    for (process_lock *l = first; l; l = l->next) process_lock_release(l);
}

static void begin_child(void) {
    for (process_lock *l = first; l; l = l->next)
        if (l->begin_child) l->begin_child();
    release_all();
}

void process_lock_register(process_lock *l) {
    process_lock **at = &first;
    if (!first) pthread_atfork(take_all, release_all, begin_child);
    while (*at && (*at)->order <= l->order) at = &(*at)->next;
    l->next = *at;
    *at = l;
}
