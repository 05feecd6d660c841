// Calls: running a registered function on a named worker.
//
//     gw_scope *root = gw_scope_open(NULL);
//     gw_rpc_init(root, .name = "p0");                                  // rank, world size, master: the environment
//     gw_tensor *y   = gw_tensor_of(root, gw_rpc_sync(root, "p1", "my_add", x, x));   // blocks until the reply
//     gw_future *fut = gw_rpc_async(root, "p1", "my_add", x, y);                      // does not block
//     gw_rref   *ref = gw_remote(root, "p2", "gw.add", x, fut);                       // leaves the result on p2
//     gw_rpc_shutdown(root);
//
// |to| is the name of a worker, its rank, a gw_worker, or a reference to an object. For a reference, |function| is a
// method of the object. Arguments are C values, tensors, lists, maps, references and futures. A future may be an
// argument before it has resolved: the worker that computes the value sends the value to the callee, and the callee
// starts when the value has arrived. Arguments and results are copied, even if the callee is this worker itself. A
// tensor that needs a gradient keeps its history across a call (gradwire/dist.h).
//
// Every operator can be called as "gw.<name>", with the arguments of its C function in the same order. A shape, or a
// list of dimensions, is one argument: a list of ints. The last arguments of a reduction are dim and keepdim:
// "gw.sum"(x), "gw.sum"(x, 0, true). The last arguments of a loss are the options that the loss uses, in the order of
// gw_loss_options.
//
// Errors: when a call fails, the scope that waits for the result (gw_rpc_sync, gw_wait) fails with the error of the
// call. The error has a trace of the workers and functions that it has passed, and an outcome: NOT_DELIVERED,
// MAY_HAVE_RUN or RAN_AND_FAILED. If no thread waits for the future of a call, the error of the call is not reported.
// Every call may fail with:
//
// - TIMEOUT: the deadline has passed
// - NOT_FOUND: no worker or function has the name
// - INVALID: an argument is wrong
// - UNSUPPORTED: the function does not allow this caller
// - DISCONNECTED: the worker is gone
// - REF_LOST: the call is through a reference whose owner was lost before the call
// - OVERLOADED: the queue of the worker stayed full
// - WRONG_STATE: before gw_rpc_init, and after gw_rpc_shutdown
// - any: the error of the function
//
// Deadlines: a call ends at the earliest of its own timeout (60 s by default) and the deadline of its scope. A function
// that another worker called makes its own calls with the deadline of that call at the latest. A function runs at most
// once; the library never repeats a call. If the deadline passes while a call is queued on the callee, the function
// does not run. The outcome is then MAY_HAVE_RUN, because the caller cannot distinguish this case from a function that
// runs too long.
// Order: a worker starts the calls of one scope in the order in which they were made. A call whose arguments are not
// ready does not delay later calls.
// Blocking: every call, gw_rpc_async included, blocks while 64 MiB of requests are queued for the worker, or while
// 65,536 calls to the worker have not returned, at most until the deadline. In an inline function such a call does not
// block: it fails with OVERLOADED at once. gw_rpc_sync and the functions that wait fail with WOULD_BLOCK in an inline
// function.
//
// Ownership: futures and references belong to the scope that made the call. Arguments are borrowed until the call
// returns. If the program writes to them afterwards, the callee gets the old values. If the callee writes to a result
// after the body has returned, for example to the parameters of a module, the caller gets the old values.
// Threads: the same as for the scope; any number of threads, each with its own scope, may use one agent. A thread that
// draws random numbers must give its scope a generator of its own by gw_seed.
#ifndef GRADWIRE_RPC_H
#define GRADWIRE_RPC_H

#include <gradwire/function.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- Joining and leaving ------------------------------------------------------------------------

/// What kind of job gw_rpc_init joins. The world size of a job is fixed when the job begins, unless the job is elastic.
/// One worker creates an elastic job; other workers join and leave it while it runs (gradwire/membership.h). The
/// workers of an elastic job get the ranks 0, 1, 2, ... in the order in which they join. No rank is used again.
typedef enum gw_job_kind {
    /// The default: a job of fixed world size, unless the variable GW_JOB ("create" or "join") selects an elastic job.
    GW_JOB_NONE = 0,
    GW_JOB_CREATE,  ///< creates an elastic job; other workers join it by .init_method
    GW_JOB_JOIN,    ///< joins an elastic job; waits until the job exists
} gw_job_kind;

