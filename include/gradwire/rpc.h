// Calls: running a registered function on a named worker.
//
//     gw_scope *root = gw_scope_open(NULL);
//     gw_rpc_init(root, .name = "p0");                                  // rank, world size, master: the environment
//     gw_tensor *y   = gw_tensor_of(root, gw_rpc_sync(root, "p1", "my_add", x, x));   // blocks until the reply
//     gw_future *fut = gw_rpc_async(root, "p1", "my_add", x, y);                      // does not block
//     gw_rref   *ref = gw_remote(root, "p2", "gw.add", x, fut);                       // leaves the result on p2
//     gw_rpc_shutdown(root);
//
// |to| is the name of a worker, its rank, a gw_worker, or a reference: then |function| is a method of the object that
// it names. Arguments are C values, tensors, lists, maps, references and futures. A future may be an argument before it
// has resolved: the callee starts when its value has arrived, directly from the worker that makes it. Calls to this
// worker itself copy arguments and results, too. A tensor that needs a gradient keeps its history across a call
// (gradwire/dist.h).
//
// Every operator is callable as "gw.<name>" with the arguments of its C function in the same order. Shapes and dims are
// one list of ints; dim and keepdim of a reduction follow: "gw.sum"(x), "gw.sum"(x, 0, true). Losses take the options
// they use in the order of gw_loss_options.
//
// Errors: they enter the scope when a result is consumed (gw_rpc_sync, gw_wait), with the trace of workers and
// functions on the way and an outcome: NOT_DELIVERED, MAY_HAVE_RUN, RAN_AND_FAILED. Of every call: TIMEOUT when the
// deadline passed, NOT_FOUND for an unknown worker or function, INVALID for arguments, UNSUPPORTED for a caller that is
// not allowed, DISCONNECTED when the worker is gone, OVERLOADED when its queue stays full, WRONG_STATE before
// gw_rpc_init and after gw_rpc_shutdown, and the error of the function. The error of a call whose future no thread
// waits for is not reported.
// Deadlines: the least of the call's own (60 s by default), the scope's, and the time left of the call that this one is
// made for. A function runs at most once; the library never repeats a call.
// Order: calls from one scope to one worker start there in order, among those whose arguments are ready.
// Blocking: all forms block while 64 MiB of requests are queued for the worker, or 65,536 calls to it have not
// returned: until room is available, at most to the deadline. Inline functions do not block: there this is OVERLOADED at
// once. gw_rpc_sync and the functions that wait are WOULD_BLOCK in an inline function.
//
// Ownership: futures and references belong to the scope that made the call. Arguments are borrowed until the call
// returns, and may be written afterwards: the callee gets their old values.
// Threads: as the scope; any number of threads with scopes of their own may use one agent. A thread that draws random
// numbers gets a scope with a generator of its own, by gw_seed.
#ifndef GRADWIRE_RPC_H
#define GRADWIRE_RPC_H

#include <gradwire/function.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- Joining and leaving ------------------------------------------------------------------------

/// What kind of job gw_rpc_init joins. A job has a world size that is fixed when it begins; or it is elastic:
/// one worker creates it, and others join and leave it while it runs (gradwire/membership.h). An elastic job gives out
/// ranks in order, from 0, and each once.
typedef enum gw_job_kind {
    GW_JOB_NONE =
        0,  ///< a job of a world size; without one the environment GW_JOB ("create", "join") decides
    GW_JOB_CREATE,  ///< creates an elastic job; others find it at the master's address, or by the file
    GW_JOB_JOIN,  ///< joins an elastic job, once it exists
} gw_job_kind;

/// No timeout, wherever a timeout in milliseconds is given.
#define GW_NO_TIMEOUT 0

