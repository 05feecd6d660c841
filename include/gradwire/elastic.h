// Elastic training: replicas of one model whose members may be lost, may leave and may join while they learn.
//
//     gw_scope *root = gw_scope_open(NULL);
//     gw_module *model = gw_nn_linear(root, 64, 10);
//     gw_optimizer *opt = gw_sgd(root, gw_parameters(root, model), .lr = 0.1);
//     gw_elastic *job = gw_elastic_open(root, model, opt, .steps = 10000);
//     for (gw_scope *s; (s = gw_elastic_begin(root, job));) {
//         gw_share part = gw_elastic_share(job, 32);                           // of the batch of all members
//         int64_t at = gw_elastic_step(job) % 40 * 32 + part.first;            // follows from the step alone
//         gw_tensor *x = gw_slice(s, images, 0, at, at + part.count, 1);
//         gw_tensor *y = gw_slice(s, labels, 0, at, at + part.count, 1);
//         gw_tensor *loss = gw_cross_entropy(s, gw_module_call(s, model, x), y);
//         gw_backward(s, gw_mul(s, loss, part.weight));
//         gw_optimizer_step(s, opt);
//         gw_elastic_end(job, s);
//     }
//     gw_elastic_close(root, job);
//     return gw_exit_code(gw_scope_close(root));
//
// Started by `gradwire run -n 4 --max-restarts 3 -- ./train`. If a rank is killed, the launcher starts it again. The
// others continue without it: they repeat at most the step during which it was lost. The new process joins them between
// two steps, gets model, optimizer and count of steps from them, and continues. If no rank with the state is left, all
// ranks start again, from the newest checkpoint if there is one.
//
// The members are the replicas of a gw_ddp (gradwire/ddp.h): a backward pass leaves the mean of their gradients, and all
// weights are equal, bit for bit. Steps are counted by the optimizer: between gw_elastic_begin and gw_elastic_end a
// program calls gw_optimizer_step once. Each step is taken by all members or, if one is lost meanwhile, by none that
// continues; it is then repeated. So what a member trains on must follow from gw_elastic_step, gw_elastic_rank and
// gw_elastic_size, which change only in gw_elastic_begin. Members join and leave only there, too, where all members
// meet: between the same two steps.
//
// A batch is that of all members together, and gw_elastic_share divides it: no sample is left out or taken twice, whatever
// the number of members, and the mean over the members is the mean over the batch.
//
// State of a program that follows neither from the step nor from model and optimizer (a scheduler, a generator, a
// position in a stream) is copied by .save and .load. Change it only after gw_elastic_end has returned true.
//
// Without `gradwire run --max-restarts` or `--nnodes MIN:MAX` the members are the workers of the job that the program joins: with a fixed
// world size, losses are survived (`gradwire run --on-failure=keep`), but no worker joins. In an elastic job of the
// program's own (GW_JOB_CREATE, GW_JOB_JOIN) the worker that has created it waits for .size members, and others join at
// any time. Over several hosts a next attempt joins at rank 0's host: while no member is left on host 0, it cannot join.
//
// In a step all members make equally many synchronised backward passes (gw_ddp_skip counts as one), at least one;
// otherwise they fail with MISMATCH, which names members, step and pass.
//
// Errors, of all of them: INVALID for arguments, and for a |job| that could not be opened. A lost member is no error. An
// error of a step becomes an error of |root|, and ends the loop; for the other members this member is then lost.
// MISMATCH and TIMEOUT of a pass are errors of all members.
// Blocking: gw_elastic_open, gw_elastic_begin and gw_elastic_close block; in a job under way, for at most .timeout_ms
// when members are missing.
// Before the next checkpoint begins, and when all steps are made, gw_elastic_begin also blocks until the last checkpoint is
// on the disk.
// Ownership: a job belongs to the scope that it was opened in, which is the scope of the agent; it holds counts on model
// and optimizer. Closing that scope without gw_elastic_close counts as the loss of this member.
// Threads: as the model, except where a function states another rule.
// Source: torch.distributed.elastic; torchft.
#ifndef GRADWIRE_ELASTIC_H
#define GRADWIRE_ELASTIC_H

#include <gradwire/ddp.h>

