// gradwire: remote calls, references, backward, collectives and optimizers over many workers, in C.
//
// Linux only; C11 or C++17, with gcc or clang; tensors on the CPU only.
//
// The headers in reading order are the manual. Each header begins with a chapter, which states what holds for all
// functions of the header (errors, blocking, ownership, threads). The entry of a function states the rest:
//
//     /// Makes the numbers start, start + step, ... before |end|.       what it does; |end| is a parameter
//     ///
//     /// step: not 0.                                                   what a parameter is, if not clear from its type
//     /// Returns: a tensor of one dimension.
//     /// Gradient: ...                                                  of operators and collectives that have one
//     /// Errors: INVALID if |step| is 0 or leads away from |end|.       by status, beyond those of the chapter
//     /// Source: torch.arange.                                          of the definition
//
// Everywhere: pointer arguments are borrowed until the function returns; results belong to the scope; out_ arguments are
// written only on success; nothing is safe for several threads unless its header states it. Sizes in shapes: N batch, T
// time, C channels, F features, V vocabulary.
//
// Some functions have a short form, a macro of the same name below the declaration. In the short form
// * options are written by name, and an option that is left out has its default: gw_sum(s, x, .dim = -1). In C++17
//   gw_dims_options o; o.dim = -1; gw_sum(s, x, o), in C++20 gw_sum(s, x, { .dim = -1 });
// * a gw_value is written as any C value, and gw_values as several C values: gw_add(s, x, 2.5), gw_rpc_sync(s, "ps",
//   "f", x, 2.5);
// * a gw_target is a name, a rank, a gw_worker or a reference;
// * a gw_shape is numbers: gw_zeros(s, GW_F32, 2, 3).
// The function that the macro calls has a name that ends in _with, and takes the same arguments, each as one value.
#ifndef GRADWIRE_H
#define GRADWIRE_H

#include <gradwire/version.h>
#include <gradwire/status.h>
#include <gradwire/log.h>
#include <gradwire/scope.h>
#include <gradwire/value.h>
#include <gradwire/args.h>
#include <gradwire/tensor.h>
#include <gradwire/ops.h>
#include <gradwire/autograd.h>
#include <gradwire/data.h>
#include <gradwire/nn.h>
#include <gradwire/optim.h>
#include <gradwire/amp.h>
#include <gradwire/function.h>
#include <gradwire/rpc.h>
#include <gradwire/ref.h>
#include <gradwire/module_remote.h>
#include <gradwire/dist.h>
#include <gradwire/membership.h>
#include <gradwire/process.h>
#include <gradwire/group.h>
#include <gradwire/collective.h>
#include <gradwire/ddp.h>
#include <gradwire/comm_hook.h>
#include <gradwire/join.h>
#include <gradwire/parallel.h>
#include <gradwire/checkpoint.h>
#include <gradwire/elastic.h>
#include <gradwire/trace.h>
#include <gradwire/scalars.h>

#endif