/// Options of gw_rpc_init.
typedef struct GW_BY_NAME gw_rpc_options {
    /// The name of this worker, [A-Za-z0-9_:.-], 1 to 127 bytes. %d in it stands for the rank. NULL: "worker%d"; a
    /// worker that joins an elastic job without a name gets one that no other worker has.
    const char *name GW_DEFAULT(NULL);
    gw_job_kind
        job GW_DEFAULT(GW_JOB_NONE);  ///< of an elastic job, which has no rank and world size here
    /// Both or neither. -1: from the URL, or from the environment: RANK and WORLD_SIZE, or the variables of the
    /// launchers of MPI, Slurm and Kubernetes (docs/LAUNCHERS.md).
    int rank GW_DEFAULT(-1), world_size GW_DEFAULT(-1);
    /// The rendezvous address. NULL: "env://" (MASTER_ADDR, MASTER_PORT, or the launcher's address; a world of one
    /// needs neither). Or "tcp://host:port" of rank 0, or of an elastic job, which may have several,
    /// "tcp://host:port,host:port". Or "file:///path" of a file that does not exist yet. Or
    /// "redis://host:port/database" of a Redis server, where GW_JOB_ID distinguishes jobs and GW_REDIS_PASSWORD_FILE
    /// names the file with the password. "?rank=0&world_size=2" may follow. With a host beyond loopback this worker
    /// listens at addresses of its machine that others reach.
    const char *init_method GW_DEFAULT(NULL);
    /// At which of them: "10.0.0.7" or "10.0.0.7:29501,[fd00::7]", and "eth0" or "eth0,ib0". NULL: GW_ADDRESS and
    /// GW_INTERFACE in the environment, or a choice of the library.
    const char *addresses GW_DEFAULT(NULL), *interfaces GW_DEFAULT(NULL);
    int64_t timeout_ms GW_DEFAULT(60000);          ///< milliseconds, of each call
    int64_t join_timeout_ms GW_DEFAULT(300000);    ///< milliseconds, until all workers have joined
    int threads GW_DEFAULT(4);                     ///< of the pool, which runs GW_POOL functions
    const gw_registry *registry GW_DEFAULT(NULL);  ///< served by this worker; NULL: the process's
    /// The path of the job's key, a file that `gradwire key` has made and that no other user may read: connections are
    /// encrypted with it, and a worker without it is refused. NULL: the key of the launcher (GW_KEY_FD, a descriptor),
    /// or the file that GW_KEY_FILE names, or none. Or the path of this worker's certificate (gradwire key --ca): then
    /// no other member can pass for it either.
    const char *key GW_DEFAULT(NULL);
    /// Without a key, whether connections may leave this host, where other machines can read and change them. As
    /// GW_INSECURE=1. Every worker sets it.
    bool insecure GW_DEFAULT(false);
} gw_rpc_options;

/// Joins the job and opens the agent of |root|. Scopes opened inside |root| from now on call through it.
///
/// Blocks: until all workers have joined; when joining an elastic job, until the coordinator has admitted this worker.
/// An elastic job can be joined as long as it has a member, by its file or at its address: if the coordinator ends,
/// another member takes the address over, on the same host, or on the hosts of several addresses that all workers give
/// in the same order: "tcp://10.0.0.1:29500,10.0.0.2:29500".
/// Errors: INVALID for options; DUPLICATE if the name or rank is taken; MISMATCH for another world size or protocol;
/// ADDRESS_IN_USE; TIMEOUT, naming the workers that have not joined; WRONG_STATE if the job has ended; DISCONNECTED if
/// the coordinator is gone; UNSUPPORTED for addresses beyond this host without a key; CANCELLED when this thread
/// receives SIGHUP, SIGINT, SIGQUIT, SIGTERM or SIGALRM with a handler without SA_RESTART (signal() sets it, sigaction
/// does not).
/// Source: torch.distributed.rpc.init_rpc.
GW_API void gw_rpc_init(gw_scope *root, gw_rpc_options options GW_DEFAULT({}))
    GW_CALLS(gw_rpc_init_with);
#define gw_rpc_init(...)                                                                           \
    (GW_CATCH_EXCEPTIONS(), GW_FORM_1(gw_rpc_init, gw_rpc_options, __VA_ARGS__))
