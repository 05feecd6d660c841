// Checkpoints: values in a file.
//
//     gw_map *all = gw_map_open(s);
//     gw_map_put(s, all, "model", gw_module_state_dict(s, model));       // also of remote modules
//     gw_map_put(s, all, "optimizer", gw_optimizer_state_dict(s, opt));
//     gw_map_put(s, all, "step", step);
//     gw_checkpoint_save(s, "run.safetensors", all);
//
//     gw_map *saved = gw_checkpoint_load(s, "run.safetensors");
//     gw_module_load_state_dict(s, model, gw_map_of(s, gw_map_get(s, saved, "model")));
//     step = gw_int_of(s, gw_map_get(s, saved, "step"));
//
// The file is a safetensors file (https://github.com/huggingface/safetensors), for which other programs have readers:
// eight bytes with the size of a JSON header, the header, the numbers. The names of tensors in maps and lists are
// joined by dots, "model.0.weight"; numbers are tensors without dimensions; strings are in __metadata__. The entry
// __metadata__ also has the nesting of maps and lists, under "gradwire", so that gw_checkpoint_load returns exactly the
// saved values, and a checksum of each tensor, under "gradwire.crc32c". A file of another program, without nesting and
// checksums, is loaded as a map of tensors by name.
//
// A group of workers writes a checkpoint together, while training continues:
//
//     gw_group *g = gw_group_world(root);
//     gw_map *all = gw_map_open(root);                                       // as above; steps do not change the files
//     gw_future *saved = gw_checkpoint_begin(root, "saved", g, all, .step = step, .keep = 3);
//     const char *folder = gw_string_of(root, gw_wait(root, saved));         // "saved/step-400"
//     gw_map *newest = gw_checkpoint_restore(root, "saved", g);              // or NULL
//
// Such a checkpoint is a folder with a file for each member and index.json, in the sharded form of Hugging Face. It is
// whole from the moment in which index.json gets its name. Each member writes an equal share of the bytes. Any number
// of members, or one process without a job, can restore it.
//
// Ownership: loaded values belong to the scope.
// Threads: the same as for the scope.
#ifndef GRADWIRE_CHECKPOINT_H
#define GRADWIRE_CHECKPOINT_H

#include <gradwire/group.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Writes |values| to |path|. Afterwards the file has all values; if the call fails, or the machine stops during the
/// call, the file has its old contents. References are saved as the values that they name, which this worker fetches.
///
/// Errors: INVALID for values that are workers, errors or futures, for names that are not UTF-8, and if two joined
/// names are equal; SYSTEM if the file cannot be written, or if its folder cannot be synced (the new file then exists,
/// but may be lost if the machine stops).
GW_API void gw_checkpoint_save(gw_scope *s, const char *path, gw_map *values);

/// Reads the file |path|.
///
/// Returns: the saved values.
/// Errors: NOT_FOUND if there is no such file; INVALID, with the reason, if the file is truncated or malformed, or if a
/// checksum differs; UNSUPPORTED for a dtype that gw_dtype does not have.
GW_API gw_map *gw_checkpoint_load(gw_scope *s, const char *path);

// ---- Of a group ---------------------------------------------------------------------------------

/// Options of gw_checkpoint_begin; the same on all members, except the values of .own.
typedef struct GW_BY_NAME gw_checkpoint_options {
    /// The number by which checkpoints are ordered: the highest is the newest. -1: one more than the newest has.
    int64_t step GW_DEFAULT(-1);
    /// When the checkpoint is whole, those of earlier steps are deleted, except the newest ones: so many remain in all.
    /// 0: none is deleted.
    int keep GW_DEFAULT(0);
    int64_t bytes_per_second GW_DEFAULT(0);  ///< each member writes at most so many; 0: no limit
    /// Values that only this member has, such as its generator; on all members or on none. They are restored to the
    /// same rank of a group of the same size. A position in the data that is to survive a change of the size is a
    /// count for all members, and belongs in |values|.
    gw_map *own GW_DEFAULT(NULL);
} gw_checkpoint_options;

/// Begins a checkpoint of |values| in a new folder in |folder|, and does not wait for the disk: a thread of each
/// member writes a share of the bytes. The files have the values of this call, whatever the program does with the
/// tensors afterwards. The call takes time for each tensor, not for its bytes. It copies only tensors that are not
/// contiguous, of another device, or views of memory of the program (gw_from_blob). Until they are written, a tensor
/// that changes takes other memory than before: a step needs up to the size of the checkpoint in addition.
///
/// folder: the folder of all checkpoints of this training; made if it is missing. It is on a file system that all
/// members share; members that do not see the folder of the worker of rank 0 write nothing, and the others write their
/// shares.
/// group: its members call this function as a collective; afterwards they may use or re-form |group| in any way. NULL:
/// this worker alone.
/// values: maps and lists of numbers, texts and tensors. They are equal on all members, else the files have some of
/// each. Parameters and the optimizer of replicas (gw_ddp_open) are equal between two steps; buffers are equal with
/// GW_BUFFERS_WITH_GRADIENTS, or after gw_ddp_broadcast. Of a sharded optimizer gw_optimizer_state_dict returns the
/// whole state, which any number of members can load.
/// Blocks: until all members have called it.
/// Returns: a future of the path of the checkpoint, which completes when the checkpoint is whole, on all members.
/// gw_rpc_shutdown waits for it. If the program drops the future, the checkpoint is written nevertheless. If a member
/// fails, is lost, or cannot write its part, the future fails on all members with that error, which names the member.
/// The folder is then no checkpoint, and older ones stay; only after a loss in the last moment it may be whole.
/// Errors: as gw_checkpoint_save, on all members; MISMATCH if names, shapes or options of the members differ. The
/// future has SYSTEM if a file cannot be written, INVALID for .own on a member that does not see |folder|, and those of
/// collectives.
/// Source: torch.distributed.checkpoint.async_save.
GW_API gw_future *gw_checkpoint_begin(gw_scope *s, const char *folder, gw_group *group,
                                      gw_map *values, gw_checkpoint_options options GW_DEFAULT({}))
    GW_CALLS(gw_checkpoint_begin_with);
#define gw_checkpoint_begin(...) GW_FORM_4(gw_checkpoint_begin, gw_checkpoint_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_checkpoint_begin) gw_checkpoint_begin_with;

/// Options of gw_checkpoint_restore.
typedef struct GW_BY_NAME gw_checkpoint_restore_options {
    /// Receives the values that the member of this rank gave as .own; NULL if the checkpoint has none.
    gw_map **own GW_DEFAULT(NULL);
} gw_checkpoint_restore_options;

/// Reads the newest whole checkpoint in |folder|. A folder that is not whole, or is damaged, is named in the log and
/// skipped, on all members.
///
/// folder: as of gw_checkpoint_begin.
/// group: its members call this function as a collective, and all see |folder|. They need not be as many as those that
/// have written the checkpoint. NULL: this process alone, which needs no agent.
/// Returns: the values; NULL if there is no checkpoint.
/// Errors: SYSTEM if |folder| cannot be listed; MISMATCH, with both sizes, if .own is given and the checkpoint has
/// values of single members, but of a group of another size.
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
