// Tensors of a module by number: a table that is made at the first lookup, so that a loop over all of
// them does not walk through the module each time.
#include "nn/module.h"

#include "base/mem.h"
#include "base/process_lock.h"

#include <stdatomic.h>

PROCESS_LOCK(lock, PROCESS_LOCK_LEAF, NULL);  // of all tables

typedef struct counter {
    bool of_buffers;
    int count;
    gw_tensor **out;  // NULL: they are counted alone
} counter;

static bool count_own(void *context, const module_path *where, gw_module *m) {
    (void)where;
    counter *c = context;
    const module_parts *own = c->of_buffers ? &m->buffers : &m->parameters;
    m->is_numbered = true;
    for (int i = 0; c->out && i < own->count; i++)
        c->out[c->count + i] = own->items[i].is.parameter;
    c->count += own->count;
    return true;
}

static module_numbers *make(gw_module *m, bool of_buffers) {
    counter c = { .of_buffers = of_buffers };
    module_each(m, NULL, count_own, &c);
    module_numbers *n = mem_alloc(sizeof *n + (size_t)c.count * sizeof *n->tensors);
    if (!n) return NULL;
    n->change = atomic_load_explicit(&module_changes, memory_order_relaxed);
    n->count = c.count;
    c.count = 0;
    c.out = n->tensors;
    module_each(m, NULL, count_own, &c);
    return n;
}

bool module_numbers_get(gw_module *m, bool of_buffers, int index, int *out_count, gw_tensor **out) {
    if (m == &module_poison) return false;
    process_lock_take(&lock);
    module_numbers **at = &m->numbers[of_buffers];
    if (!*at || (*at)->change != atomic_load_explicit(&module_changes, memory_order_relaxed)) {
        mem_free(*at);
        *at = make(m, of_buffers);
    }
    const module_numbers *n = *at;
    if (n) *out_count = n->count;
    if (n && out) *out = index >= 0 && index < n->count ? n->tensors[index] : NULL;
    process_lock_release(&lock);
    return n;
}