/// The value of a timeout option that means "no timeout".
#define GW_NO_TIMEOUT 0

/// Options of gw_rpc_init.
typedef struct GW_BY_NAME gw_rpc_options {
    /// The name of this worker: 1 to 127 of A-Z a-z 0-9 _ : . -, where %d stands for the rank. NULL: the variable GW_NAME,
    /// else "worker%d", or a name that no other worker has if this worker joins an elastic job.
    const char *name GW_DEFAULT(NULL);
    gw_job_kind job GW_DEFAULT(
        GW_JOB_NONE);  ///< for an elastic job; .rank and .world_size must then not be set
    /// The rank of this worker, set together with .world_size. -1: the rank in .init_method, or else that of the
    /// variables RANK and WORLD_SIZE, or that of the variables of the launchers of MPI, Slurm and Kubernetes
    /// (docs/LAUNCHERS.md).
    int rank GW_DEFAULT(-1);
    int world_size GW_DEFAULT(-1);  ///< workers of the job. -1: from the same sources as .rank
    /// The rendezvous address, in one of these forms:
    /// "env://", the default: MASTER_ADDR and MASTER_PORT, or the launcher's address; a world of one worker needs
    /// neither.
    /// "tcp://host:port": rank 0 listens at this address. An elastic job may have several: "tcp://host:port,host:port".
    /// "file:///path": a file that does not exist yet.
    /// "redis://host:port/database": a Redis server. GW_JOB_ID distinguishes jobs, and GW_REDIS_PASSWORD_FILE names the
    /// file with the password.
    /// "?rank=0&world_size=2" may follow the address. If the host is not a loopback address, this worker listens at
    /// addresses that other machines can reach.
    const char *init_method GW_DEFAULT(NULL);
    /// The addresses at which this worker listens: "10.0.0.7" or "10.0.0.7:29501,[fd00::7]". NULL: GW_ADDRESS in the
    /// environment; without GW_ADDRESS the library chooses.
    const char *addresses GW_DEFAULT(NULL);
    /// The network interfaces at which this worker listens: "eth0" or "eth0,ib0". NULL: GW_INTERFACE in the
    /// environment; without GW_INTERFACE the library chooses.
    const char *interfaces GW_DEFAULT(NULL);
    int64_t timeout_ms GW_DEFAULT(60000);        ///< milliseconds, of each call
    int64_t join_timeout_ms GW_DEFAULT(300000);  ///< milliseconds, until all workers have joined
    int threads GW_DEFAULT(4);  ///< threads of the pool, which run GW_POOL functions
    const gw_registry *registry
        GW_DEFAULT(NULL);  ///< the functions that this worker serves; NULL: the process's registry
    /// The path of the job's key: a file that `gradwire key` has made, and that no other user may read. Connections are
    /// encrypted with the key, and a worker without the key is refused. NULL: the key of the launcher (GW_KEY_FD, a
    /// descriptor), or the file that GW_KEY_FILE names, or no key. The path may also be that of this worker's
    /// certificate (gradwire key --ca); no other member can then use the name of this worker.
    const char *key GW_DEFAULT(NULL);
    /// Allows connections to other hosts without a key. Machines in the network can then read and change the data. The
    /// option must be set on all workers. GW_INSECURE=1 in the environment has the same effect.
    bool insecure GW_DEFAULT(false);
    /// Calls that arrive wait until this worker calls gw_rpc_serve; for programs that must prepare objects of their own
    /// after they have joined, and before a function runs.
    bool serve_later GW_DEFAULT(false);
} gw_rpc_options;

