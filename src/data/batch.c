// Reading a batch: its items, each with random numbers of its own, collated.
#include "data/loader.h"

#include "base/value.h"

int64_t loader_batch_size(const gw_data_loader *l, int64_t start) {
    int64_t left = gw_sampler_count(l->sampler) - start;
    if (left >= l->batch_size) return l->batch_size;
    return l->drop_last || left < 0 ? 0 : left;
}

// Puts an item behind |items|. Its random numbers are the same in whichever batch it is.
static void read_item(gw_scope *s, const gw_data_loader *l, int64_t index, gw_list *items) {
    gw_scope *t = gw_scope_open(s);
    generator of_epoch = { .key = sampler_key(l->seed, l->epoch) };
    gw_scope_label(t, "%s[%lld]", l->dataset->name, (long long)index);
    gw_seed(t, generator_split(&of_epoch, (uint64_t)index));
    gw_value item = dataset_read(t, l->dataset, index);
    if (gw_ok(t)) gw_list_add_with(t, items, item);
    gw_scope_close_up(t);
}

typedef struct collating {
    gw_scope *s;
    const gw_data_loader *loader;
    gw_list *items;
    gw_value batch;
} collating;

static void run_collate(void *context) {
    collating *c = context;
    gw_collate *collate = c->loader->collate ? c->loader->collate : gw_default_collate;
    c->batch = collate(c->s, c->loader->collate_state, c->items);
}

static gw_value make_batch(gw_scope *s, const gw_data_loader *l, const int64_t *indices,
                           int64_t count) {
    if (!l->collate && !l->as_is && dataset_has_rows(l->dataset))
        return dataset_read_rows(s, l->dataset, indices, count);
    collating c = { s, l, gw_list_open(s), gw_none() };
    for (int64_t i = 0; i < count && gw_ok(s); i++) read_item(s, l, indices[i], c.items);
    if (!gw_ok(s) || l->as_is) return gw_ok(s) ? gw_list_get(s, c.items, 0) : gw_none();
    gw_scope_label(s, "%s", l->dataset->name);
    scope_run(s, run_collate, &c);
    return c.batch;
}

bool loader_read(gw_scope *s, const gw_data_loader *l, int64_t start, gw_value *out) {
    s->grad_enabled = false;
    gw_value batch = make_batch(s, l, l->order + start, loader_batch_size(l, start));
    if (gw_ok(s) && !value_copy(out, batch))
        scope_fail(s, GW_NO_MEMORY, "%s: no memory for a batch", l->dataset->name);
    return gw_ok(s);
}
