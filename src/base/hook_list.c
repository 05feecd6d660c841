#include "base/hook_list.h"

#include "base/mem.h"

#include <string.h>

void hooks_fini(hook_list *all) {
    mem_free(all->items);
    *all = (hook_list){ 0 };
}

bool hooks_copy(hook_list *out, const hook_list *from) {
    *out = (hook_list){ 0 };
    if (!from->count) return true;
    hook_entry *items = mem_alloc((size_t)from->count * sizeof *items);
    if (!items) return false;
    memcpy(items, from->items, (size_t)from->count * sizeof *items);
    *out = (hook_list){ items, from->count, from->removed, from->count, from->last };
    return true;
}

// The index of the first one whose number is above |number|.
static int place_after(const hook_list *all, int number) {
    int low = 0, high = all->count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (all->items[middle].number > number)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

int hooks_add(hook_list *all, hook_function *run, void *context, int kind) {
    if (!mem_grow(&all->items, &all->capacity, (uint32_t)all->count + 1, sizeof *all->items))
        return 0;
    all->items[all->count++] = (hook_entry){ run, context, ++all->last, kind };
    return all->last;
}

// Walks are positions by number, so that gaps can be closed during a walk.
static void close_gaps(hook_list *all) {
    int count = 0;
    for (int i = 0; i < all->count; i++)
        if (all->items[i].run) all->items[count++] = all->items[i];
    all->count = count;
    all->removed = 0;
}

bool hooks_remove(hook_list *all, int number, int kind) {
    int i = place_after(all, number - 1);
    if (i == all->count || all->items[i].number != number || !all->items[i].run ||
        all->items[i].kind != kind)
        return false;
    all->items[i].run = NULL;
    if (++all->removed > all->count / 2) close_gaps(all);
    return true;
}

bool hooks_next(const hook_list *all, hook_walk *w, hook_entry *out) {
    int i = place_after(all, w->after);
    while (i < all->count && !all->items[i].run) i++;
    if (i == all->count || all->items[i].number > w->last) return false;
    *out = all->items[i];
    w->after = out->number;
    return true;
}