GW_API GW_TYPE_OF(gw_rpc_init) gw_rpc_init_with;

/// The place of this process as its launcher set it (`gradwire run`, torchrun, mpirun, srun, an indexed job of
/// Kubernetes).
typedef struct gw_launch {
    int rank, world_size;  ///< -1: not set
    int local_rank;        ///< among the ranks of this host; -1: not set
    int attempt;  ///< how often this rank was started again (--max-restarts); 0: never, or not set
} gw_launch;

/// Returns the place of this process as its launcher set it. For programs that start workers of their own without a
/// launcher, and that choose roles or devices before they join.
GW_API gw_launch gw_rpc_launched(void);

/// Options of gw_rpc_shutdown.
typedef struct GW_BY_NAME gw_rpc_shutdown_options {
    int64_t timeout_ms GW_DEFAULT(0);  ///< milliseconds; GW_NO_TIMEOUT: none
} gw_rpc_shutdown_options;

/// Leaves the job together with all other workers.
///
/// Blocks: until every live worker has called it, or until .timeout_ms has passed; the scope's timeout does not count.
/// Workers that have died or left count as having called it. This worker serves calls meanwhile. Then it releases its
/// references and waits for running functions, at most 30 s. Afterwards calls and references are WRONG_STATE; a second
/// call does nothing. If the worker serves no calls, a line in the log names the missing workers after 10 s.
/// Runs also when |root| has failed. Closing |root| without it leaves at once: the other workers see this one as gone.
/// Errors: TIMEOUT, naming the workers that have not called it, and this worker leaves as by gw_rpc_leave; or naming
/// the functions that still run after 30 s. FENCED if the other workers continue without this one. The waits of other
/// programs for this one end at once with DISCONNECTED, or with the error of |root|: "worker0 has failed: train.csv: no
/// such file".
/// Source: torch.distributed.rpc.shutdown.
GW_API void gw_rpc_shutdown(gw_scope *root, gw_rpc_shutdown_options options GW_DEFAULT({}))
    GW_CALLS(gw_rpc_shutdown_with);
#define gw_rpc_shutdown(...) GW_FORM_1(gw_rpc_shutdown, gw_rpc_shutdown_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_rpc_shutdown) gw_rpc_shutdown_with;

/// Leaves the job while the other workers continue.
///
/// Blocks: until running functions have returned, at most 30 s; new calls are refused. Otherwise as gw_rpc_shutdown.
/// References of other workers to values here are lost. A collective that this worker has completed succeeds on the
/// other members of its group, however late they call it; the next one fails there.
/// Errors: TIMEOUT, naming the functions that still run, or a worker that has not received all within 30 s.
/// Source: torch.distributed.rpc.shutdown(graceful=False).
GW_API void gw_rpc_leave(gw_scope *root);

/// Returns this worker; with an empty name and rank -1 without a job.
GW_API gw_worker gw_rpc_self(gw_scope *s);

/// Returns the number of workers; of an elastic job those that are members now; 1 in a scope that has failed or joined
/// no job, since programs divide by it.
GW_API int gw_rpc_world_size(gw_scope *s);

// ---- Calling ------------------------------------------------------------------------------------
// The short forms take |args| one by one, 0 to 12 of them, and the default options. With options:
//
//     gw_rpc_sync_with(s, gw_to("ps"), "scale", GW_ARGS(x, 2.5), GW_OPTIONS(gw_call_options, .timeout_ms = 500));

/// The timeout of gw_rpc_init, as a timeout in milliseconds.
#define GW_AGENT_TIMEOUT (-1)

/// Options of a call.
typedef struct GW_BY_NAME gw_call_options {
    int64_t
        timeout_ms GW_DEFAULT(GW_AGENT_TIMEOUT);  ///< milliseconds; GW_NO_TIMEOUT: only the scope's
    /// "src/train.c:12", for gw_references and GW_TRACE_ERRORS; set by the short forms of C. Lives as long as the
    /// result.
    const char *origin GW_DEFAULT(NULL);
} gw_call_options;

