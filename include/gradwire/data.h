// Data: datasets, samplers, and loaders that give batches.
//
// A dataset has a number of items and a function that returns an item. A sampler decides which items an epoch reads,
// and in which order. A loader reads the items and makes batches of them. It reads a batch when the program requests
// the batch, or ahead, on threads of the loader. Names and defaults are those of torch.utils.data.
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
// A dataset with a function of the program:
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
// The batches of an epoch depend only on the dataset, the seed, the number of the epoch and the options. They do not
// depend on the number of threads or the machine.
//
// Errors, of all functions: INVALID for arguments out of range; NO_MEMORY.
// Ownership: datasets, samplers and loaders belong to the scope that made them. A loader holds a count on its dataset;
// a dataset holds a count on its tensors.
// Threads: one thread at a time, as for the scope. With .num_workers several threads of the loader run the dataset's
// function at once.
#ifndef GRADWIRE_DATA_H
#define GRADWIRE_DATA_H

#include <gradwire/ops.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- Datasets -----------------------------------------------------------------------------------

/// A number of items and a function that returns an item, opened by gw_dataset_open or gw_tensor_dataset.
typedef struct gw_dataset gw_dataset;

/// The function of a dataset. It returns item |index|: a tensor, a number, a string, or a list or map of these. Random
/// numbers that are drawn in |s| depend on the loader's seed, the epoch and |index|. Operators in |s| are not recorded
/// for backward. Without .num_workers, |s| is inside the scope of gw_data_loader_next, so that the function may call
/// other workers. On a thread of .num_workers, |s| has no agent and no deadline. If |s| fails, the loader fails with
/// the error of |s|, with the item in front: "frames[17]: ...".
///
/// Returns: the item.
typedef gw_value gw_dataset_item(gw_scope *s, void *state, int64_t index);

/// Makes a dataset of |count| items.
///
/// name: the name in errors.
/// state: passed to |item|; valid as long as the dataset lives. If a loader has several threads, all of them use
/// |state|.
/// Returns: the dataset.
/// Source: torch.utils.data.Dataset.
GW_API gw_dataset *gw_dataset_open(gw_scope *s, const char *name, int64_t count,
                                   gw_dataset_item *item, void *state);

/// Makes a dataset of the rows of tensors: gw_tensor_dataset(s, name, x, ...). Item i is a list with row i of each
/// tensor.
///
/// tensors: tensors with the same number of rows; in the short form they are listed one by one. The program must not
/// write to them while a loader reads ahead.
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
/// Errors: INVALID if |index| is out of range; the error of the dataset's function.
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
    int64_t num_replicas GW_DEFAULT(GW_NOT_GIVEN);  ///< required; the number of replicas
    int64_t rank GW_DEFAULT(GW_NOT_GIVEN);  ///< required; the number of this replica, from 0
    bool shuffle GW_DEFAULT(true);
    /// What happens if the number of items is not a multiple of the number of replicas. True: items at the end are left
    /// out. False: items at the beginning are repeated.
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

/// Sets the number of the next epoch. The first epoch has the number 0; a loader adds one after each epoch.
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

/// The function that makes a batch of items. With .num_workers it runs on threads of the loader.
/// Returns: the batch.
typedef gw_value gw_collate(gw_scope *s, void *state, gw_list *items);

/// Makes a batch of items; loaders use it if .collate_fn is NULL. Tensors are stacked along a new first dimension.
/// Ints, floats and bools become tensors of i64, f64 and bool. Strings and bytes become lists. If the items are lists
/// or maps, the batch is also a list or map. Each element of the batch is a batch of the matching elements of all
/// items.
///
/// Returns: the batch.
/// Errors: INVALID for items of different kinds or sizes, and for items of any other kind.
/// Source: torch.utils.data.default_collate.
GW_API gw_value gw_default_collate(gw_scope *s, void *unused, gw_list *items);

/// Options of gw_data_loader_open.
typedef struct GW_BY_NAME gw_data_loader_options {
    int64_t batch_size GW_DEFAULT(1);  ///< in items; 0: a batch is one item, as None in PyTorch
    bool shuffle GW_DEFAULT(false);    ///< reads items in random order; not together with .sampler
    gw_sampler *sampler GW_DEFAULT(NULL);  ///< NULL: a sampler of all items, in order or shuffled
    /// The number of threads that read ahead. 0: gw_data_loader_next reads the items.
    int num_workers GW_DEFAULT(0);
    int prefetch_factor GW_DEFAULT(2);  ///< the number of batches that each thread reads ahead
    gw_collate *collate_fn GW_DEFAULT(NULL);  ///< NULL: gw_default_collate
    /// Passed to .collate_fn; valid as long as the loader lives.
    void *collate_state GW_DEFAULT(NULL);
    bool drop_last GW_DEFAULT(false);  ///< leaves out the last batch if it is not full
    /// The seed of the order and of the random numbers of items. GW_NOT_GIVEN: drawn from the generator of the scope.
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

/// Moves to the next batch. Blocks until the batch is read. If reading a batch fails, the next call reads the same
/// batch again.
///
/// Returns: true if there is a next batch; false at the end of an epoch, and if |s| has failed. After the end of an
/// epoch, the next call begins the next epoch.
/// Errors: those of the dataset's function and of .collate_fn, with the item in front: "frames[17]: ..."; TIMEOUT at
/// the deadline of |s|; WOULD_BLOCK in an inline function, if .num_workers is not 0; WRONG_STATE in a process that fork
/// has made, if |loader| has read ahead in its parent.
GW_API bool gw_data_loader_next(gw_scope *s, gw_data_loader *loader);

/// Returns element |index| of the current batch, if the batch is a list of tensors. If the batch is a single tensor,
/// |index| is 0.
/// Errors: WRONG_STATE if there is no batch.
GW_API gw_tensor *gw_data_loader_tensor(gw_scope *s, gw_data_loader *loader, int index);
/// Returns the current batch. Strings in the batch live until the loader moves to the next batch.
/// Errors: WRONG_STATE if there is no batch.
GW_API gw_value gw_data_loader_batch(gw_scope *s, gw_data_loader *loader);
/// Returns the number of batches in an epoch.
GW_API int64_t gw_data_loader_count(const gw_data_loader *loader);
/// Returns the epoch of the next batch.
GW_API int64_t gw_data_loader_epoch(const gw_data_loader *loader);
/// Begins epoch |epoch|; the loader returns no more batches of the current epoch.
GW_API void gw_data_loader_set_epoch(gw_scope *s, gw_data_loader *loader, int64_t epoch);

/// Returns the position of the loader. Items that were read ahead, but not returned, count as unread.
/// Returns: a map of numbers.
GW_API gw_map *gw_data_loader_state_dict(gw_scope *s, gw_data_loader *loader);
/// Sets the loader to the position |state|; the loader continues with the same items. The dataset and the sampler must
/// be the same as when |state| was made.
/// Errors: INVALID if |state| is malformed, or was made for epochs with another number of items; the loader is then
/// unchanged.
GW_API void gw_data_loader_load_state_dict(gw_scope *s, gw_data_loader *loader, gw_map *state);

#ifdef __cplusplus
}
#endif
#include <gradwire/detail/data.h>
#endif
