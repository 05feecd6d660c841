// Data: datasets, samplers, and loaders that give batches.
//
// A dataset is a count of items and a function that returns an item. A sampler decides which items an epoch reads, and
// in which order. A loader reads the items and puts batches together, when the program requests them, or earlier, on
// threads of the loader. Names and defaults are those of torch.utils.data.
//
//     gw_dataset *train = gw_tensor_dataset(root, "digits", images, labels);      // rows are items
//     gw_data_loader *loader = gw_data_loader_open(root, train, .batch_size = 32, .shuffle = true);
//     for (int epoch = 0; epoch < 10 && gw_ok(root); epoch++) {
//         while (gw_data_loader_next(root, loader)) {                             // false: the epoch has ended
//             gw_scope *s = gw_scope_open(root);
//             gw_tensor *x = gw_data_loader_tensor(s, loader, 0), *y = gw_data_loader_tensor(s, loader, 1);
//             gw_backward(s, gw_cross_entropy(s, gw_module_call(s, model, x), y));
//             gw_optimizer_step(s, opt);
//             gw_scope_close_up(s);
//         }
//     }
//
// Items of a program:
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
// The batches of an epoch depend on the dataset, the seed, the epoch and the options, not on the number of threads or
// the machine.
//
// Errors, of all functions: INVALID for arguments out of range; NO_MEMORY.
// Ownership: datasets, samplers and loaders belong to the scope that made them; a loader holds a count on its dataset, a
// dataset on its tensors.
// Threads: the same as for the scope. With .num_workers a dataset's function runs on several threads at once.
#ifndef GRADWIRE_DATA_H
#define GRADWIRE_DATA_H

#include <gradwire/ops.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- Datasets -----------------------------------------------------------------------------------

/// A count of items and a function that returns one, opened by gw_dataset_open or gw_tensor_dataset.
typedef struct gw_dataset gw_dataset;

/// The function of a dataset: returns item |index|, a tensor, a number, a string, or a list or map of these. Random
/// numbers drawn in |s| depend on the loader's seed, the epoch and |index|. Nothing is recorded for backward. |s| is
/// inside the scope of gw_data_loader_next, so that the function may make calls; on a thread of .num_workers |s| has
/// neither agent nor deadline. If |s| fails, the loader fails with the error of |s|, as "frames[17]: ...".
///
/// Returns: the item.
typedef gw_value gw_dataset_item(gw_scope *s, void *state, int64_t index);

/// Makes a dataset of |count| items.
///
/// name: the name in errors.
/// state: passed to |item|; the caller keeps it valid as long as the dataset lives. If a loader has several threads,
/// all of them read |state|.
/// Returns: the dataset. Source: torch.utils.data.Dataset.
GW_API gw_dataset *gw_dataset_open(gw_scope *s, const char *name, int64_t count,
                                   gw_dataset_item *item, void *state);

/// Makes a dataset of the rows of tensors: gw_tensor_dataset(s, name, x, ...). Item i is a list with row i of each
/// tensor.
///
/// tensors: listed one by one in the short form; all have the same number of rows, and the program does not write to
/// them while a loader reads ahead.
/// Returns: the dataset.
/// Source: torch.utils.data.TensorDataset.
GW_API gw_dataset *gw_tensor_dataset(gw_scope *s, const char *name, gw_tensor *const *tensors,
                                     int count) GW_CALLS(gw_tensor_dataset_with);
#define gw_tensor_dataset(s, name, ...) GW_TENSOR_DATASET(s, name, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_tensor_dataset) gw_tensor_dataset_with;

/// Makes a dataset of the items of |d| at |indices|.
///
/// indices: N, i64.
/// Returns: the dataset.
/// Errors: INVALID if an index is out of range.
/// Source: torch.utils.data.Subset.
GW_API gw_dataset *gw_subset(gw_scope *s, gw_dataset *d, const gw_tensor *indices);

