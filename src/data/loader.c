// Loaders: their life and epochs.
#include "data/loader.h"

#include "base/limits.h"
#include "base/mem.h"
#include "base/value.h"
#include "tensor/tensor.h"

static void drop_batch(gw_data_loader *l) {
    if (l->has_batch) value_free(l->batch);
    l->has_batch = false;
}

static void drop_order(gw_data_loader *l) {
    mem_free(l->order);
    l->order = NULL;
}

void loader_rewind(gw_data_loader *l) {
    if (l->ahead) read_ahead_stop(l->ahead);
    drop_batch(l);
    drop_order(l);
    l->position = 0;
}

static void destroy(gw_handle *h) {
    gw_data_loader *l = (gw_data_loader *)h;
    loader_rewind(l);
    if (l->ahead) read_ahead_close(l->ahead);
    handle_release(l->sampler);
    handle_release(l->dataset);
    mem_give(l, sizeof *l);
}

static const handle_class loader_class = { .name = "data_loader", .destroy = destroy };

static gw_data_loader loader_poison = { .handle = { &loader_class, HANDLE_IMMORTAL } };

bool loader_check(gw_scope *s, const gw_data_loader *l, const char *function) {
    if (gw_ok(s) && !l) scope_fail(s, GW_INVALID, "%s: no loader", function);
    if (gw_ok(s) && l == &loader_poison)
        scope_fail(s, GW_INVALID, "%s: the loader could not be made", function);
    return gw_ok(s);
}

// ---- Making -------------------------------------------------------------------------------------
static const char *problem_of(const gw_dataset *d, const gw_data_loader_options *o) {
    if (o->batch_size < 0) return "batch_size is negative";
    if (o->batch_size == 0 && o->drop_last)
        return ".drop_last cannot be set with .batch_size = 0, which makes no batches";
    if (o->batch_size == 0 && o->collate_fn)
        return ".collate_fn cannot be set with .batch_size = 0, which makes no batches";
    if (o->sampler && o->shuffle) return ".shuffle cannot be set together with .sampler";
    if (o->sampler && o->sampler->total != d->count) return "the sampler is of another dataset";
    if (o->num_workers < 0) return "num_workers is negative";
    if (o->num_workers > LIMIT_LOADER_THREADS) return "num_workers is above 256";
    if (o->num_workers && o->prefetch_factor < 1) return "prefetch_factor is below 1";
    if ((int64_t)o->num_workers * o->prefetch_factor > LIMIT_LOADER_BATCHES)
        return "num_workers times prefetch_factor is above 4096";
    return NULL;
}
_Static_assert(LIMIT_LOADER_THREADS == 256 && LIMIT_LOADER_BATCHES == 4096,
               "as in the texts of errors");

static uint64_t draw_seed(gw_scope *s) {
    uint32_t out[4];
    philox(s->random->key, generator_take(s->random, 1), out);
    return (uint64_t)out[0] << 32 | out[1];
}

static gw_data_loader *make(gw_scope *s, gw_dataset *d, const gw_data_loader_options *o) {
    uint64_t seed = o->seed == GW_NOT_GIVEN ? draw_seed(s) : (uint64_t)o->seed;
    gw_sampler *sampler = o->sampler ? o->sampler : sampler_make(s, d, o->shuffle, seed);
    if (!sampler_check(s, sampler, "gw_data_loader_open")) return &loader_poison;
    gw_data_loader *l = mem_take(sizeof *l);
    if (!l) {
        scope_fail(s, GW_NO_MEMORY, "%s: no memory for a loader", d->name);
        return &loader_poison;
    }
    *l = (gw_data_loader){ .dataset = handle_retain(d),
                           .sampler = handle_retain(sampler),
                           .made_sampler = !o->sampler,
                           .collate = o->collate_fn,
                           .collate_state = o->collate_state,
                           .batch_size = o->batch_size ? o->batch_size : 1,
                           .as_is = o->batch_size == 0,
                           .drop_last = o->drop_last,
                           .seed = seed,
                           .thread_count = o->num_workers,
                           .ahead_count = o->num_workers * o->prefetch_factor };
    handle_init(&l->handle, &loader_class);
    return scope_own(s, l) ? l : &loader_poison;
}