/// The receiver of a call; made by gw_to and gw_to_workers.
typedef struct gw_target {
    const char *name;  ///< of a worker; NULL: not by name
    gw_rref *rref;     ///< NULL: not by reference
    int64_t rank;      ///< of a worker, if both are NULL
    bool is_worker;    ///< the worker of this incarnation, not of any
    uint64_t incarnation;
    const gw_worker *workers;  ///< several workers; NULL: one
    int worker_count;
} gw_target;

/// Makes a target of a name, a rank, a gw_worker or a reference: `gw_target gw_to(x)`. It is one of the functions
/// below.
///
/// Returns: the target.
#define gw_to(x) GW_TO(x)
/// Returns the target gw_to(name).
GW_API gw_target gw_to_name(const char *name);
/// Returns the target gw_to(rank).
GW_API gw_target gw_to_rank(int64_t rank);
/// Returns the target gw_to(worker): the worker of that incarnation alone.
GW_API gw_target gw_to_worker(gw_worker worker);
/// Returns the target gw_to(rref): the object or value that |rref| names.
GW_API gw_target gw_to_rref(const gw_rref *rref);
/// Returns the target of gw_rpc_sync_all and gw_rpc_async_all: |count| workers.
GW_API gw_target gw_to_workers(const gw_worker *workers, int count);

/// Finds a worker by its name or rank.
///
/// to: a name, a rank, a gw_worker, or a reference, whose owner is meant.
/// Returns: the worker.
/// Errors: NOT_FOUND, naming it and this worker.
GW_API gw_worker gw_rpc_worker(gw_scope *s, gw_target to) GW_CALLS(gw_rpc_worker_with);
#define gw_rpc_worker(s, to) gw_rpc_worker_with((s), gw_to(to))
GW_API GW_TYPE_OF(gw_rpc_worker) gw_rpc_worker_with;

/// Calls |function| on |to| and blocks until it has returned: gw_rpc_sync(s, to, function, args...).
///
/// to: a name, a rank, a gw_worker, or a reference, of whose object |function| is a method.
/// function: a registered name, or "gw.<operator>".
/// Returns: the result; none if the call failed.
/// Gradient: through the tensors of arguments and result (gradwire/dist.h).
/// Source: torch.distributed.rpc.rpc_sync.
GW_API gw_value gw_rpc_sync(gw_scope *s, gw_target to, const char *function, gw_values args,
                            gw_call_options options GW_DEFAULT({})) GW_CALLS(gw_rpc_sync_with);
#define gw_rpc_sync(s, to, ...) GW_CALL(gw_rpc_sync, s, gw_to(to), __VA_ARGS__)
GW_API GW_TYPE_OF(gw_rpc_sync) gw_rpc_sync_with;

/// Calls |function| on |to|: gw_rpc_async(s, to, function, args...).
///
/// Returns: a future of the result.
/// Gradient: as gw_rpc_sync.
/// Source: torch.distributed.rpc.rpc_async.
GW_API gw_future *gw_rpc_async(gw_scope *s, gw_target to, const char *function, gw_values args,
                               gw_call_options options GW_DEFAULT({})) GW_CALLS(gw_rpc_async_with);
#define gw_rpc_async(s, to, ...) GW_CALL(gw_rpc_async, s, gw_to(to), __VA_ARGS__)
GW_API GW_TYPE_OF(gw_rpc_async) gw_rpc_async_with;

/// Calls |function| on |to| and leaves the result there: gw_remote(s, to, function, args...).
///
/// function: also the name of a class: then the reference is to a new object, opened with |args|.
/// Returns: a reference to the result, before it exists.
/// Gradient: as gw_rpc_sync.
/// Errors: of the call are reported by every use of the reference.
/// Source: torch.distributed.rpc.remote.
GW_API gw_rref *gw_remote(gw_scope *s, gw_target to, const char *function, gw_values args,
                          gw_call_options options GW_DEFAULT({})) GW_CALLS(gw_remote_with);