/// Joins the job and opens the agent of |root|. Scopes that are opened inside |root| afterwards make calls through this
/// agent.
///
/// Blocks: until all workers have joined; when joining an elastic job, until the coordinator has admitted this worker.
/// An elastic job can be joined as long as it has a member. If the member that admits this worker is lost meanwhile, this
/// worker joins again, with the same name, until .join_timeout_ms has passed. If the coordinator of the job ends, another
/// member on the same host listens at the coordinator's address. If .init_method has several addresses, such as
/// "tcp://10.0.0.1:29500,10.0.0.2:29500", a member on another of these hosts may listen next. All workers must give
/// these addresses in the same order.
/// Errors: INVALID for options; DUPLICATE if the name or rank is taken; MISMATCH if workers differ in world size or
/// protocol version; ADDRESS_IN_USE; TIMEOUT, naming the workers that have not joined; WRONG_STATE if the job has
/// ended; DISCONNECTED if the coordinator is gone; UNSUPPORTED without a key for addresses that other hosts can reach;
/// CANCELLED when this thread handles SIGHUP, SIGINT, SIGQUIT, SIGTERM or SIGALRM by a handler without SA_RESTART
/// (signal() sets SA_RESTART; sigaction sets it only if the program requests it).
/// Source: torch.distributed.rpc.init_rpc.
GW_API void gw_rpc_init(gw_scope *root, gw_rpc_options options GW_DEFAULT({}))
    GW_CALLS(gw_rpc_init_with);
#define gw_rpc_init(...)                                                                           \
    (GW_CATCH_EXCEPTIONS(), GW_FORM_1(gw_rpc_init, gw_rpc_options, __VA_ARGS__))
GW_API GW_TYPE_OF(gw_rpc_init) gw_rpc_init_with;

/// Starts to serve calls after gw_rpc_init with .serve_later; does nothing if this worker serves calls already.
///
/// Calls that have arrived before start now, those of one worker in the order in which they have arrived. Until then they
/// count towards the limits of queued calls, and fail at their deadlines. Calls of this worker to itself wait, too.
/// What runs no function of the program is processed all the time: replies, references and their names, collectives and
/// messages of groups, gw_rpc_barrier and gw_rpc_all_gather. gw_rpc_shutdown and gw_rpc_leave begin with the same effect.
/// Errors: WRONG_STATE before gw_rpc_init.
/// Threads: any, with a scope of its own inside |root| (or of gw_scope_open_of).
GW_API void gw_rpc_serve(gw_scope *root);

/// The ranks and sizes that a launcher has given to this process. The launcher is `gradwire run`, torchrun, mpirun,
/// srun, or an indexed job of Kubernetes.
typedef struct gw_launch {
    int rank, world_size;  ///< -1: not set
    int local_rank;        ///< among the ranks of this host; -1: not set
    int attempt;  ///< how many times this rank was restarted (--max-restarts); 0 also if not set
    bool
        creates;  ///< in an elastic job: this rank creates the job (GW_JOB_CREATE), and the other ranks join it
} gw_launch;

/// Returns the ranks and sizes that the launcher has given to this process. A program calls gw_rpc_launched to choose a
/// role or a device before joining, or to find out whether a launcher has started this process.
GW_API gw_launch gw_rpc_launched(void);

/// Options of gw_rpc_shutdown.
typedef struct GW_BY_NAME gw_rpc_shutdown_options {
    int64_t timeout_ms GW_DEFAULT(0);  ///< milliseconds; GW_NO_TIMEOUT: no limit
} gw_rpc_shutdown_options;

/// Leaves the job together with all other workers.
///
/// Blocks: until every live worker has called gw_rpc_shutdown, or until .timeout_ms has passed. The timeout of the
/// scope has no effect. The function does not wait for workers that have died or left. While it blocks, this worker
/// serves calls. Then it releases the references of this worker and waits for running functions, at most 30 s. If it
/// blocks for 10 s and no call was served, the log names the workers that have not called gw_rpc_shutdown.
/// After gw_rpc_shutdown, calls and uses of references fail with WRONG_STATE; a second call of gw_rpc_shutdown does
/// nothing. gw_rpc_shutdown also runs if |root| has failed. If |root| is closed without gw_rpc_shutdown, this worker
/// leaves at once, and the other workers regard it as lost.
/// Errors: TIMEOUT, naming the workers that have not called gw_rpc_shutdown within .timeout_ms (this worker then leaves
/// as by gw_rpc_leave). TIMEOUT also, naming the functions, if functions still run after 30 s. FENCED if the other
/// workers continue without this worker. If |root| has failed, workers that wait for this worker get an error at once:
/// DISCONNECTED, or the error of |root|: "worker0 has failed: train.csv: no such file".
/// Source: torch.distributed.rpc.shutdown.
GW_API void gw_rpc_shutdown(gw_scope *root, gw_rpc_shutdown_options options GW_DEFAULT({}))
    GW_CALLS(gw_rpc_shutdown_with);