gw_data_loader *gw_data_loader_open_with(gw_scope *s, gw_dataset *d, gw_data_loader_options o) {
    if (!dataset_check(s, d, "gw_data_loader_open")) return &loader_poison;
    if (o.sampler && !sampler_check(s, o.sampler, "gw_data_loader_open")) return &loader_poison;
    const char *problem = problem_of(d, &o);
    if (!problem) return make(s, d, &o);
    scope_fail(s, GW_INVALID, "gw_data_loader_open: %s: %s", d->name, problem);
    return &loader_poison;
}

// ---- Epochs -------------------------------------------------------------------------------------
static bool begin_epoch(gw_scope *s, gw_data_loader *l) {
    int64_t count = gw_sampler_count(l->sampler);
    l->epoch = l->sampler->epoch;
    l->order = mem_alloc((size_t)count * sizeof *l->order);
    if (!l->order)
        scope_fail(s, GW_NO_MEMORY, "%s: no memory for the order of %lld items", l->dataset->name,
                   (long long)count);
    else if (!sampler_draw(s, l->sampler, l->epoch, l->order))
        drop_order(l);
    return gw_ok(s);
}

static void end_epoch(gw_data_loader *l) {
    l->sampler->epoch = l->epoch + 1;
    l->position = 0;
    drop_order(l);
}

bool gw_data_loader_next(gw_scope *s, gw_data_loader *l) {
    if (!loader_check(s, l, "gw_data_loader_next")) return false;
    drop_batch(l);
    if (!l->order && !begin_epoch(s, l)) return false;
    int64_t size = loader_batch_size(l, l->position);
    if (!size) {
        end_epoch(l);
        return false;
    }
    gw_scope *t =
        gw_scope_open(s);  // also for threads, so that |s| continues with the same numbers
    l->has_batch = l->thread_count ? read_ahead_take(t, l, &l->batch)
                                   : loader_read(t, l, l->position, &l->batch);
    gw_scope_close_up(t);
    if (l->has_batch) l->position += size;
    return l->has_batch;
}

int64_t gw_data_loader_count(const gw_data_loader *l) {
    if (!l || !l->batch_size) return 0;
    int64_t items = gw_sampler_count(l->sampler);
    return items / l->batch_size + (items % l->batch_size != 0 && !l->drop_last);
}

int64_t gw_data_loader_epoch(const gw_data_loader *l) {
    if (!l) return 0;
    return l->order ? l->epoch : gw_sampler_epoch(l->sampler);
}

void gw_data_loader_set_epoch(gw_scope *s, gw_data_loader *l, int64_t epoch) {
    if (!loader_check(s, l, "gw_data_loader_set_epoch")) return;
    gw_sampler_set_epoch(s, l->sampler, epoch);
    if (gw_ok(s)) loader_rewind(l);
}

// ---- The current batch --------------------------------------------------------------------
gw_value gw_data_loader_batch(gw_scope *s, gw_data_loader *l) {
    if (!loader_check(s, l, "gw_data_loader_batch")) return gw_none();
    if (!l->has_batch) {
        scope_fail(
            s, GW_WRONG_STATE,
            "gw_data_loader_batch: %s: there is no current batch: call gw_data_loader_next first",
            l->dataset->name);
        return gw_none();
    }
    if (value_handle(l->batch)) gw_keep_handle(s, value_handle(l->batch));
    return gw_ok(s) ? l->batch : gw_none();
}

gw_tensor *gw_data_loader_tensor(gw_scope *s, gw_data_loader *l, int index) {
    gw_value batch = gw_data_loader_batch(s, l);
    if (!gw_ok(s)) return tensor_poison_of(s);
    if (batch.kind == GW_LIST)
        batch = gw_list_get(s, batch.as.list, index);
    else if (index)
        scope_fail(s, GW_INVALID,
                   "gw_data_loader_tensor: %s: tensor %d was requested, but the batch is %s",
                   l->dataset->name, index, gw_kind_name(batch.kind));
    gw_tensor *x = gw_ok(s) ? gw_tensor_of(s, batch) : NULL;
    return x ? x : tensor_poison_of(s);
}