#define gw_remote(s, to, ...) GW_CALL(gw_remote, s, gw_to(to), __VA_ARGS__)
GW_API GW_TYPE_OF(gw_remote) gw_remote_with;

/// Calls |function| on |to| without a reply: gw_rpc_notify(s, to, function, args...). It starts in order with the
/// other calls of the scope.
///
/// Errors: only of sending; an error of the function is a line in the log of |to|.
GW_API void gw_rpc_notify(gw_scope *s, gw_target to, const char *function, gw_values args,
                          gw_call_options options GW_DEFAULT({})) GW_CALLS(gw_rpc_notify_with);
#define gw_rpc_notify(s, to, ...) GW_CALL(gw_rpc_notify, s, gw_to(to), __VA_ARGS__)
GW_API GW_TYPE_OF(gw_rpc_notify) gw_rpc_notify_with;

/// Calls |function| on several workers and blocks until all have returned:
/// gw_rpc_sync_all(s, workers, count, function, args...). Arguments are encoded once.
///
/// to: of the function gw_rpc_sync_all_with, made by gw_to_workers(workers, count).
/// Returns: a list of the results in the order of the workers.
/// Errors: the first one in that order, which names its worker.
GW_API gw_list *gw_rpc_sync_all(gw_scope *s, gw_target to, const char *function, gw_values args,
                                gw_call_options options GW_DEFAULT({}))
    GW_CALLS(gw_rpc_sync_all_with);
#define gw_rpc_sync_all(s, workers, count, ...)                                                    \
    GW_CALL(gw_rpc_sync_all, s, gw_to_workers(workers, count), __VA_ARGS__)
GW_API GW_TYPE_OF(gw_rpc_sync_all) gw_rpc_sync_all_with;

/// Calls |function| on several workers: gw_rpc_async_all(s, workers, count, function, args...).
///
/// to: of the function gw_rpc_async_all_with, made by gw_to_workers(workers, count).
/// Returns: a future of a list of the results, which fails as soon as one call fails.
GW_API gw_future *gw_rpc_async_all(gw_scope *s, gw_target to, const char *function, gw_values args,
                                   gw_call_options options GW_DEFAULT({}))
    GW_CALLS(gw_rpc_async_all_with);
#define gw_rpc_async_all(s, workers, count, ...)                                                   \
    GW_CALL(gw_rpc_async_all, s, gw_to_workers(workers, count), __VA_ARGS__)
GW_API GW_TYPE_OF(gw_rpc_async_all) gw_rpc_async_all_with;

// ---- Futures ------------------------------------------------------------------------------------
// From PyTorch: wait is gw_wait; value gw_future_value; done gw_future_done; then gw_then; add_done_callback
// gw_on_done; set_result gw_future_set; set_exception gw_future_fail; torch.futures.collect_all and wait_all are
// gw_collect_all and gw_wait_all.

/// Blocks until |f| has resolved. May be called again, and from any scope of this worker.
///
/// Returns: its value.
/// Errors: the error of |f|; TIMEOUT at the deadline of |s|; WOULD_BLOCK in an inline function.
/// Source: torch.futures.Future.wait.
GW_API gw_value gw_wait(gw_scope *s, gw_future *f);

/// Returns whether |f| has resolved, with a value or an error.
GW_API bool gw_future_done(const gw_future *f);

/// Reads a future that has resolved.
///
/// Returns: its value.
/// Errors: the error of |f|; WRONG_STATE if it has not resolved.
GW_API gw_value gw_future_value(gw_scope *s, gw_future *f);

/// Returns the error of |f|; NULL if it has a value, or has not resolved. Lives as long as |f|.
GW_API const gw_error *gw_future_error(const gw_future *f);

/// Blocks until all |count| futures have resolved.
///
/// Errors: the first one in the order of |fs|, after all have resolved.
GW_API void gw_wait_all(gw_scope *s, gw_future *const *fs, int count);