#define gw_rpc_shutdown(...) GW_FORM_1(gw_rpc_shutdown, gw_rpc_shutdown_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_rpc_shutdown) gw_rpc_shutdown_with;

/// Leaves the job while the other workers continue.
///
/// Blocks: until running functions have returned, at most 30 s; new calls are refused. Otherwise the same as
/// gw_rpc_shutdown. References of other workers to values of this worker are lost. A collective that this worker has
/// completed also succeeds on the other members of the group, even if they call the collective later. Their next
/// collective fails.
/// Errors: TIMEOUT after 30 s, naming the functions that still run, or a worker that has not received all messages of
/// this worker.
/// Source: torch.distributed.rpc.shutdown(graceful=False).
GW_API void gw_rpc_leave(gw_scope *root);

/// Returns this worker; without a job, a worker with an empty name and rank -1.
GW_API gw_worker gw_rpc_self(gw_scope *s);

/// Returns the number of workers of the job; in an elastic job, the number of present members. The result is 1 if |s|
/// has failed or there is no job, because programs divide by the result.
GW_API int gw_rpc_world_size(gw_scope *s);

// ---- Calling ------------------------------------------------------------------------------------
// The short forms take 0 to 12 values in place of |args|, and no options. A call with options:
//
//     gw_rpc_sync_with(s, gw_to("ps"), "scale", GW_ARGS(x, 2.5), GW_OPTIONS(gw_call_options, .timeout_ms = 500));

/// The value of a timeout option that stands for the timeout given to gw_rpc_init.
#define GW_AGENT_TIMEOUT (-1)

/// Options of a call.
typedef struct GW_BY_NAME gw_call_options {
    /// The timeout of this call in milliseconds. GW_NO_TIMEOUT: only the scope's deadline ends the call.
    int64_t timeout_ms GW_DEFAULT(GW_AGENT_TIMEOUT);
    /// The source line of the call, "src/train.c:12". gw_references and GW_TRACE_ERRORS show it, and the short forms of
    /// C set it. The string must live as long as the result.
    const char *origin GW_DEFAULT(NULL);
} gw_call_options;

/// The receiver of a call; made by gw_to and gw_to_workers.
typedef struct gw_target {
    const char *name;  ///< the name of a worker, or NULL
    gw_rref *rref;     ///< a reference, or NULL
    int64_t rank;      ///< the rank of a worker, if both are NULL
    bool is_worker;    ///< the target is only the worker of this incarnation
    uint64_t incarnation;
    const gw_worker *workers;  ///< several workers; NULL: one worker
    int worker_count;
} gw_target;

/// Makes a target of a name, a rank, a gw_worker or a reference: `gw_target gw_to(x)`. The macro calls one of the
/// functions below, by the type of |x|.
///
/// Returns: the target.
#define gw_to(x) GW_TO(x)
/// Returns the target gw_to(name).
GW_API gw_target gw_to_name(const char *name);
/// Returns the target gw_to(rank).
GW_API gw_target gw_to_rank(int64_t rank);
/// Returns the target gw_to(worker): only that worker, not a later worker of the same name.
GW_API gw_target gw_to_worker(gw_worker worker);
/// Returns the target gw_to(rref): the object or value that |rref| names.
GW_API gw_target gw_to_rref(const gw_rref *rref);
/// Returns the target of gw_rpc_sync_all and gw_rpc_async_all: |count| workers.
GW_API gw_target gw_to_workers(const gw_worker *workers, int count);

/// Finds a worker by its name or rank.
///
/// to: a name, a rank, a gw_worker, or a reference to a value of the worker.
/// Returns: the worker.
/// Errors: NOT_FOUND, naming |to| and this worker.
GW_API gw_worker gw_rpc_worker(gw_scope *s, gw_target to) GW_CALLS(gw_rpc_worker_with);
#define gw_rpc_worker(s, to) gw_rpc_worker_with((s), gw_to(to))
GW_API GW_TYPE_OF(gw_rpc_worker) gw_rpc_worker_with;

