// Curves of numbers for TensorBoard, such as the loss by step.
//
//     bool is_first = gw_rpc_self(root).rank == 0;
//     gw_scalars *curves = is_first ? gw_scalars_open(root, "runs/a") : NULL;
//     for (int step = 0; step < 1000 && gw_ok(root); step++) {
//         double loss = 1.0 / (step + 1);                       // of the step that is made here
//         gw_scalars_add(root, curves, "loss", loss, step);
//     }
//
// `tensorboard --logdir runs` shows the curves of each folder in runs under the name of that folder. Each gw_scalars_open
// makes a file of its own there, so that a program that is started again in the same folder continues the curves.
// A number is in the file when gw_scalars_add returns, also if the process is killed afterwards; the file is not synced.
//
// Ownership: as every handle, of the scope that it was opened in, which closes the file; gw_drop closes it earlier.
// Threads: gw_scalars_add may be called by several threads at once, each with a scope of its own.
#ifndef GRADWIRE_SCALARS_H
#define GRADWIRE_SCALARS_H

#include <gradwire/scope.h>

#ifdef __cplusplus
extern "C" {
#endif

/// An event file of TensorBoard, to which numbers are added: gw_scalars_open.
typedef struct gw_scalars gw_scalars;

/// Makes a file events.out.tfevents.TIME.HOST.PID.NUMBER in |folder|. Folders that do not exist are made.
///
/// Returns: the file, owned by |s|.
///
/// Errors: INVALID if |folder| is NULL, empty or too long; SYSTEM if a folder or the file cannot be made; NO_MEMORY.
///
/// Blocking: for the disk.
///
/// Source: torch.utils.tensorboard.SummaryWriter.
GW_API gw_scalars *gw_scalars_open(gw_scope *s, const char *folder);

/// Adds a point to a curve, with the time of the call.
///
/// to: NULL: nothing is written, for workers that write no file.
/// name: of the curve: 1 to 255 bytes of UTF-8 without control characters. TensorBoard groups curves by the part of
/// the name before the first "/": "loss/train", "loss/test".
/// value: any, also NaN and infinity; is rounded to float32.
/// step: the place on the axis of steps; TensorBoard sorts by it.
///
/// Errors: INVALID for a wrong name; SYSTEM if the number cannot be written, for instance since the disk is full: the
/// file then has the numbers that were added before, and a later call can succeed; NO_MEMORY; WRONG_STATE in a
/// process that fork has made since gw_scalars_open.
///
/// Blocking: for the disk.
///
/// Source: torch.utils.tensorboard.SummaryWriter.add_scalar.
GW_API void gw_scalars_add(gw_scope *s, gw_scalars *to, const char *name, double value,
                           int64_t step);

#ifdef __cplusplus
}
#endif
#endif