#ifdef __cplusplus
extern "C" {
#endif

/// An elastic training job on this member, opened by gw_elastic_open.
typedef struct gw_elastic gw_elastic;

/// What SIGTERM does.
typedef enum gw_on_term {
    GW_LEAVE,  ///< as gw_elastic_leave; a second signal ends the process. If the program has a handler, it keeps it
    GW_IGNORE  ///< nothing is changed: without a handler the signal ends the process, and the others lose it
} gw_on_term;

/// Why gw_elastic_begin has returned NULL, or does not return.
typedef enum gw_elastic_reason {
    GW_RUNNING,   ///< it has not returned NULL
    GW_FINISHED,  ///< all steps are made, or the others had made them when this worker started
    GW_LEAVING,   ///< this member leaves; the others continue
    GW_FAILED,    ///< the root has an error
    GW_PAUSED     ///< it waits, since there are fewer than .min members
} gw_elastic_reason;

/// Returns state of the program: a map of numbers, texts, tensors, lists and maps.
/// Returns: the state.
typedef gw_map *gw_elastic_save(gw_scope *s, void *context);
/// Sets state of the program.
typedef void gw_elastic_load(gw_scope *s, void *context, gw_map *state);

/// Options of gw_elastic_open; the same on all members.
typedef struct GW_BY_NAME gw_elastic_options {
    int64_t
        steps GW_DEFAULT(0);  ///< required, at least 1: the number of steps of the whole training
    const char *
        name GW_DEFAULT(NULL);  ///< of the members' group (gradwire/group.h); NULL: "trainers"
    /// With fewer members the job pauses: gw_elastic_begin blocks until others have joined, this member is asked to
    /// leave, or .timeout_ms has passed. 0: 1, or the MIN of GW_ELASTIC, which the launcher sets ("MIN:MAX").
    int min GW_DEFAULT(0);
    /// How many members begin. 0: all workers of the launcher, or of a job of fixed world size; else .min.
    int size GW_DEFAULT(0);
    /// The folder of checkpoints (gw_checkpoint_begin), on a file system that all members share, or of rank 0's host: then
    /// the members of other hosts write nothing. NULL: GW_CHECKPOINT_DIR (`gradwire run --checkpoint-dir`), or no
    /// checkpoints.
    const char *checkpoint GW_DEFAULT(NULL);
    int64_t every_ms GW_DEFAULT(600000);  ///< milliseconds between checkpoints; 0: not by time
    int64_t every_steps GW_DEFAULT(0);    ///< steps between checkpoints; 0: not by steps
    int keep GW_DEFAULT(3);               ///< older checkpoints than the newest so many are deleted
    gw_on_term on_term GW_DEFAULT(GW_LEAVE);
    /// A hook of the replicas (gradwire/comm_hook.h), and its argument, which lives as long as the job; NULL: the mean.
    gw_comm_hook *hook GW_DEFAULT(NULL);
    void *hook_context GW_DEFAULT(NULL);
    /// Members meet after so many steps if their passes cannot carry what one of them wants: with a hook, or if all
    /// gradients are sparse by rows.
    int64_t meet_every GW_DEFAULT(100);
    /// Functions for state of the program; both or none. |save| is called on the member that gives its state, and on rank 0
    /// when a checkpoint begins, |load| on members that get a state. If one fails, its member fails with that error.
    gw_elastic_save *save GW_DEFAULT(NULL);
    gw_elastic_load *load GW_DEFAULT(NULL);
    void *context GW_DEFAULT(NULL);  ///< their argument; lives as long as the job
    int64_t timeout_ms
        GW_DEFAULT(300000);  ///< milliseconds, for members that are missing or do not answer
} gw_elastic_options;

/// Joins the job by gw_rpc_init, if |root| has no agent yet; founds the group of the members or joins it, and
/// replicates |model|. The member that has made most steps of the
/// job gives its parameters, buffers, state of |opt| and state of the program to the others. If all members are new, they
/// begin with the newest whole checkpoint in .checkpoint; damaged ones are named in the log. Without one, the member
/// with most steps of |opt|, or rank 0, gives the values that its program has made.
///
/// model: without parameters of other workers, and not in another gw_ddp.
/// opt: an optimizer of parameters of |model|, not sharded.
/// Blocks: until the members that found the group have joined, or the running members have met.
/// Returns: the job. If all steps have been made before this worker could join, gw_elastic_begin returns NULL, and the
/// model has the values of the newest checkpoint, or without one those that the program has made.
/// Errors: those of gw_rpc_init, gw_ddp_open and gw_group_reform; MISMATCH, naming both sides, on a member whose model
/// or options differ from those of the member that gives; INVALID for .min beyond .size, for an optimizer that is
/// sharded, or a malformed GW_ELASTIC; DUPLICATE if the model or .name belongs to another job of this worker; SYSTEM if .checkpoint is no folder that this
/// process can write in.
GW_API gw_elastic *gw_elastic_open(gw_scope *root, gw_module *model, gw_optimizer *opt,
                                   gw_elastic_options options GW_DEFAULT({}))
    GW_CALLS(gw_elastic_open_with);
#define gw_elastic_open(...) GW_FORM_3(gw_elastic_open, gw_elastic_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_elastic_open) gw_elastic_open_with;

/// Begins a step. First the members meet, if one was lost, asks to join, leaves, or asks for a checkpoint.
///
/// Blocks: while the members meet; with fewer than .min members, until others join, if steps are left.
/// Returns: a scope inside |root| for the step, which only gw_elastic_end closes: gw_scope_close and gw_scope_close_up
/// refuse it, and it stays open; NULL at the end of the loop.
/// Errors: WRONG_STATE if the last step has not ended; TIMEOUT, naming the members that did not arrive; TIMEOUT on all
/// members if there were fewer than .min for .timeout_ms, after they have written a checkpoint; FENCED if the others
/// continue without this one.
GW_API gw_scope *gw_elastic_begin(gw_scope *root, gw_elastic *job);

/// Ends a step: closes |s|. If a member was lost meanwhile, the step does not count unless this member has made it.
///
/// Returns: whether the step counts here. All members that continue agree on it in the next gw_elastic_begin: a step
/// that counts on one of them counts on all.
/// Errors, of the root: INVALID if |s| is not the scope of the step, if the step has not called gw_optimizer_step exactly
/// once, or has made no backward pass of the replicas; MISMATCH if members have made unequal numbers of passes in a step;
/// the error of |s|, unless a member was lost; the third error in sequence about a lost worker that was no member.
GW_API bool gw_elastic_end(gw_elastic *job, gw_scope *s);

/// Ends the job on this member, also if |root| has failed. If gw_elastic_open has called gw_rpc_init, this member leaves
/// the job: together with the others, as by gw_rpc_shutdown, or alone, as by gw_rpc_leave, if it is leaving or has failed.
///
/// Errors: WRONG_STATE if a step has not ended; those of gw_rpc_shutdown.
GW_API void gw_elastic_close(gw_scope *root, gw_elastic *job);

// ---- This member, and the others ----------------------------------------------------------------

/// Returns the number of steps made, the index of the step under way; 0 for a job that could not be opened.
GW_API int64_t gw_elastic_step(const gw_elastic *job);
/// Returns the rank of this member, from 0.
GW_API int gw_elastic_rank(const gw_elastic *job);
/// Returns the number of members; 1 for a job that could not be opened, since programs divide by it.
GW_API int gw_elastic_size(const gw_elastic *job);
/// Returns how often the list of members has changed.
GW_API int gw_elastic_generation(const gw_elastic *job);
/// Returns why gw_elastic_begin has returned NULL, or does not return.
///
/// Threads: any.
GW_API gw_elastic_reason gw_elastic_get_reason(const gw_elastic *job);
/// Returns the word for |reason|, "finished".
GW_API const char *gw_elastic_reason_name(gw_elastic_reason reason);
/// Returns the group of the members, for collectives of the program inside a step; valid until the next
/// gw_elastic_begin.
GW_API gw_group *gw_elastic_group(const gw_elastic *job);
/// Returns the replicas, for gw_ddp_skip, gw_ddp_check and gw_ddp_get_stats.
GW_API gw_ddp *gw_elastic_ddp(const gw_elastic *job);

/// A part of a batch.
typedef struct gw_share {
    int64_t first, count;  ///< samples of the batch: first, ..., first + count - 1
    double weight;         ///< of the mean loss of these samples
} gw_share;

/// Returns the part of a batch of |count| samples that this member takes. Shares differ by at most one sample; weights
/// are 1 if all are equal. If there are fewer samples than members, some get none, and call gw_ddp_skip.
GW_API gw_share gw_elastic_share(const gw_elastic *job, int64_t count);

// ---- Wishes -------------------------------------------------------------------------------------

/// Leaves between two steps: in the next gw_elastic_begin, or the one after it. The others continue, and none of their
/// steps fails. If all members leave at once, they write a checkpoint first.
///
/// Threads: any.
GW_API void gw_elastic_leave(gw_elastic *job);

/// Returns whether this member has been asked to leave, by SIGTERM or gw_elastic_leave. Costs nothing: loops that load
/// data or evaluate can call it to end early.
///
/// Threads: any.
GW_API bool gw_elastic_leaving(const gw_elastic *job);

/// Returns a future that completes when this member is asked to leave, for gw_wait_any and gw_on_done.
///
/// Errors, of the future: CANCELLED when the job has closed.
GW_API gw_future *gw_elastic_asked(gw_scope *s, gw_elastic *job);

/// Asks for a checkpoint, which all members begin between two steps, and write while they continue. Does nothing without
/// .checkpoint.
///
/// Threads: any.
GW_API void gw_elastic_ask_checkpoint(gw_elastic *job);

#ifdef __cplusplus
}
#endif
#include <gradwire/detail/elastic.h>
#endif