/// Calls |function| on the worker |to| and blocks until the function has returned: gw_rpc_sync(s, to, function,
/// args...).
///
/// to: a name, a rank, a gw_worker, or a reference to an object; for a reference, |function| is a method of the object.
/// function: a registered name, or "gw.<operator>".
/// Returns: the result; none if the call failed.
/// Gradient: flows through the tensors in arguments and result (gradwire/dist.h).
/// Source: torch.distributed.rpc.rpc_sync.
GW_API gw_value gw_rpc_sync(gw_scope *s, gw_target to, const char *function, gw_values args,
                            gw_call_options options GW_DEFAULT({})) GW_CALLS(gw_rpc_sync_with);
#define gw_rpc_sync(s, to, ...) GW_CALL(gw_rpc_sync, s, gw_to(to), __VA_ARGS__)
GW_API GW_TYPE_OF(gw_rpc_sync) gw_rpc_sync_with;

/// Calls |function| on the worker |to|: gw_rpc_async(s, to, function, args...).
///
/// Returns: a future of the result.
/// Gradient: as gw_rpc_sync.
/// Source: torch.distributed.rpc.rpc_async.
GW_API gw_future *gw_rpc_async(gw_scope *s, gw_target to, const char *function, gw_values args,
                               gw_call_options options GW_DEFAULT({})) GW_CALLS(gw_rpc_async_with);
#define gw_rpc_async(s, to, ...) GW_CALL(gw_rpc_async, s, gw_to(to), __VA_ARGS__)
GW_API GW_TYPE_OF(gw_rpc_async) gw_rpc_async_with;

/// Calls |function| on the worker |to| and leaves the result on that worker: gw_remote(s, to, function, args...).
///
/// function: a function, or a class. For a class, the reference names a new object, opened with |args|.
/// Returns: a reference to the result. The function may not have made the result yet.
/// Gradient: as gw_rpc_sync.
/// Errors: every use of the reference fails with the error of the call.
/// Source: torch.distributed.rpc.remote.
GW_API gw_rref *gw_remote(gw_scope *s, gw_target to, const char *function, gw_values args,
                          gw_call_options options GW_DEFAULT({})) GW_CALLS(gw_remote_with);
#define gw_remote(s, to, ...) GW_CALL(gw_remote, s, gw_to(to), __VA_ARGS__)
GW_API GW_TYPE_OF(gw_remote) gw_remote_with;

/// Calls |function| on the worker |to| without a reply: gw_rpc_notify(s, to, function, args...). The worker starts this
/// call, too, in the order of the calls of the scope.
///
/// Errors: the errors of sending the request. If the function fails, the worker |to| logs the error.
GW_API void gw_rpc_notify(gw_scope *s, gw_target to, const char *function, gw_values args,
                          gw_call_options options GW_DEFAULT({})) GW_CALLS(gw_rpc_notify_with);
#define gw_rpc_notify(s, to, ...) GW_CALL(gw_rpc_notify, s, gw_to(to), __VA_ARGS__)
GW_API GW_TYPE_OF(gw_rpc_notify) gw_rpc_notify_with;

/// Calls |function| on several workers and blocks until all calls have returned: gw_rpc_sync_all(s, workers, count,
/// function, args...). Arguments are encoded once.
///
/// to: the parameter of gw_rpc_sync_all_with: gw_to_workers(workers, count).
/// Returns: a list of the results in the order of the workers.
/// Errors: the error of the first failed call in the order of the workers, with the name of the worker.
GW_API gw_list *gw_rpc_sync_all(gw_scope *s, gw_target to, const char *function, gw_values args,
                                gw_call_options options GW_DEFAULT({}))
    GW_CALLS(gw_rpc_sync_all_with);
#define gw_rpc_sync_all(s, workers, count, ...)                                                    \
    GW_CALL(gw_rpc_sync_all, s, gw_to_workers(workers, count), __VA_ARGS__)
GW_API GW_TYPE_OF(gw_rpc_sync_all) gw_rpc_sync_all_with;

/// Calls |function| on several workers: gw_rpc_async_all(s, workers, count, function, args...).
///
/// to: the parameter of gw_rpc_async_all_with: gw_to_workers(workers, count).
/// Returns: a future of a list of the results; the future fails as soon as one call fails.
GW_API gw_future *gw_rpc_async_all(gw_scope *s, gw_target to, const char *function, gw_values args,
                                   gw_call_options options GW_DEFAULT({}))
    GW_CALLS(gw_rpc_async_all_with);
