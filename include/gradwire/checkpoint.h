// Checkpoints: values in a file.
//
//     gw_map *all = gw_map_open(s);
//     gw_map_put(s, all, "model", gw_module_state_dict(s, model));       // |model| may be a remote module
//     gw_map_put(s, all, "optimizer", gw_optimizer_state_dict(s, opt));
//     gw_map_put(s, all, "step", step);
//     gw_checkpoint_save(s, "run.safetensors", all);
//
//     gw_map *saved = gw_checkpoint_load(s, "run.safetensors");
//     gw_module_load_state_dict(s, model, gw_map_of(s, gw_map_get(s, saved, "model")));
//     step = gw_int_of(s, gw_map_get(s, saved, "step"));
//
// The file has the safetensors format (https://github.com/huggingface/safetensors), which other programs can read. It
// begins with eight bytes, which are the size of a JSON header. The header follows, then the elements of all tensors.
// Values are stored as follows:
// * A tensor is in maps and lists. Its name consists of the keys of the maps and the indices of the lists, joined by
//   dots: "model.0.weight".
// * Numbers are stored as tensors without dimensions.
// * Strings are stored in the entry __metadata__ of the header.
// * The key "gradwire" of __metadata__ has the nesting of maps and lists. So gw_checkpoint_load returns exactly the
//   saved values.
// * The key "gradwire.crc32c" of __metadata__ has a checksum of each tensor.
//
// A file of another program has no nesting and no checksums. Such a file is loaded as a map of tensors by name.
//
// A group of workers can write a checkpoint together, while training continues:
//
//     gw_group *g = gw_group_world(root);
//     gw_map *all = gw_map_open(root);                                       // with values as above
//     gw_future *saved = gw_checkpoint_begin(root, "saved", g, all, .step = step, .keep = 3);
//     const char *folder = gw_string_of(root, gw_wait(root, saved));         // "saved/step-400"
//     gw_map *newest = gw_checkpoint_restore(root, "saved", g);              // NULL if there is none
//
// The checkpoint of a group is a folder. The folder has one file for each member and the file index.json, in the format
// of sharded checkpoints of Hugging Face. Each member writes an equal share of the bytes. The checkpoint is complete
// when the folder has a file with the name index.json. A group of any size can restore the checkpoint. A process
// without a job can also restore it.
//
// Ownership: loaded values belong to the scope.
// Threads: one thread at a time, as for the scope.
#ifndef GRADWIRE_CHECKPOINT_H
#define GRADWIRE_CHECKPOINT_H

#include <gradwire/group.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Writes |values| to the file |path|. If the call fails, or the machine stops during the call, the file keeps its old
/// contents. For a reference, this worker fetches and saves the value that the reference names.
///
/// Errors: INVALID for values that are workers, errors or futures, for names that are not UTF-8, and if the joined
/// names of two tensors are equal; SYSTEM if the file cannot be written, or if its folder cannot be synced. If the
/// folder cannot be synced, the new file exists, but may be lost if the machine stops.
GW_API void gw_checkpoint_save(gw_scope *s, const char *path, gw_map *values);

/// Reads the file |path|.
///
/// Returns: the saved values.
/// Errors: NOT_FOUND if there is no such file; INVALID, with the reason, if the file is truncated or malformed, or if a
/// checksum differs; UNSUPPORTED for a dtype that is not in gw_dtype.
GW_API gw_map *gw_checkpoint_load(gw_scope *s, const char *path);

// ---- Of a group ---------------------------------------------------------------------------------

/// Options of gw_checkpoint_begin. They are the same on all members, except the values in .own.
typedef struct GW_BY_NAME gw_checkpoint_options {
    /// The number of the checkpoint: the newest checkpoint is the one with the highest number. -1: one more than the
    /// number of the newest checkpoint.
    int64_t step GW_DEFAULT(-1);
    /// When the new checkpoint is complete, older checkpoints are deleted, so that the |keep| newest checkpoints
    /// remain. 0: no checkpoint is deleted.
    int keep GW_DEFAULT(0);
    int64_t bytes_per_second GW_DEFAULT(0);  ///< the most that each member writes; 0: no limit
    /// Values that only this member has, such as its random generator. All members give .own, or none. The values are
    /// restored to the member of the same rank, in a group of the same size. If groups of other sizes must be able to
    /// restore a value, such as the position in the data, put one value for all members into |values|.
    gw_map *own GW_DEFAULT(NULL);
} gw_checkpoint_options;

