// Elastic training: data-parallel training that continues when members are lost, leave or join.
//
//     gw_scope *root = gw_scope_open(NULL);
//     gw_module *model = gw_nn_linear(root, 64, 10);
//     gw_optimizer *opt = gw_sgd(root, gw_parameters(root, model), .lr = 0.1);
//     gw_elastic *job = gw_elastic_open(root, model, opt, .steps = 10000);
//     for (gw_scope *s; (s = gw_elastic_begin(root, job));) {
//         gw_share part = gw_elastic_share(job, 32);                           // this member's part of the batch
//         int64_t at = gw_elastic_step(job) % 40 * 32 + part.first;            // depends only on the step
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
// The command `gradwire run -n 4 --max-restarts 3 -- ./train` starts this program. If a rank is killed, the launcher
// starts a new process for the rank. Meanwhile the other ranks continue; they repeat at most the step during which the
// rank was lost. The new process joins them between two steps. It gets the model, the optimizer and the number of steps
// from them. If no rank that has this state is left, all ranks start again, and load the newest checkpoint if there is
// one.
//
// The members are the replicas of a gw_ddp (gradwire/ddp.h). A backward pass leaves the mean of the gradients of all
// members, and the weights of all members are bitwise equal.
//
// The program calls gw_optimizer_step once between gw_elastic_begin and gw_elastic_end. If a member is lost during a
// step, the remaining members either all count the step, or all repeat it. So the data of a step must depend only on
// gw_elastic_step, gw_elastic_rank and gw_elastic_size. These values change only in gw_elastic_begin. Members also join
// and leave only in gw_elastic_begin, between the same two steps on all members.
//
// A step has one batch for all members, which gw_elastic_share divides. For any number of members, each sample is in
// exactly one part. The mean over the members is the mean over the batch.
//
// A program may have other state, such as a scheduler, a generator or a position in a stream. If this state does not
// follow from the step, the functions .save and .load must copy it. Change this state only after gw_elastic_end has
// returned true.
//
// Without `gradwire run --max-restarts` and `--nnodes MIN:MAX`, the members are the workers of the job that the program
// joins. If this job has a fixed world size, training continues after a loss (under `gradwire run --on-failure=keep`),
// but no worker can join. If this job is elastic (GW_JOB_CREATE, GW_JOB_JOIN), the worker that has created the job
// waits for .size members, and other workers can join at any time.
//
// In a job over several hosts, restarted processes join through a member on host 0. They cannot join while host 0 has
// no member.
//
// In each step all members make the same number of synchronised backward passes, at least one. A gw_ddp_skip counts as
// a pass. If the numbers differ, all members fail with MISMATCH, and the error names members, step and pass.
//
// Errors, of all functions: INVALID for invalid arguments, and for a |job| that could not be opened. The loss of a
// member is not an error. An error of a step becomes an error of |root| and ends the loop; the other members then
// continue without this member. If a pass fails with MISMATCH or TIMEOUT, it fails on all members.
// Blocking: gw_elastic_open, gw_elastic_begin and gw_elastic_close block. In a running job they wait at most
// .timeout_ms for missing members. gw_elastic_begin also blocks until the previous checkpoint is on the disk, before
// the next checkpoint begins and after the last step.
// Ownership: a job belongs to the scope that it was opened in, which is the scope of the agent. It holds counts on
// model and optimizer. If that scope closes before gw_elastic_close, this member is lost to the other members.
// Threads: as for the model (gradwire/nn.h), except where an entry states another rule.
// Source: torch.distributed.elastic; torchft.
#ifndef GRADWIRE_ELASTIC_H
#define GRADWIRE_ELASTIC_H

#include <gradwire/ddp.h>