/// Returns the number of items.
GW_API int64_t gw_dataset_count(const gw_dataset *d);
/// Returns the name of |d|.
GW_API const char *gw_dataset_name(const gw_dataset *d);
/// Returns item |index|.
/// Errors: INVALID when out of range; the error of the item's function.
GW_API gw_value gw_dataset_get(gw_scope *s, gw_dataset *d, int64_t index);

// ---- Samplers -----------------------------------------------------------------------------------
// A sampler decides which items an epoch reads, and in which order. A loader without .sampler makes its own sampler.

/// The order of items in an epoch, made by gw_random_sampler and the like.
typedef struct gw_sampler gw_sampler;

/// Makes a sampler of 0, 1, 2, ....
/// Returns: the sampler.
/// Source: torch.utils.data.SequentialSampler.
GW_API gw_sampler *gw_sequential_sampler(gw_scope *s, gw_dataset *d);

/// Makes a sampler of all items in a random order. The order depends on seed and epoch, and differs from PyTorch's.
/// Returns: the sampler.
/// Source: torch.utils.data.RandomSampler.
GW_API gw_sampler *gw_random_sampler(gw_scope *s, gw_dataset *d, uint64_t seed);

/// Options of gw_distributed_sampler.
typedef struct GW_BY_NAME gw_distributed_sampler_options {
    int64_t num_replicas GW_DEFAULT(GW_NOT_GIVEN);  ///< required
    int64_t rank GW_DEFAULT(GW_NOT_GIVEN);          ///< required
    bool shuffle GW_DEFAULT(true);
    /// True: items at the end are left out. False: items at the beginning are repeated.
    bool drop_last GW_DEFAULT(false);
    uint64_t seed GW_DEFAULT(0);  ///< the same on all replicas
} gw_distributed_sampler_options;

/// Makes a sampler for one of several replicas. All replicas have the same order of items; replica .rank reads every
/// .num_replicas-th item, beginning at item .rank. All replicas read the same number of items.
/// Returns: the sampler.
/// Source: torch.utils.data.DistributedSampler.
GW_API gw_sampler *gw_distributed_sampler(gw_scope *s, gw_dataset *d,
                                          gw_distributed_sampler_options options GW_DEFAULT({}))
    GW_CALLS(gw_distributed_sampler_with);
#define gw_distributed_sampler(...)                                                                \
    GW_FORM_2(gw_distributed_sampler, gw_distributed_sampler_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_distributed_sampler) gw_distributed_sampler_with;

/// Sets the number of the next epoch, which is 0 at first; a loader increments it.
/// Source: torch.utils.data.DistributedSampler.set_epoch.
GW_API void gw_sampler_set_epoch(gw_scope *s, gw_sampler *sampler, int64_t epoch);
/// Returns the number of the next epoch.
GW_API int64_t gw_sampler_epoch(const gw_sampler *sampler);
/// Returns the number of items in an epoch.
GW_API int64_t gw_sampler_count(const gw_sampler *sampler);
/// Returns the indices of the items of the next epoch: N, i64.
GW_API gw_tensor *gw_sampler_indices(gw_scope *s, gw_sampler *sampler);

// ---- Loaders ------------------------------------------------------------------------------------

/// A reader of a dataset in batches, opened by gw_data_loader_open.
typedef struct gw_data_loader gw_data_loader;

/// The function that makes a batch of items. Like the function of a dataset it may run on the loader's threads.
/// Returns: the batch.
typedef gw_value gw_collate(gw_scope *s, void *state, gw_list *items);

/// Makes a batch of items if .collate_fn is NULL: tensors are stacked along a new first dimension; ints, floats and
/// bools become tensors of i64, f64 and bool; lists and maps are treated element by element; strings and bytes become
/// lists.
///
/// Returns: the batch.
/// Errors: INVALID for items of different kinds or sizes, and for items of any other kind.
/// Source: torch.utils.data.default_collate.
GW_API gw_value gw_default_collate(gw_scope *s, void *unused, gw_list *items);