#define gw_rpc_async_all(s, workers, count, ...)                                                   \
    GW_CALL(gw_rpc_async_all, s, gw_to_workers(workers, count), __VA_ARGS__)
GW_API GW_TYPE_OF(gw_rpc_async_all) gw_rpc_async_all_with;

// ---- Futures ------------------------------------------------------------------------------------
// PyTorch's functions, and the functions of this section:
//
// - wait: gw_wait
// - value: gw_future_value
// - done: gw_future_done
// - then: gw_then
// - add_done_callback: gw_on_done
// - set_result: gw_future_set
// - set_exception: gw_future_fail
// - collect_all: gw_collect_all
// - wait_all: gw_wait_all

/// Blocks until |f| has resolved. gw_wait may be called several times, and with any scope of this worker.
///
/// Returns: the value of |f|.
/// Errors: the error of |f|; TIMEOUT at the deadline of |s|; WOULD_BLOCK in an inline function.
/// Source: torch.futures.Future.wait.
GW_API gw_value gw_wait(gw_scope *s, gw_future *f);

/// Returns whether |f| has resolved, with a value or an error.
GW_API bool gw_future_done(const gw_future *f);

/// Reads a future that has resolved.
///
/// Returns: the value of |f|.
/// Errors: the error of |f|; WRONG_STATE if |f| has not resolved.
GW_API gw_value gw_future_value(gw_scope *s, gw_future *f);

/// Returns the error of |f|; NULL if |f| has a value, or has not resolved. The error lives as long as |f|.
GW_API const gw_error *gw_future_error(const gw_future *f);

/// Blocks until all |count| futures have resolved.
///
/// Errors: the error of the first future in |fs| that has an error. The function waits for the other futures before it
/// fails.
GW_API void gw_wait_all(gw_scope *s, gw_future *const *fs, int count);

/// Blocks until one of |count| futures has resolved, with a value or an error. A future of gw_member_lost
/// (gradwire/membership.h) resolves when the member is lost.
///
/// Returns: the index of the first future that has resolved; -1 if |s| has failed. gw_wait returns the value of the
/// future.
/// Errors: TIMEOUT at the deadline of |s|.
GW_API int gw_wait_any(gw_scope *s, gw_future *const *fs, int count);

/// Cancels |f|: |f| resolves at once, with CANCELLED, unless it has resolved before. gw_cancel also runs if |s| has
/// failed.
///
/// If |f| is the future of a call whose function has not started, the function does not run. If the function runs,
/// gw_cancelled returns true in the function, its waits end with CANCELLED, and its own calls are cancelled. Effects
/// that the function has had are not undone. The outcome is NOT_DELIVERED if the request was not sent, else
/// MAY_HAVE_RUN.
/// If |f| is a future of gw_then, gw_collect_all and the like, the futures that |f| waits for are cancelled, too. A
/// future to which the program has a handle is not cancelled; call gw_drop for the handle first. Calls of gw_remote
/// cannot be cancelled; the value of such a call is released with its references.
/// Errors: none for a future that has resolved.
GW_API void gw_cancel(gw_scope *s, gw_future *f);

/// Returns whether the result of a function that another worker called is no longer needed: the call was cancelled, its
/// deadline has passed, or the caller is lost. A long computation should call gw_cancelled from time to time. In other
/// code, gw_cancelled returns whether the deadline of |s| has passed.
GW_API bool gw_cancelled(gw_scope *s);

/// Options of gw_then and gw_on_done.
typedef struct GW_BY_NAME gw_then_options {
    /// The thread on which the function runs. GW_INLINE: the thread that resolves the future, or the caller if the future
    /// has resolved; the function must not block. GW_POOL: a thread of the pool; the function may call, wait and compute,
    /// and several such functions may run concurrently.
    gw_placement where GW_DEFAULT(GW_INLINE);
} gw_then_options;

/// Chains |body| to |f|: |body| runs when |f| has its value, and does not run if |f| fails.
///
/// body: runs in a scope of its own, with the deadline of |s|; with .where = GW_POOL it may block.
/// Returns: a future of the value that |body| returns, or of the error of |f|.
/// Source: torch.futures.Future.then.
GW_API gw_future *gw_then(gw_scope *s, gw_future *f,
                          gw_value (*body)(gw_scope *s, gw_value v, void *context), void *context,
                          gw_then_options options GW_DEFAULT({})) GW_CALLS(gw_then_with);
