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
// Ownership: loaded values belong to the scope.
// Threads: the same as for the scope.
#ifndef GRADWIRE_CHECKPOINT_H
#define GRADWIRE_CHECKPOINT_H

#include <gradwire/value.h>

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

#ifdef __cplusplus
}
#endif
#endif