/// Options of gw_data_loader_open.
typedef struct GW_BY_NAME gw_data_loader_options {
    int64_t batch_size GW_DEFAULT(1);      ///< items; 0: single items, as torch's None
    bool shuffle GW_DEFAULT(false);        ///< not together with |sampler|
    gw_sampler *sampler GW_DEFAULT(NULL);  ///< NULL: all items, in order or shuffled
    int num_workers GW_DEFAULT(0);      ///< threads that read ahead; 0: gw_data_loader_next reads
    int prefetch_factor GW_DEFAULT(2);  ///< batches that each thread reads ahead
    gw_collate *collate_fn GW_DEFAULT(NULL);  ///< NULL: gw_default_collate
    /// Passed to |collate_fn|; the caller keeps it valid as long as the loader lives.
    void *collate_state GW_DEFAULT(NULL);
    bool drop_last GW_DEFAULT(false);  ///< leaves out a last batch that is not full
    /// The seed of the order and of the random numbers of items; if it is not given, the seed is drawn from the scope's
    /// generator.
    int64_t seed GW_DEFAULT(GW_NOT_GIVEN);
} gw_data_loader_options;

/// Makes a loader of |d|.
/// Returns: the loader.
/// Source: torch.utils.data.DataLoader.
GW_API gw_data_loader *gw_data_loader_open(gw_scope *s, gw_dataset *d,
                                           gw_data_loader_options options GW_DEFAULT({}))
    GW_CALLS(gw_data_loader_open_with);
#define gw_data_loader_open(...) GW_FORM_2(gw_data_loader_open, gw_data_loader_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_data_loader_open) gw_data_loader_open_with;

/// Moves to the next batch. Blocks until the batch is read. A batch that failed is read again by the next call.
///
/// Returns: false at the end of an epoch (the next call then begins the next epoch), and if |s| has failed.
/// Errors: of the dataset's function and of .collate_fn, as "frames[17]: ..."; TIMEOUT at the deadline of |s|; with
/// .num_workers WOULD_BLOCK in an inline function.
GW_API bool gw_data_loader_next(gw_scope *s, gw_data_loader *loader);

/// Returns tensor |index| of the current batch, which is a list; if the batch is a single tensor, index 0 returns it.
/// Errors: WRONG_STATE if there is no batch.
GW_API gw_tensor *gw_data_loader_tensor(gw_scope *s, gw_data_loader *loader, int index);
/// Returns the current batch. Strings in the batch live until the loader moves to the next batch.
/// Errors: WRONG_STATE if there is no batch.
GW_API gw_value gw_data_loader_batch(gw_scope *s, gw_data_loader *loader);
/// Returns the number of batches in an epoch.
GW_API int64_t gw_data_loader_count(const gw_data_loader *loader);
/// Returns the epoch of the next batch.
GW_API int64_t gw_data_loader_epoch(const gw_data_loader *loader);
/// Begins epoch |epoch|, whatever the loader's position in the current epoch is.
GW_API void gw_data_loader_set_epoch(gw_scope *s, gw_data_loader *loader, int64_t epoch);

/// Returns the position of the loader: items that were read ahead and not returned count as unread.
/// Returns: a map of numbers.
GW_API gw_map *gw_data_loader_state_dict(gw_scope *s, gw_data_loader *loader);
/// Sets the loader to the position |state|, so that the loader continues with the same items; the dataset and the
/// sampler must be the same as when |state| was made.
/// Errors: INVALID if |state| is malformed, or was made for epochs with another number of items; the loader is then
/// unchanged.
GW_API void gw_data_loader_load_state_dict(gw_scope *s, gw_data_loader *loader, gw_map *state);

#ifdef __cplusplus
}
#endif
#include <gradwire/detail/data.h>
#endif
