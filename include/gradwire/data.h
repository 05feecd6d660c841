// Data: datasets, samplers, and loaders that give batches.
//
// A dataset is a count and a function that gives an item; a sampler says in which order items are
// read, and by whom; a loader reads them, puts batches together, and may do so ahead of the program,
// on threads of its own. Names and defaults are those of torch.utils.data.
//
//     gw_dataset *train = gw_tensor_dataset(root, "digits", images, labels);      // rows are items
//     gw_data_loader *loader = gw_data_loader_open(root, train, .batch_size = 32, .shuffle = true);
//     for (int epoch = 0; epoch < 10 && gw_ok(root); epoch++) {
//         while (gw_data_loader_next(root, loader)) {                             // false: the epoch is over
//             gw_scope *s = gw_scope_open(root);
//             gw_tensor *x = gw_data_loader_tensor(s, loader, 0), *y = gw_data_loader_tensor(s, loader, 1);
//             gw_backward(s, gw_cross_entropy(s, gw_module_call(s, model, x), y));
//             gw_optimizer_step(s, opt);
//             gw_scope_close_up(s);
//         }
//     }
//
// Items of one's own:
//
//     typedef struct frame {
//         float pixels[3 * 64 * 64];
//         int64_t action;
//     } frame;
//     static frame footage[5000];
//
//     static gw_value frame_of(gw_scope *s, void *state, int64_t index) {
//         const frame *f = (const frame *)state + index;
//         gw_list *item = gw_list_open(s);
//         gw_list_add(s, item, gw_from(s, f->pixels, 3, 64, 64));
//         gw_list_add(s, item, f->action);
//         return gw_value_of(item);
//     }
//
//     gw_dataset *frames = gw_dataset_open(root, "frames", 5000, frame_of, footage);
//     gw_data_loader *ahead = gw_data_loader_open(root, frames, .batch_size = 64, .num_workers = 2);
//
// The batches of an epoch follow from the dataset, the seed, the epoch and the options: not from
// how many threads read them, nor from the machine.
//
// Ownership: datasets, samplers and loaders belong to the scope that made them; a loader holds a
// count on its dataset, a dataset one on its tensors.
// Threads: as the scope. With |num_workers| a dataset's function runs on several threads at once.
#ifndef GRADWIRE_DATA_H
#define GRADWIRE_DATA_H

#include <gradwire/detail/options.h>
#include <gradwire/ops.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- Datasets -----------------------------------------------------------------------------------
typedef struct gw_dataset gw_dataset;

// Gives item |index|: a tensor, a number, a string, or a list or map of such. It draws its random
// numbers from |s|: they follow from the loader's seed, the epoch and the index. Nothing is recorded
// for backward. An error of |s| becomes the loader's, as "frames[17]: ...".
typedef gw_value gw_dataset_item(gw_scope *s, void *state, int64_t index);

// A dataset of |count| items. |name| is for errors; |state| must live as long as the dataset, and be
// such that several threads may read it if a loader has several.
GW_API gw_dataset *gw_dataset_open(gw_scope *s, const char *name, int64_t count,
                                   gw_dataset_item *item, void *state);

// gw_tensor_dataset(s, name, x, ...): item i is a list of row i of each tensor, which all have as
// many rows: torch's TensorDataset. They must not be written to while a loader reads ahead.
GW_API gw_dataset *gw_tensor_dataset(gw_scope *s, const char *name, gw_tensor *const *tensors,
                                     int count) GW_CALLS(gw_tensor_dataset_with);
#define gw_tensor_dataset(s, name, ...) GW_TENSOR_DATASET(s, name, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_tensor_dataset) gw_tensor_dataset_with;

// The items of |d| at |indices| (N, i64): torch's Subset. INVALID if one is out of range.
GW_API gw_dataset *gw_subset(gw_scope *s, gw_dataset *d, const gw_tensor *indices);

GW_API int64_t gw_dataset_count(const gw_dataset *d);
GW_API const char *gw_dataset_name(const gw_dataset *d);

// One item; INVALID when out of range.
GW_API gw_value gw_dataset_get(gw_scope *s, gw_dataset *d, int64_t index);

// ---- Samplers -----------------------------------------------------------------------------------
// Which items an epoch reads, and in which order. A loader makes its own unless it is given one.
typedef struct gw_sampler gw_sampler;

// 0, 1, 2, ...: torch's SequentialSampler.
GW_API gw_sampler *gw_sequential_sampler(gw_scope *s, gw_dataset *d);

// All items in an order that follows from seed and epoch: torch's RandomSampler, with other numbers.
GW_API gw_sampler *gw_random_sampler(gw_scope *s, gw_dataset *d, uint64_t seed);

// torch's DistributedSampler: of an order that is the same on all replicas, replica |rank| has every
// |num_replicas|th item from its rank on. So that all have as many, the order is filled up with
// items from its beginning, or cut short with |drop_last|.
typedef struct GW_BY_NAME gw_distributed_sampler_options {
    int64_t num_replicas GW_DEFAULT(GW_NOT_GIVEN);  // to be given
    int64_t rank GW_DEFAULT(GW_NOT_GIVEN);          // to be given
    bool shuffle GW_DEFAULT(true);
    bool drop_last GW_DEFAULT(false);
    uint64_t seed GW_DEFAULT(0);  // the same on all replicas
} gw_distributed_sampler_options;