/// Blocks until one of |count| futures has resolved, with a value or an error. With gw_member_lost among them
/// (gradwire/membership.h) it waits for members as well.
///
/// Returns: the index of the first one that has resolved, for gw_wait; -1 with |s| failed.
/// Errors: TIMEOUT at the deadline of |s|.
GW_API int gw_wait_any(gw_scope *s, gw_future *const *fs, int count);

/// Cancels |f|: it resolves at once, with CANCELLED, unless it has resolved. Runs also when |s| has failed.
///
/// A call that has not started does not run. One that runs is notified: gw_cancelled is true there, its waits end with
/// CANCELLED, and its calls are cancelled in turn; its finished work stays. The outcome is NOT_DELIVERED if the request
/// was not sent, else MAY_HAVE_RUN. A future of gw_then, gw_collect_all and the like also cancels the futures that it
/// waits for, unless another handle holds them: gw_drop those first. The value of gw_remote is not cancelled, but
/// released with its references.
/// Errors: none for a future that has resolved.
GW_API void gw_cancel(gw_scope *s, gw_future *f);

/// Returns, in a function that another worker called, whether its result is not needed: it was cancelled, its deadline
/// has passed, or its caller is lost. Long computations call it from time to time. Elsewhere: whether the deadline of
/// |s| has passed.
GW_API bool gw_cancelled(gw_scope *s);

/// Chains |body| to |f|: it runs once |f| has its value, and is skipped if |f| fails.
///
/// body: does not block. It runs at the end of the turn that resolves |f|, on the thread that resolves it, or now if
/// |f| has resolved.
/// Returns: a future of what |body| returns, or of the error of |f|.
/// Source: torch.futures.Future.then.
GW_API gw_future *gw_then(gw_scope *s, gw_future *f,
                          gw_value (*body)(gw_scope *s, gw_value v, void *context), void *context);

/// Runs |done| once |f| has resolved, with a value or an error; gw_wait and gw_future_error do not block in it.
///
/// done: as the body of gw_then; an error of its scope is a line in the log.
/// Errors: INVALID for arguments.
/// Source: torch.futures.Future.add_done_callback.
GW_API void gw_on_done(gw_scope *s, gw_future *f,
                       void (*done)(gw_scope *s, gw_future *f, void *context), void *context);

/// Joins |count| futures; the joined one resolves when all have.
///
/// Returns: a future of the list of their values in order; it fails with the first error in their order.
/// Source: torch.futures.collect_all.
GW_API gw_future *gw_collect_all(gw_scope *s, gw_future *const *fs, int count);

/// Joins |count| futures; the joined one fails as soon as one of them fails.
///
/// Returns: a future of the list of their values in order.
GW_API gw_future *gw_collect_fail_fast(gw_scope *s, gw_future *const *fs, int count);

/// Joins |count| futures; the joined one resolves with the first of them.
///
/// Returns: a future of the first one's value or error.
GW_API gw_future *gw_collect_first(gw_scope *s, gw_future *const *fs, int count);

/// Opens a future that the program resolves itself, once. A function may return it and keep a handle of it (gw_keep,
/// gw_set in an object); when the last handle that could resolve it is closed, its waits fail with WRONG_STATE.
///
/// Returns: the future.
/// Source: torch.futures.Future.
GW_API gw_future *gw_future_open(gw_scope *s);

/// Resolves |f| with |v|.
///
/// v: any value; of another future, |f| resolves as that one does.
/// Errors: WRONG_STATE if |f| has resolved; INVALID if |v| is a future that waits for |f|.
/// Source: torch.futures.Future.set_result.
GW_API void gw_future_set(gw_scope *s, gw_future *f, gw_value v) GW_CALLS(gw_future_set_with);
#define gw_future_set(s, f, v) gw_future_set_with((s), (f), gw_value_of(v))
GW_API GW_TYPE_OF(gw_future_set) gw_future_set_with;

