#include "agent/bodies/work.h"

#include "base/mem.h"
#include "base/mutation.h"

work *work_open(void) {
    work *w = mem_take(sizeof *w);
    if (!w) return NULL;
    *w = (work){ .count = 1 };
    list_init(&w->items);
    return w;
}

work *work_retain_on_loop(work *w) {
    if (w) w->count++;
    return w;
}

void work_release_on_loop(work *w) {
    if (!w || --w->count) return;
    while (list_take(&w->items)) continue;
    mem_give(w, sizeof *w);
}

void work_cancel_on_loop(work *w, cancel_reason reason) {
    if (w->cancelled) return;
    atomic_store_explicit(&w->cancelled, (uint8_t)reason, memory_order_release);
    if (has_mutation(MUTATION_CANCEL_IGNORED)) return;
    w->count++;
    for (list_node *l; (l = list_take(&w->items));) {
        work_item *item = list_entry(l, work_item, link);
        item->cancel(item);
    }
    work_release_on_loop(w);
}