GW_API gw_sampler *gw_distributed_sampler(gw_scope *s, gw_dataset *d,
                                          gw_distributed_sampler_options options GW_DEFAULT({}))
    GW_CALLS(gw_distributed_sampler_with);
#define gw_distributed_sampler(...)                                                                \
    GW_FORM_2(gw_distributed_sampler, gw_distributed_sampler_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_distributed_sampler) gw_distributed_sampler_with;

// The epoch that is read next, 0 at first; a loader counts it on. torch's set_epoch.
GW_API void gw_sampler_set_epoch(gw_scope *s, gw_sampler *sampler, int64_t epoch);
GW_API int64_t gw_sampler_epoch(const gw_sampler *sampler);

GW_API int64_t gw_sampler_count(const gw_sampler *sampler);              // items in an epoch
GW_API gw_tensor *gw_sampler_indices(gw_scope *s, gw_sampler *sampler);  // of this epoch: N, i64

// ---- Loaders ------------------------------------------------------------------------------------
typedef struct gw_data_loader gw_data_loader;

// Puts the items of a batch together. May run on the loader's threads, as a dataset's function.
typedef gw_value gw_collate(gw_scope *s, void *state, gw_list *items);

// How it is done unless a loader is told otherwise: tensors are stacked in a new first dimension;
// ints, floats and bools become tensors of i64, f64 and bool; lists and maps are put together
// element by element; strings and bytes become lists. torch's default_collate. INVALID for items
// of different kinds or sizes, and for what has no such form.
GW_API gw_value gw_default_collate(gw_scope *s, void *unused, gw_list *items);

typedef struct GW_BY_NAME gw_data_loader_options {
    int64_t batch_size GW_DEFAULT(1);  // 0: each item as it is, torch's None
    bool shuffle GW_DEFAULT(false);    // not together with |sampler|
    gw_sampler *sampler GW_DEFAULT(NULL);

    // Threads that read ahead, each |prefetch_factor| batches; 0: gw_data_loader_next reads.
    int num_workers GW_DEFAULT(0);
    int prefetch_factor GW_DEFAULT(2);

    gw_collate *collate_fn GW_DEFAULT(NULL);  // gw_default_collate
    void *collate_state GW_DEFAULT(NULL);     // lives as long as the loader
    bool drop_last GW_DEFAULT(false);         // leave out a last batch that is not full

    // Of the order and of items' random numbers; else drawn from the scope's generator.
    int64_t seed GW_DEFAULT(GW_NOT_GIVEN);
} gw_data_loader_options;

GW_API gw_data_loader *gw_data_loader_open(gw_scope *s, gw_dataset *d,
                                           gw_data_loader_options options GW_DEFAULT({}))
    GW_CALLS(gw_data_loader_open_with);
#define gw_data_loader_open(...) GW_FORM_2(gw_data_loader_open, gw_data_loader_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_data_loader_open) gw_data_loader_open_with;

// Moves on to the next batch, and waits for it. False at the end of an epoch, and the next call
// begins the next epoch; false, too, if |s| fails. The batch that failed is then read again by the
// next call. Fails with the error of an item, TIMEOUT by the deadline of |s|, and with threads
// WOULD_BLOCK in a GW_INLINE function.
// A dataset's function runs in a scope inside |s|, and may make calls. On threads it runs in a scope
// that has neither agent nor deadline.
GW_API bool gw_data_loader_next(gw_scope *s, gw_data_loader *loader);

// Of the batch that gw_data_loader_next has moved to: its tensor |index|, if it is a list, or the
// tensor that it is, index 0; or all of it. Strings live until the loader moves on. WRONG_STATE if
// there is none.
GW_API gw_tensor *gw_data_loader_tensor(gw_scope *s, gw_data_loader *loader, int index);
GW_API gw_value gw_data_loader_batch(gw_scope *s, gw_data_loader *loader);

GW_API int64_t gw_data_loader_count(const gw_data_loader *loader);  // batches in an epoch

// The epoch of the next batch, and the start of another one, wherever the loader is.
GW_API int64_t gw_data_loader_epoch(const gw_data_loader *loader);
GW_API void gw_data_loader_set_epoch(gw_scope *s, gw_data_loader *loader, int64_t epoch);

// Where the loader is, as a map of numbers: what was read ahead and not given counts as unread. A
// loader over a dataset and a sampler of the same counts that loads it goes on with the same items;
// INVALID for others, and then nothing has changed.
GW_API gw_map *gw_data_loader_state_dict(gw_scope *s, gw_data_loader *loader);
GW_API void gw_data_loader_load_state_dict(gw_scope *s, gw_data_loader *loader, gw_map *state);

#ifdef __cplusplus
}
#endif
#include <gradwire/detail/data.h>
#endif