/// Begins a checkpoint of |values| in a new folder in |folder|. A thread of each member writes a share of the bytes;
/// the call does not wait for the disk. The files have the values that the tensors have at the time of this call, even
/// if the program writes to the tensors later. The duration of the call depends on the number of tensors, not on their
/// sizes. The call copies only tensors that are not contiguous, that are on another device, or that are views of memory
/// of the program (gw_from_blob).
/// Memory: if the program writes to a tensor before its bytes are on the disk, the tensor gets new memory. So a step
/// may need additional memory up to the size of the checkpoint.
///
/// folder: the folder of all checkpoints of this training. The call makes the folder if it does not exist. All members
/// share the file system of the folder. A member that does not see the folder of rank 0 writes nothing; the other
/// members write its share.
/// group: all members of |group| must call this function, as a collective. After the call they may use |group|, or
/// re-form it. NULL: only this worker writes the checkpoint.
/// values: maps and lists of numbers, strings and tensors. They must be equal on all members, because each member
/// writes only a part of them. The parameters and the optimizer of replicas (gw_ddp_open) are equal between two steps.
/// Buffers are equal with GW_BUFFERS_WITH_GRADIENTS, or after gw_ddp_broadcast. For a sharded optimizer,
/// gw_optimizer_state_dict returns the whole state, which any number of members can load.
/// Blocks: until all members have called gw_checkpoint_begin.
/// Returns: a future of the path of the checkpoint. On all members the future completes when the checkpoint is
/// complete. gw_rpc_shutdown waits for the future. If the program drops the future, the checkpoint is still written. If
/// a member fails, is lost, or cannot write its part, the future fails on all members, and the error names that member.
/// The folder then has no index.json and is not a checkpoint, and older checkpoints are not deleted. However, if a
/// member is lost while rank 0 completes the checkpoint, the future may fail although the checkpoint is complete.
/// Errors: those of gw_checkpoint_save, on all members; MISMATCH if names, shapes or options of the members differ. The
/// future fails with SYSTEM if a file cannot be written, with INVALID if a member that does not see |folder| gives
/// .own, and with the errors of collectives.
/// Source: torch.distributed.checkpoint.async_save.
GW_API gw_future *gw_checkpoint_begin(gw_scope *s, const char *folder, gw_group *group,
                                      gw_map *values, gw_checkpoint_options options GW_DEFAULT({}))
    GW_CALLS(gw_checkpoint_begin_with);
#define gw_checkpoint_begin(...) GW_FORM_4(gw_checkpoint_begin, gw_checkpoint_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_checkpoint_begin) gw_checkpoint_begin_with;

/// Options of gw_checkpoint_restore.
typedef struct GW_BY_NAME gw_checkpoint_restore_options {
    /// Receives the values that the member of the same rank gave as .own; NULL if the checkpoint has no such values.
    gw_map **own GW_DEFAULT(NULL);
} gw_checkpoint_restore_options;

/// Reads the newest complete checkpoint in |folder|. All members skip a checkpoint that is incomplete or damaged, and
/// the log names it.
///
/// folder: the folder that was given to gw_checkpoint_begin.
/// group: all members of |group| must call this function, as a collective, and must see |folder|. The number of members
/// may differ from the number of members that have written the checkpoint. NULL: only this process reads the
/// checkpoint; it needs no agent.
/// Returns: the values; NULL if there is no checkpoint.
/// Errors: SYSTEM if |folder| cannot be listed; MISMATCH, with both sizes, if .own is given and a group of another size
/// has written the .own of the checkpoint.
/// Source: torch.distributed.checkpoint.load.
GW_API gw_map *gw_checkpoint_restore(gw_scope *s, const char *folder, gw_group *group,
                                     gw_checkpoint_restore_options options GW_DEFAULT({}))
    GW_CALLS(gw_checkpoint_restore_with);
#define gw_checkpoint_restore(...)                                                                 \
    GW_FORM_3(gw_checkpoint_restore, gw_checkpoint_restore_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_checkpoint_restore) gw_checkpoint_restore_with;

#ifdef __cplusplus
}
#endif
#include <gradwire/detail/checkpoint.h>
#endif