#define gw_then(...) GW_FORM_4(gw_then, gw_then_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_then) gw_then_with;

/// Runs |done| when |f| has resolved, with a value or an error. In |done|, gw_wait for |f| does not block.
///
/// done: a function like the body of gw_then, which may block only with .where = GW_POOL. If the scope of |done| fails,
/// the error is logged.
/// Errors: INVALID for arguments.
/// Source: torch.futures.Future.add_done_callback.
GW_API void gw_on_done(gw_scope *s, gw_future *f,
                       void (*done)(gw_scope *s, gw_future *f, void *context), void *context,
                       gw_then_options options GW_DEFAULT({})) GW_CALLS(gw_on_done_with);
#define gw_on_done(...) GW_FORM_4(gw_on_done, gw_then_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_on_done) gw_on_done_with;

/// Joins |count| futures to one future, which resolves when all of them have resolved.
///
/// Returns: a future of the list of their values in order; if futures fail, the error is that of the first failed
/// future in this order.
/// Source: torch.futures.collect_all.
GW_API gw_future *gw_collect_all(gw_scope *s, gw_future *const *fs, int count);

/// Joins |count| futures to one future, which fails as soon as one of them fails.
///
/// Returns: a future of the list of their values in order.
GW_API gw_future *gw_collect_fail_fast(gw_scope *s, gw_future *const *fs, int count);

/// Joins |count| futures to one future, which resolves as soon as one of them resolves.
///
/// Returns: a future of the value or error of the first future that resolves.
GW_API gw_future *gw_collect_first(gw_scope *s, gw_future *const *fs, int count);

/// Opens a future that the program itself resolves, once. A function may return the future, keep a handle of the future
/// (gw_keep, or gw_set in an object), and resolve it later. If the last handle is closed before the future has
/// resolved, threads and workers that wait for the future get WRONG_STATE.
///
/// Returns: the future.
/// Source: torch.futures.Future.
GW_API gw_future *gw_future_open(gw_scope *s);

/// Resolves |f| with |v|.
///
/// v: any value; if |v| is another future, |f| resolves when |v| resolves, with the value or error of |v|.
/// Errors: WRONG_STATE if |f| has resolved; INVALID if |v| is a future that waits for |f|.
/// Source: torch.futures.Future.set_result.
GW_API void gw_future_set(gw_scope *s, gw_future *f, gw_value v) GW_CALLS(gw_future_set_with);
#define gw_future_set(s, f, v) gw_future_set_with((s), (f), gw_value_of(v))
GW_API GW_TYPE_OF(gw_future_set) gw_future_set_with;

/// Resolves |f| with an error.
///
/// format: a format of printf for the text of the error.
/// Errors: WRONG_STATE if |f| has resolved.
/// Source: torch.futures.Future.set_exception.
GW_API void gw_future_fail(gw_scope *s, gw_future *f, gw_status status, const char *format, ...)
    GW_PRINTF(4, 5);

// ---- RPC collectives ----------------------------------------------------------------------------
// Each of |workers| calls an RPC collective with a list of the same workers, itself included, in any order. A worker
// calls the RPC collectives of the same workers one after the other.
//
// An RPC collective fails if one of the workers is lost, cancels its call, calls another kind of RPC collective, or has
// not called the RPC collective before the deadline of another worker. Then the calls of all |workers| fail, also those
// that are made later, and the error names the worker. The next RPC collective of these workers can succeed. After a
// deadline, a call takes up to a second more to find out which workers are missing.
//
// After a worker has called gw_rpc_shutdown or gw_rpc_leave, it can call RPC collectives only in functions that other
// workers call (else WRONG_STATE). When no call of such a function can arrive any more, other workers that wait for
// this worker get DISCONNECTED.
//
// The collectives of gradwire/collective.h are faster, and there are more of them.

/// Gathers |v| of all |workers|.
///
/// Returns: a list of the values in the order of |workers|.
/// Errors: those of RPC collectives (see "RPC collectives"); INVALID if this worker is not among |workers|.
GW_API gw_list *gw_rpc_all_gather(gw_scope *s, const gw_worker *workers, int count, gw_value v)
    GW_CALLS(gw_rpc_all_gather_with);