/// Resolves |f| with an error.
///
/// format: as of printf.
/// Errors: WRONG_STATE if |f| has resolved.
/// Source: torch.futures.Future.set_exception.
GW_API void gw_future_fail(gw_scope *s, gw_future *f, gw_status status, const char *format, ...)
    GW_PRINTF(4, 5);

// ---- RPC collectives ----------------------------------------------------------------------------
// Every one of |workers| calls it, with the same workers in any order, itself among them, and enters each RPC
// collective of the same workers one after the other. If one of them is lost, cancels, enters another kind, or does not
// arrive before the deadline of another one, all fail, with its name, also those that arrive later; the next RPC
// collective begins again. After a deadline it takes at most a second to learn which workers are missing. After
// gw_rpc_shutdown or gw_rpc_leave only functions that a worker serves enter one (else WRONG_STATE); those that wait for
// it then fail with DISCONNECTED, once no call can make it enter. gradwire/collective.h is faster, and has more.

/// Gathers |v| of all |workers|.
///
/// Returns: a list of the values in the order of |workers|.
/// Errors: those of RPC collectives (see "RPC collectives"); INVALID if this worker is not among |workers|.
GW_API gw_list *gw_rpc_all_gather(gw_scope *s, const gw_worker *workers, int count, gw_value v)
    GW_CALLS(gw_rpc_all_gather_with);
#define gw_rpc_all_gather(s, workers, count, v)                                                    \
    gw_rpc_all_gather_with((s), (workers), (count), gw_value_of(v))
GW_API GW_TYPE_OF(gw_rpc_all_gather) gw_rpc_all_gather_with;

/// Blocks until all |workers| have called it.
///
/// Errors: those of RPC collectives (see "RPC collectives"); INVALID if this worker is not among |workers|.
GW_API void gw_rpc_barrier(gw_scope *s, const gw_worker *workers, int count);

// ---- Counting -----------------------------------------------------------------------------------

/// Counts of one transport to other workers.
typedef struct gw_transport_stats {
    const char *name;                     ///< "shm" (shared memory, of workers on this host), "tcp"
    int workers;                          ///< connected over it now
    uint64_t bytes_sent, bytes_received;  ///< bytes of frames, everything in them included
} gw_transport_stats;

/// The most transports in gw_rpc_stats.
enum { GW_TRANSPORTS_MAX = 8 };

/// Counts of this worker's calls and messages since gw_rpc_init.
typedef struct gw_rpc_stats {
    uint64_t calls_made, calls_served;
    /// Requests, replies and control messages, without acknowledgements, membership and calls to this worker itself.
    uint64_t messages_sent, messages_received;
    uint64_t bytes_sent, bytes_received;  ///< on the wire, everything
    uint64_t reconnects;
    uint64_t replies_dropped;  ///< that arrived when no future waited for them
    /// The fastest first. GW_TRANSPORT=tcp in the environment leaves "tcp" alone.
    gw_transport_stats transports[GW_TRANSPORTS_MAX];
    int transport_count;
    /// What protects connections to other hosts: "a key", "a certificate", "nothing (insecure)", or "there are none".
    const char *protection;
} gw_rpc_stats;

/// Returns the counts of this worker; all 0 without a job.
GW_API gw_rpc_stats gw_rpc_get_stats(gw_scope *s);

/// Describes for people how worker |to| is reached, and why not by a faster transport: "shm; large tensors: lent, or
/// pulled where the program has them", "tcp, encrypted; large tensors: sent: ...; not shm: ...: on another host".
/// Lent: the receiver maps the memory; pulled: it copies from there; sent: the tensors are in messages. The way of large
/// tensors is chosen when the first one is sent.
///
/// Returns: text that lives as long as |s|.
/// Errors: NOT_FOUND for an unknown worker.
GW_API const char *gw_rpc_path(gw_scope *s, gw_worker to);

#ifdef __cplusplus
}
#endif
#include <gradwire/detail/rpc.h>
#endif
