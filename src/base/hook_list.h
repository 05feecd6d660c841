// Functions of the program that are called in the order in which they were registered, each under a number.
//
//     hook_entry h;
//     for (hook_walk w = hooks_walk(&hooks); hooks_next(&hooks, &w, &h);) ((forward_hook *)h.run)(x, h.context);
//
// A called function may add and remove hooks, itself among them, and begin another walk. A removed hook is not
// called any more; an added one is called from the next walk on.
#ifndef BASE_HOOK_LIST_H
#define BASE_HOOK_LIST_H

#include <stdbool.h>
#include <stdint.h>

typedef void hook_function(void);

typedef struct hook_entry {
    hook_function *run;  // cast to its type by the caller; NULL: removed
    void *context;
    int number;  // ascending
    int kind;    // the caller's
} hook_entry;

typedef struct hook_list {
    hook_entry *items;
    int count, removed;  // |count| with those that are removed
    uint32_t capacity;
    int last;  // number
} hook_list;

void hooks_fini(hook_list *all);
bool hooks_copy(hook_list *out, const hook_list *from);  // false without memory

// The number of the hook, from 1 on; 0 without memory.
int hooks_add(hook_list *all, hook_function *run, void *context, int kind);

// False if there is no such hook of |kind|.
bool hooks_remove(hook_list *all, int number, int kind);

static inline bool hooks_any(const hook_list *all) {
    return all->count > all->removed;
}

typedef struct hook_walk {
    int after, last;  // numbers
} hook_walk;

static inline hook_walk hooks_walk(const hook_list *all) {
    return (hook_walk){ 0, all->last };
}

// False at the end.
bool hooks_next(const hook_list *all, hook_walk *w, hook_entry *out);

#endif
