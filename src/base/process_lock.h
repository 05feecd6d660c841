// Locks of the process, which a process that fork has made can take: the thread that calls fork holds all of them
// meanwhile, so that the data of each is whole in the child.
//
//     PROCESS_LOCK(lock, PROCESS_LOCK_LEAF, NULL);  // in a .c file
//
//     process_lock_take(&lock);
//     process_lock_release(&lock);
//
// Locks of an agent, and of what belongs to an agent, are not such locks: a child does not use them.
//
// Threads: any. A thread that holds such a lock does not call fork.
#ifndef BASE_PROCESS_LOCK_H
#define BASE_PROCESS_LOCK_H

#include <pthread.h>

// A thread that holds a lock takes only those of later kinds.
typedef enum process_lock_order {
    PROCESS_LOCK_MOVE,    // tensor/pool.c: a block that moves into the arena
    PROCESS_LOCK_MOVING,  // tensor/arena.c: its pages
    PROCESS_LOCK_LEAF,
    PROCESS_LOCK_COUNTERS  // base/memory_kinds.c: memory is counted while other locks are held
} process_lock_order;

typedef struct process_lock {
    pthread_mutex_t mutex;
    process_lock_order order;
    void (*begin_child)(void);  // runs in a child while all locks are held; NULL: nothing
    struct process_lock *next;
} process_lock;

// Defines a lock of this file, and registers it before main.
#define PROCESS_LOCK(name, kind, in_child)                                                         \
    static process_lock name;                                                                      \
    __attribute__((constructor)) static void name##_register(void) {                               \
        process_lock_register(&name);                                                              \
    }                                                                                              \
    static process_lock name = { .mutex = PTHREAD_MUTEX_INITIALIZER,                               \
                                 .order = (kind),                                                  \
                                 .begin_child = (in_child) }

void process_lock_register(process_lock *l);

static inline void process_lock_take(process_lock *l) {
    pthread_mutex_lock(&l->mutex);
}
static inline void process_lock_release(process_lock *l) {
    pthread_mutex_unlock(&l->mutex);
}

#endif