#ifdef __cplusplus
extern "C" {
#endif

/// An elastic training job on this member, opened by gw_elastic_open.
typedef struct gw_elastic gw_elastic;

/// The effect of SIGTERM on this process.
typedef enum gw_on_term {
    /// The first SIGTERM calls gw_elastic_leave; a second SIGTERM ends the process. If the program has a handler for
    /// SIGTERM, the library does not replace the handler, and SIGTERM does not call gw_elastic_leave.
    GW_LEAVE,
    /// The library does not handle SIGTERM. Without a handler of the program the signal ends the process, and the other
    /// members lose this member.
    GW_IGNORE
} gw_on_term;

/// The reason why gw_elastic_begin has returned NULL, or blocks.
typedef enum gw_elastic_reason {
    GW_RUNNING,   ///< gw_elastic_begin has not returned NULL
    GW_FINISHED,  ///< all steps are made; they may have been made before this worker started
    GW_LEAVING,   ///< this member leaves; the other members continue
    GW_FAILED,    ///< |root| has an error
    GW_PAUSED     ///< gw_elastic_begin blocks, because there are fewer than .min members
} gw_elastic_reason;

/// A function of the program that returns its state: a map of numbers, strings, tensors, lists and maps.
/// Returns: the state.
typedef gw_map *gw_elastic_save(gw_scope *s, void *context);
/// A function of the program that sets its state to |state|.
typedef void gw_elastic_load(gw_scope *s, void *context, gw_map *state);

/// Options of gw_elastic_open. They are the same on all members.
typedef struct GW_BY_NAME gw_elastic_options {
    int64_t
        steps GW_DEFAULT(0);  ///< required, at least 1: the number of steps of the whole training
    const char *name GW_DEFAULT(NULL);  ///< the name of the members' group; NULL: "trainers"
    /// The smallest number of members. With fewer members the job pauses: gw_elastic_begin blocks until enough workers
    /// have joined, this member is asked to leave, or .timeout_ms has passed. 0: the MIN of the variable GW_ELASTIC
    /// ("MIN:MAX"), which the launcher sets; 1 if the variable is not set.
    int min GW_DEFAULT(0);
    /// The number of members with which the job begins. 0: the number of workers that the launcher starts, or the world
    /// size of a job of fixed world size; otherwise .min.
    int size GW_DEFAULT(0);
    /// The folder of checkpoints (gw_checkpoint_begin). All members share the file system of the folder. If only the
    /// host of rank 0 has the folder, the members on other hosts write nothing. NULL: the variable GW_CHECKPOINT_DIR
    /// (`gradwire run --checkpoint-dir`); no checkpoints if the variable is not set.
    const char *checkpoint GW_DEFAULT(NULL);
    int64_t every_ms GW_DEFAULT(600000);  ///< milliseconds between checkpoints; 0: not by time
    int64_t every_steps GW_DEFAULT(0);    ///< steps between checkpoints; 0: not by steps
    int keep GW_DEFAULT(3);  ///< the number of checkpoints to keep; older checkpoints are deleted
    gw_on_term on_term GW_DEFAULT(GW_LEAVE);
    /// A hook of the replicas (gradwire/comm_hook.h), and its argument, which is valid as long as the job. NULL:
    /// gradients are averaged.
    gw_comm_hook *hook GW_DEFAULT(NULL);
    void *hook_context GW_DEFAULT(NULL);
    /// The number of steps after which all members check whether a worker wants to join, a member wants to leave, or a
    /// checkpoint was requested. It is used only with a hook, and if all gradients are sparse by rows; otherwise
    /// members exchange such requests in each step.
    int64_t meet_every GW_DEFAULT(100);
    /// Functions for the state of the program. A program sets both or none. |save| is called on the member that sends
    /// its state to other members, and on rank 0 when a checkpoint begins. |load| is called on members that receive a
    /// state. If such a function fails, its member fails with the error of the function.
    gw_elastic_save *save GW_DEFAULT(NULL);
    gw_elastic_load *load GW_DEFAULT(NULL);
    void *context GW_DEFAULT(NULL);  ///< passed to |save| and |load|; valid as long as the job
    int64_t timeout_ms
        GW_DEFAULT(300000);  ///< milliseconds to wait for members that are missing or do not reply
} gw_elastic_options;

/// Joins the elastic training. If |root| has no agent, gw_elastic_open first calls gw_rpc_init. Then it opens or joins
/// the group of the members, and replicates |model|.
///
/// The state of the training consists of the parameters, the buffers, the state of |opt| and the state of the program.
/// The member that has made the most steps sends the state to the other members. If all members are new, they load the
/// newest complete checkpoint in .checkpoint; the log names damaged checkpoints. If there is no checkpoint, the member
/// with the most steps of |opt| sends the values that its program has made. If several members have made the same
/// number of steps, the member with the lowest rank sends its values.
///
/// model: a module without parameters on other workers, and not in another gw_ddp.
/// opt: an optimizer of parameters of |model|, not sharded.
/// Blocks: until .size members have joined; in a running job, until the members admit this worker between two steps.
/// Returns: the job. If all steps were made before this worker could join, gw_elastic_begin returns NULL. Then the
/// model has the values of the newest checkpoint, or the values that the program has made if there is no checkpoint.
/// Errors: those of gw_rpc_init, gw_ddp_open and gw_group_reform; MISMATCH, naming both sides, on a member whose model
/// or options differ from those of the member that sends the state; INVALID if .min is above .size, for a sharded
/// optimizer, and for a malformed GW_ELASTIC; DUPLICATE if the model or .name belongs to another job of this worker;
/// SYSTEM if this process cannot write in the folder .checkpoint.
GW_API gw_elastic *gw_elastic_open(gw_scope *root, gw_module *model, gw_optimizer *opt,
                                   gw_elastic_options options GW_DEFAULT({}))
    GW_CALLS(gw_elastic_open_with);
#define gw_elastic_open(...) GW_FORM_3(gw_elastic_open, gw_elastic_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_elastic_open) gw_elastic_open_with;

/// Options of gw_elastic_join.
typedef struct GW_BY_NAME gw_elastic_join_options {
    /// The name of this worker, in which %d stands for the number of its slot: RANK under `gradwire run`, otherwise its
    /// rank. NULL: the variable GW_NAME, which `gradwire run --role` sets, else "worker%d".
    const char *name GW_DEFAULT(NULL);
    gw_on_term on_term GW_DEFAULT(GW_LEAVE);
    int64_t timeout_ms GW_DEFAULT(300000);  ///< milliseconds to wait for the other workers
} gw_elastic_join_options;

/// Joins an elastic job whose workers call each other and have no replicas, such as a learner and its actors:
///
///     gw_elastic *job = gw_elastic_join(root, .name = "actor%d");
///     while (gw_ok(root) && !gw_elastic_leaving(job)) gw_rpc_sync(root, "learner", "push", 1);
///     gw_elastic_close(root, job);
///
/// If |root| has no agent, gw_elastic_join joins the job of the launcher. The next attempt of a rank that has failed has
/// the name of its predecessor: calls by this name that are made later go to the next attempt. A call to a worker that
/// is lost fails with DISCONNECTED, as in every job. gw_rpc_workers_named lists the workers that are present, gw_watch
/// has their events.
///
/// gw_elastic_leaving, gw_elastic_asked, gw_elastic_leave and gw_elastic_get_reason apply to this job.
/// gw_elastic_close leaves alone if this worker is asked to leave; otherwise it means that the work of the job is done:
/// ranks that start after that do not join, and it blocks until all workers have closed the job, as gw_rpc_shutdown.
/// Blocks: until this worker has joined. The next attempt of a rank may wait until the others have declared its
/// predecessor dead.
/// Returns: the job. If its work is done already, gw_elastic_get_reason returns GW_FINISHED, and |root| has no agent.
/// Errors: those of gw_rpc_init; DUPLICATE if this worker has joined already in this way; WRONG_STATE of
/// gw_elastic_begin with this job.
GW_API gw_elastic *gw_elastic_join(gw_scope *root, gw_elastic_join_options options GW_DEFAULT({}))
    GW_CALLS(gw_elastic_join_with);
#define gw_elastic_join(...) GW_FORM_1(gw_elastic_join, gw_elastic_join_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_elastic_join) gw_elastic_join_with;

/// Begins a step. First, all members agree on the members of the step if a member was lost, a worker wants to join, a
/// member wants to leave, or a checkpoint was requested.
///
/// Blocks: while the members agree. If steps are left and there are fewer than .min members, until enough workers have
/// joined.
/// Returns: a scope inside |root| for the step; NULL at the end of the loop. Only gw_elastic_end can close the scope:
/// gw_scope_close and gw_scope_close_up fail, and the scope stays open.
/// Errors: WRONG_STATE if the last step has not ended; TIMEOUT, naming the members that did not arrive; TIMEOUT on all
/// members if there were fewer than .min members for .timeout_ms (the members write a checkpoint first); FENCED if the
/// other members continue without this member.
GW_API gw_scope *gw_elastic_begin(gw_scope *root, gw_elastic *job);

/// Ends a step, and closes |s|. If a member was lost during the step, the step counts on this member only if its
/// optimizer step has succeeded.
///
/// Returns: whether the step counts on this member. If a step counts on one of the remaining members, it counts on all
/// of them after the next gw_elastic_begin.
/// Errors: these become errors of |root|. INVALID if |s| is not the scope of the step, if gw_optimizer_step was not
/// called exactly once in the step, or if the step has made no backward pass of the replicas; MISMATCH if members have
/// made different numbers of passes in a step; the error of |s|, unless a member was lost. If three successive steps
/// fail because a worker is lost that is not a member, such as a parameter server, the third error becomes an error of
/// |root|.
GW_API bool gw_elastic_end(gw_elastic *job, gw_scope *s);

/// Ends the elastic training on this member, also if |root| has failed. If gw_elastic_open has called gw_rpc_init, this
/// worker also leaves the job. It leaves together with the other workers, as by gw_rpc_shutdown. If it is leaving or
/// has failed, it leaves alone, as by gw_rpc_leave.
///
/// Errors: WRONG_STATE if a step has not ended; those of gw_rpc_shutdown.
GW_API void gw_elastic_close(gw_scope *root, gw_elastic *job);

// ---- Step, rank and members ---------------------------------------------------------------------

/// Returns the number of steps that were made, which is the index of the step under way; 0 for a job that could not be
/// opened.
GW_API int64_t gw_elastic_step(const gw_elastic *job);
/// Returns the rank of this member, from 0.
GW_API int gw_elastic_rank(const gw_elastic *job);
/// Returns the number of members; 1 for a job that could not be opened, because programs divide by the number.
GW_API int gw_elastic_size(const gw_elastic *job);
/// Returns the number of times that the list of members has changed.
GW_API int gw_elastic_generation(const gw_elastic *job);
/// Returns the reason why gw_elastic_begin has returned NULL, or blocks.
///
/// Threads: any.
GW_API gw_elastic_reason gw_elastic_get_reason(const gw_elastic *job);
/// Returns the word for |reason|, such as "finished".
GW_API const char *gw_elastic_reason_name(gw_elastic_reason reason);
/// Returns the group of the members, for collectives inside a step. The group is valid until the next gw_elastic_begin.
GW_API gw_group *gw_elastic_group(const gw_elastic *job);
/// Returns the gw_ddp of the members, for gw_ddp_skip, gw_ddp_check and gw_ddp_get_stats.
GW_API gw_ddp *gw_elastic_ddp(const gw_elastic *job);

/// A part of a batch.
typedef struct gw_share {
    int64_t first, count;  ///< samples of the batch: first, ..., first + count - 1
    double weight;         ///< the factor by which the mean loss of these samples is multiplied
} gw_share;

/// Returns the part of a batch of |count| samples on which this member trains. The parts of two members differ by at
/// most one sample. If all parts have the same size, all weights are 1. If there are fewer samples than members, some
/// members get no sample, and call gw_ddp_skip.
GW_API gw_share gw_elastic_share(const gw_elastic *job, int64_t count);

// ---- Leaving, and checkpoints on request --------------------------------------------------------

/// Makes this member leave between two steps, in one of the next two calls of gw_elastic_begin. The other members
/// continue, and no step of them fails. If all members leave between the same two steps, they write a checkpoint first.
///
/// Threads: any.
GW_API void gw_elastic_leave(gw_elastic *job);

/// Returns whether SIGTERM or gw_elastic_leave has asked this member to leave. The call is cheap. Loops that load data
/// or evaluate can call gw_elastic_leaving to end early.
///
/// Threads: any.
GW_API bool gw_elastic_leaving(const gw_elastic *job);

/// Returns a future that completes when this member is asked to leave, for gw_wait_any and gw_on_done.
///
/// Errors: the future fails with CANCELLED when the job has closed.
GW_API gw_future *gw_elastic_asked(gw_scope *s, gw_elastic *job);

/// Requests a checkpoint. All members begin it between two steps, and write it while training continues. Without
/// .checkpoint the call has no effect.
///
/// Threads: any.
GW_API void gw_elastic_ask_checkpoint(gw_elastic *job);

#ifdef __cplusplus
}
#endif
#include <gradwire/detail/elastic.h>
#endif