#define gw_rpc_all_gather(s, workers, count, v)                                                    \
    gw_rpc_all_gather_with((s), (workers), (count), gw_value_of(v))
GW_API GW_TYPE_OF(gw_rpc_all_gather) gw_rpc_all_gather_with;

/// Blocks until all |workers| have called gw_rpc_barrier.
///
/// Errors: those of RPC collectives (see "RPC collectives"); INVALID if this worker is not among |workers|.
GW_API void gw_rpc_barrier(gw_scope *s, const gw_worker *workers, int count);

// ---- Counting -----------------------------------------------------------------------------------

/// Counts of one transport to other workers.
typedef struct gw_transport_stats {
    const char *name;                     ///< "shm" (shared memory, of workers on this host), "tcp"
    int workers;                          ///< workers that are connected over this transport now
    uint64_t bytes_sent, bytes_received;  ///< bytes of frames with all their contents
} gw_transport_stats;

/// The most transports in gw_rpc_stats.
enum { GW_TRANSPORTS_MAX = 8 };

/// Counts of this worker's calls and messages since gw_rpc_init.
typedef struct gw_rpc_stats {
    uint64_t calls_made, calls_served;
    /// Requests, replies and control messages. Acknowledgements, messages of membership, and calls to this worker
    /// itself are not counted.
    uint64_t messages_sent, messages_received;
    uint64_t bytes_sent, bytes_received;  ///< all bytes on the wire
    uint64_t reconnects;
    uint64_t replies_dropped;  ///< replies that arrived after their call had ended
    /// The fastest first. With GW_TRANSPORT=tcp in the environment, "tcp" is the only transport.
    gw_transport_stats transports[GW_TRANSPORTS_MAX];
    int transport_count;
    /// The protection of connections to other hosts: "a key", "a certificate", "nothing (insecure)", or "there are
    /// none" (no such connections).
    const char *protection;
} gw_rpc_stats;

/// Returns the counts of this worker; all 0 without a job.
GW_API gw_rpc_stats gw_rpc_get_stats(gw_scope *s);

/// Counts of what this worker has exchanged with one other worker since that has joined: gw_rpc_get_peer_stats.
typedef struct gw_peer_stats {
    uint64_t calls_made, calls_served;          ///< calls to it and of it, also those under way
    uint64_t messages_sent, messages_received;  ///< as in gw_rpc_stats
    uint64_t bytes_sent, bytes_received;        ///< bytes of frames, over all transports
    /// Bytes of large tensors that the receiver maps, or reads from the memory of the sender: they are in no frame. Not
    /// counted are those that a receiver passes back.
    uint64_t shared_sent, shared_received;
    uint64_t reconnects;
    /// Bytes for it that are queued, or that it has not acknowledged: now, and the most so far.
    uint64_t queued_bytes, queued_bytes_max;
    uint64_t lent_bytes;  ///< bytes of this worker's tensors that it maps or is to read, now
    uint64_t waited_us;   ///< the time that calls to it have waited for room in its queue
    /// Of the connection now, as in gw_transport_stats; NULL: there is none.
    const char *transport;
} gw_peer_stats;

/// Returns the counts for worker |of|; all 0 without a job. For this worker itself, calls alone are counted.
///
/// Errors: NOT_FOUND for an unknown worker.
GW_API gw_peer_stats gw_rpc_get_peer_stats(gw_scope *s, gw_worker of);

/// Describes, in a text for people, by which transport messages are sent to worker |to|, and why no faster transport is
/// used. Examples: "shm; large tensors: lent, or pulled if they are in the program's own memory", and "tcp, encrypted;
/// large tensors: sent: ...; not shm: ...: on another host".
///
/// "lent": the receiver maps the sender's memory. "pulled": the receiver copies the tensors from the sender's memory.
/// "sent": the tensors are sent in messages. The library chooses one of these when the first large tensor is sent.
///
/// Returns: text that lives as long as |s|.
/// Errors: NOT_FOUND for an unknown worker.
GW_API const char *gw_rpc_path(gw_scope *s, gw_worker to);

#ifdef __cplusplus
}
#endif
#include <gradwire/detail/rpc.h>
#endif
