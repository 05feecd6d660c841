// Checkpoints: values in a file.
//
//     gw_map *all = gw_map_open(s);
//     gw_map_put(s, all, "model", gw_module_state_dict(s, model));       // also of modules elsewhere
//     gw_map_put(s, all, "optimizer", gw_optimizer_state_dict(s, opt));
//     gw_map_put(s, all, "step", step);
//     gw_checkpoint_save(s, "run.safetensors", all);
//
//     gw_map *saved = gw_checkpoint_load(s, "run.safetensors");
//     gw_module_load_state_dict(s, model, gw_map_of(s, gw_map_get(s, saved, "model")));
//     step = gw_int_of(s, gw_map_get(s, saved, "step"));
//
// The file is a safetensors file (https://github.com/huggingface/safetensors), for which other
// programs have readers: eight bytes with the size of a JSON header, the header, the numbers.
// Tensors in maps and lists have their names joined by dots, "model.0.weight"; numbers are tensors
// without dimensions; texts stand in __metadata__. How they are nested stands there too, under
// "gradwire", so that what is loaded is what was saved, and under "gradwire.crc32c" a check of each
// tensor's numbers. Files of other programs, without them, give a map of tensors by name.
//
// Ownership: what is loaded belongs to the scope.
// Threads: as the scope.
#ifndef GRADWIRE_CHECKPOINT_H
#define GRADWIRE_CHECKPOINT_H

#include <gradwire/value.h>

#ifdef __cplusplus
extern "C" {
#endif

// Writes |values| to |path|, which afterwards holds all of them, or, if this fails, what it held
// before: also when the machine stops meanwhile. Only when the folder cannot be synced it fails
// with the new file in place, which may not outlive a stop of the machine. What references name is
// fetched. INVALID for workers, errors and futures, for names that are no UTF-8 text, and where two
// names become one by joining; SYSTEM if the file cannot be written.
GW_API void gw_checkpoint_save(gw_scope *s, const char *path, gw_map *values);

// Reads it back. NOT_FOUND if there is no such file; INVALID if it is cut off, if a number in it has
// another bit than was saved, or if it is wrong in any other way, which is said; UNSUPPORTED for a
// dtype that gw_dtype has not.
GW_API gw_map *gw_checkpoint_load(gw_scope *s, const char *path);

#ifdef __cplusplus
}
#endif
#endif
