// Calls: running a registered function on a named worker.
//
//     gw_scope *root = gw_scope_open(NULL);
//     gw_rpc_init(root, .name = "p0");                                  // rank, world size, master: the environment
//     gw_tensor *y   = gw_tensor_of(root, gw_rpc_sync(root, "p1", "my_add", x, x));   // wait for the answer
//     gw_future *fut = gw_rpc_async(root, "p1", "my_add", x, y);                      // or don't
//     gw_rref   *ref = gw_remote(root, "p2", "gw.add", x, fut);                       // or leave it there
//     gw_rpc_shutdown(root);
//
// |to| is a worker's name, its rank, a gw_worker, or a reference: then |function| is a method of
// the object behind it.
// Arguments are C values, tensors, lists, maps, references and futures; a future is an argument
// before it has resolved: the callee starts when its value has come, straight from where it is
// made. Calls to oneself take the same way: arguments and results are copies. A tensor that needs a
// gradient remembers across a call what it was made of: see gradwire/dist.h.
//
// Every operator is callable as "gw.<name>" with the arguments of its C function in the same order,
// shapes and dims as one list of ints, and the options .dim and .keepdim of reductions as arguments
// behind: "gw.sum"(x), "gw.sum"(x, 0, true).
// Losses take the options they know behind, in the order of gw_loss_options.
//
// Errors enter the scope when a result is consumed (gw_rpc_sync, gw_wait), with the trace of
// workers and functions on the way and an outcome: NOT_DELIVERED, MAY_HAVE_RUN, RAN_AND_FAILED.
// TIMEOUT when the deadline passed, NOT_FOUND for an unknown worker or function, INVALID for
// arguments, DISCONNECTED when the worker is gone. The error of a call whose future no thread waits for is
// not told.
//
// Deadlines: the least of the call's own (60 s unless said otherwise), the scope's, and the time
// left of the call this one is made for. A function runs at most once; calls are never repeated by
// themselves. Calls from one scope to one worker start there in order, among those whose arguments
// are ready: what must come after a call with a future among its arguments waits for that call, or
// takes its future.
//
// Ownership: futures and references belong to the scope that made the call. Arguments are borrowed
// until the call returns, and may be written afterwards: what was sent is what they held.
// Threads: as the scope; any number of threads with scopes of their own may use one agent. A thread
// that draws random numbers is given a scope with a generator of its own, by gw_seed.
#ifndef GRADWIRE_RPC_H
#define GRADWIRE_RPC_H

#include <gradwire/detail/options.h>
#include <gradwire/function.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- Joining and leaving ------------------------------------------------------------------------
// A job has a world size that all know when it begins; or it is a group, which one worker founds
// and others join and leave while it runs (gradwire/membership.h). Ranks of a group are given out
// in order, from 0, and never again.
typedef enum gw_job_kind {
    GW_JOB_NONE =
        0,  // a job of a world size; if none is given either, GW_JOB ("create", "join") may say otherwise
    GW_JOB_CREATE,  // opens a group; others meet it at the master's address, or in the file
    GW_JOB_JOIN,    // joins a group, once it is there
} gw_job_kind;

// A timeout of 0 is none, everywhere.
#define GW_NO_TIMEOUT 0

typedef struct GW_BY_NAME gw_rpc_options {
    const char *
        name GW_DEFAULT(NULL);  // of this worker, [A-Za-z0-9_:.-], 1 to 127; NULL: "worker%d"
    gw_job_kind job GW_DEFAULT(GW_JOB_NONE);  // without rank and world size

    // Given together; left out, they come from the URL, or from the environment: RANK and WORLD_SIZE, or what the launchers
    // of MPI, Slurm and Kubernetes set (docs/LAUNCHERS.md).
    int rank GW_DEFAULT(-1), world_size GW_DEFAULT(-1);

    // NULL: "env://" (MASTER_ADDR, MASTER_PORT, or where the launcher's ranks meet; a world of one needs
    // neither); or "tcp://host:port" of rank 0, or of a group, which may have several, "tcp://host:port,host:port";
    // or "file:///path" of a file that is not there yet; or "redis://host:port/database" of a Redis server, where
    // GW_JOB_ID tells jobs apart, and GW_REDIS_PASSWORD_FILE has the password. They take "?rank=0&world_size=2". If
    // the host is beyond loopback, this worker listens at addresses of its machine that others reach.
    const char *init_method GW_DEFAULT(NULL);
    // Which of them: "10.0.0.7" or "10.0.0.7:29501,[fd00::7]", and "eth0" or "eth0,ib0". NULL: what GW_ADDRESS and
    // GW_INTERFACE say, or a sensible choice.
    const char *addresses GW_DEFAULT(NULL), *interfaces GW_DEFAULT(NULL);

    int64_t timeout_ms GW_DEFAULT(60000);          // of each call
    int64_t join_timeout_ms GW_DEFAULT(300000);    // for all workers to come
    int threads GW_DEFAULT(4);                     // places in the pool
    const gw_registry *registry GW_DEFAULT(NULL);  // what this worker serves; NULL: the process's

    // The path of the job's key, a file that `gradwire key` has made and that nobody else may read:
    // connections are encrypted with it, and workers without it are refused. NULL: what the launcher
    // hands on (GW_KEY_FD, a descriptor), or the file that GW_KEY_FILE names, or none. Or of this
    // worker's certificate (gradwire key --ca): then no other member can pass for it either.
    const char *key GW_DEFAULT(NULL);
    // Without a key, whether connections may leave this host, where everybody can read and change
    // them. GW_INSECURE=1 says so, too. Every worker has to.
    bool insecure GW_DEFAULT(false);
} gw_rpc_options;

// gw_rpc_init(root, .name = "p0", ...) Joins the job: opens an agent on |root| and waits until all
// workers are there, or, joining a group, until it is let in, knows all, and counts
// in their decisions. Scopes opened inside |root| from now on call through it. Fails |root| with
// INVALID, DUPLICATE, MISMATCH, ADDRESS_IN_USE, or TIMEOUT naming who is missing; WRONG_STATE if the job is closed, or shutting
// down; DISCONNECTED if whoever lets others in is gone, or the group in the file is over;
// UNSUPPORTED for addresses beyond this machine without a key; CANCELLED when a
// signal interrupts it: SIGHUP, SIGINT, SIGQUIT, SIGTERM or SIGALRM, with a handler without SA_RESTART (which
// signal() asks for, sigaction does not), that this thread receives.
//
// In a name %d stands for the rank, "trainer%d", also of who joins a group.
// A worker that joins a group without a name gets one that no other has. A group can be joined
// for as long as any member is there, by the file, or at its address: when whoever lets others in ends,
// another member does, if its host has the address. Several addresses, told to all workers in the same
// order, let that be members on other hosts: "tcp://10.0.0.1:29500,10.0.0.2:29500".
GW_API void gw_rpc_init(gw_scope *root, gw_rpc_options options GW_DEFAULT({}))
    GW_CALLS(gw_rpc_init_with);
#define gw_rpc_init(...)                                                                           \
    (GW_CATCH_EXCEPTIONS(), GW_FORM_1(gw_rpc_init, gw_rpc_options, __VA_ARGS__))
GW_API GW_TYPE_OF(gw_rpc_init) gw_rpc_init_with;

// What a launcher has told this process: `gradwire run`, torchrun, mpirun, srun, an indexed job of Kubernetes. For programs
// that start workers of their own if nobody did, and choose roles or devices before they join. -1: it has not said.
typedef struct gw_launch {
    int rank, world_size;
    int local_rank;  // among the ranks of this host
} gw_launch;

GW_API gw_launch gw_rpc_launched(void);

// Serves until every worker has called it, gives back this worker's references, lets what
// is running finish (at most 30 s, else TIMEOUT naming who was still doing what) and leaves. Acts
// also when |root| has failed; a failed worker's shutdown lets the others leave too. Afterwards
// calls and references are WRONG_STATE; a second one does nothing.
// Blocks until every live worker has called it, or until |timeout_ms| has passed: then TIMEOUT names the
// workers that have not, and this worker leaves as by gw_rpc_leave. The scope's timeout does not count.
// While it blocks, this worker serves calls, and functions that it serves use groups and collectives as
// before. Its own program does nothing more, so that every wait of another program for it ends at once,
// with DISCONNECTED; if |root| has failed, with that error: "worker0 has failed: train.csv: no such file".
// A worker that serves no calls logs one line after 10 s, which names those that it waits for.
// Closing |root| without it leaves at once: to the others this worker is then gone. Workers that have
// died, or left, count as having called it. FENCED if it is this worker that the others go on without.
//
//     gw_rpc_shutdown(root);
//     gw_rpc_shutdown(root, .timeout_ms = 60000);
typedef struct GW_BY_NAME gw_rpc_shutdown_options {
    int64_t timeout_ms GW_DEFAULT(0);  // GW_NO_TIMEOUT
} gw_rpc_shutdown_options;

GW_API void gw_rpc_shutdown(gw_scope *root, gw_rpc_shutdown_options options GW_DEFAULT({}))
    GW_CALLS(gw_rpc_shutdown_with);
#define gw_rpc_shutdown(...) GW_FORM_1(gw_rpc_shutdown, gw_rpc_shutdown_options, __VA_ARGS__)
GW_API GW_TYPE_OF(gw_rpc_shutdown) gw_rpc_shutdown_with;

// Leaves, while the others go on: gives back this worker's references, refuses new calls, lets
// those that run finish (at most 30 s, else TIMEOUT saying what did not) and says goodbye. What
// others hold references to here is lost to them.
// Otherwise as gw_rpc_shutdown.
GW_API void gw_rpc_leave(gw_scope *root);

// Who is who. gw_rpc_worker(s, to), |to| as in calls; NOT_FOUND names both workers.
GW_API gw_worker gw_rpc_self(gw_scope *s);
// How many workers; of a group: how many are there now. 1 in a scope that has failed or joined no job: programs divide by it.
GW_API int gw_rpc_world_size(gw_scope *s);

// ---- Calling ------------------------------------------------------------------------------------
// * gw_rpc_sync(s, to, function, args...): the result.
// * gw_rpc_async(s, to, function, args...): its future.
// * gw_remote(s, to, function, args...): a reference to the result, which stays there; |function|
//   may be a class: then the reference is to a new object.
// * gw_rpc_notify(s, to, function, args...): nothing, one way. Fails |s| only if it could not be
//   sent; what fails there is logged there. It starts in order with the scope's other calls.
// * gw_rpc_sync_all(s, workers, count, function, args...): the results of |count| workers, gw_worker
//   workers[], as a list in their order. Arguments are encoded once. Waits for all; fails |s| with
//   the first error in order, which names the worker.
// * gw_rpc_async_all(s, workers, count, function, args...): a future of that list, which fails as
//   soon as one of them does.
//
// All of them wait when 64 MiB of requests are queued for the worker already, or 65,536 calls to it
// have not returned: then until there is room, at most to the deadline, which then is OVERLOADED,
// NOT_DELIVERED. Where nothing may wait they fail at once. A worker whose replies are not read does
// not start more calls of who does not read them.
// A call with options is written with the functions behind these forms, which take arguments as one
// value each:
//
//     gw_rpc_sync_with(s, gw_to("ps"), "scale", GW_ARGS(x, 2.5), GW_OPTIONS(gw_call_options, .timeout_ms = 500));
#define GW_AGENT_TIMEOUT (-1)  // that of gw_rpc_init

typedef struct GW_BY_NAME gw_call_options {
    int64_t timeout_ms GW_DEFAULT(GW_AGENT_TIMEOUT);  // GW_NO_TIMEOUT: only the scope's
    const char *origin GW_DEFAULT(
        NULL);  // "src/train.c:12", which the short forms of C say: for gw_references and
                // GW_TRACE_ERRORS; it lives as long as the result
} gw_call_options;

// Whom a call is for: gw_to(x) of a name, a rank, a gw_worker or a reference;
// gw_to_workers(workers, count).
typedef struct gw_target {
    const char *name;  // or
    gw_rref *rref;     // or
    int64_t rank;
    bool is_worker;  // of that incarnation, not of any
    uint64_t incarnation;
    const gw_worker *workers;  // or several
    int worker_count;
} gw_target;

#define gw_to(x) GW_TO(x)
GW_API gw_target gw_to_name(const char *name);
GW_API gw_target gw_to_rank(int64_t rank);
GW_API gw_target gw_to_worker(gw_worker worker);
GW_API gw_target gw_to_rref(const gw_rref *rref);
GW_API gw_target gw_to_workers(const gw_worker *workers, int count);

GW_API gw_value gw_rpc_sync(gw_scope *s, gw_target to, const char *function, gw_values args,
                            gw_call_options options GW_DEFAULT({})) GW_CALLS(gw_rpc_sync_with);
#define gw_rpc_sync(s, to, ...) GW_CALL(gw_rpc_sync, s, gw_to(to), __VA_ARGS__)
GW_API GW_TYPE_OF(gw_rpc_sync) gw_rpc_sync_with;
GW_API gw_future *gw_rpc_async(gw_scope *s, gw_target to, const char *function, gw_values args,
                               gw_call_options options GW_DEFAULT({})) GW_CALLS(gw_rpc_async_with);
#define gw_rpc_async(s, to, ...) GW_CALL(gw_rpc_async, s, gw_to(to), __VA_ARGS__)
GW_API GW_TYPE_OF(gw_rpc_async) gw_rpc_async_with;
GW_API gw_rref *gw_remote(gw_scope *s, gw_target to, const char *function, gw_values args,
                          gw_call_options options GW_DEFAULT({})) GW_CALLS(gw_remote_with);
#define gw_remote(s, to, ...) GW_CALL(gw_remote, s, gw_to(to), __VA_ARGS__)
GW_API GW_TYPE_OF(gw_remote) gw_remote_with;
GW_API void gw_rpc_notify(gw_scope *s, gw_target to, const char *function, gw_values args,
                          gw_call_options options GW_DEFAULT({})) GW_CALLS(gw_rpc_notify_with);
#define gw_rpc_notify(s, to, ...) GW_CALL(gw_rpc_notify, s, gw_to(to), __VA_ARGS__)
GW_API GW_TYPE_OF(gw_rpc_notify) gw_rpc_notify_with;
GW_API gw_list *gw_rpc_sync_all(gw_scope *s, gw_target to, const char *function, gw_values args,
                                gw_call_options options GW_DEFAULT({}))
    GW_CALLS(gw_rpc_sync_all_with);
#define gw_rpc_sync_all(s, workers, count, ...)                                                    \
    GW_CALL(gw_rpc_sync_all, s, gw_to_workers(workers, count), __VA_ARGS__)
GW_API GW_TYPE_OF(gw_rpc_sync_all) gw_rpc_sync_all_with;
GW_API gw_future *gw_rpc_async_all(gw_scope *s, gw_target to, const char *function, gw_values args,
                                   gw_call_options options GW_DEFAULT({}))
    GW_CALLS(gw_rpc_async_all_with);
#define gw_rpc_async_all(s, workers, count, ...)                                                   \
    GW_CALL(gw_rpc_async_all, s, gw_to_workers(workers, count), __VA_ARGS__)
GW_API GW_TYPE_OF(gw_rpc_async_all) gw_rpc_async_all_with;
GW_API gw_worker gw_rpc_worker(gw_scope *s, gw_target to) GW_CALLS(gw_rpc_worker_with);
#define gw_rpc_worker(s, to) gw_rpc_worker_with((s), gw_to(to))
GW_API GW_TYPE_OF(gw_rpc_worker) gw_rpc_worker_with;

// ---- Futures ------------------------------------------------------------------------------------
// Waits for the result. May be called again, and from any scope on this worker. A failed call fails
// |s|.
GW_API gw_value gw_wait(gw_scope *s, gw_future *f);
GW_API bool gw_future_done(const gw_future *f);  // with a value or an error

// Futures have, of PyTorch's: wait: gw_wait; value: gw_future_value; done: gw_future_done; then:
// gw_then; add_done_callback: gw_on_done; set_result: gw_future_set; set_exception: gw_future_fail;
// torch.futures.collect_all and wait_all: gw_collect_all, gw_wait_all.

// The value, or |s| failed, of a future that is done; WRONG_STATE if it is not.
GW_API gw_value gw_future_value(gw_scope *s, gw_future *f);
// The error of one that is done; NULL if it has a value, or is not done. Lives as long as |f|.
GW_API const gw_error *gw_future_error(const gw_future *f);

// Waits for all |count|; fails |s| with the first error in order of |fs|, after all are done.
GW_API void gw_wait_all(gw_scope *s, gw_future *const *fs, int count);

// Waits until one of |count| is done, with a value or an error, and returns the index of the first
// that is; -1 with |s| failed, by its deadline for one. gw_wait then gives the result. With
// gw_member_lost among them (gradwire/membership.h) it waits for members as well.
GW_API int gw_wait_any(gw_scope *s, gw_future *const *fs, int count);

// Asks that |f| come to nothing: it resolves at once, with CANCELLED, unless it has resolved. The
// callee is told: a call that has not started there does not run, and one that runs finds out by
// gw_cancelled, by its waits, which end with CANCELLED, and by its calls, which are cancelled in
// turn. What it has done stays done. A request that has not gone out yet never arrives:
// NOT_DELIVERED; else MAY_HAVE_RUN. A future of gw_then, gw_collect_all and the like cancels
// with it what it waits for, if nobody else has that: gw_drop what was only needed for it.
// What gw_remote makes is not cancelled, but given back when its references are. Acts also when |s|
// has failed.
GW_API void gw_cancel(gw_scope *s, gw_future *f);

// In a body: whether its result is wanted no more: it was cancelled, its deadline has passed,
// or its caller is lost.
// Long computations ask from time to time. Elsewhere: whether the deadline of |s| has passed.
GW_API bool gw_cancelled(gw_scope *s);

// A future of what |body| returns, run once |f| has its value; an error of |f| passes through
// without running it. |body| may not wait. Runs at the end of the turn that resolves |f|, on
// whichever thread that is, or now if |f| is done.
GW_API gw_future *gw_then(gw_scope *s, gw_future *f,
                          gw_value (*body)(gw_scope *s, gw_value v, void *context), void *context);

// Runs |done| once |f| is done, whatever it has become: gw_wait and gw_future_error tell, without
// waiting. As for gw_then; an error of |s| is logged.
GW_API void gw_on_done(gw_scope *s, gw_future *f,
                       void (*done)(gw_scope *s, gw_future *f, void *context), void *context);

// A future of the list of what |count| futures resolve to, in their order. The first waits until
// all are done, and then fails with the first error in their order, if there is one; the second
// fails at once with the first error that comes. gw_collect_first: of what the first one that is
// done resolves to, a value or an error.
GW_API gw_future *gw_collect_all(gw_scope *s, gw_future *const *fs, int count);
GW_API gw_future *gw_collect_fail_fast(gw_scope *s, gw_future *const *fs, int count);
GW_API gw_future *gw_collect_first(gw_scope *s, gw_future *const *fs, int count);

// A future that the program completes itself, once: a second completion is WRONG_STATE. A handler
// may return it, and keeps a handle of it meanwhile (gw_keep, gw_set in an object): with the last one that could complete it
// all that still waits for it fails with WRONG_STATE. gw_future_set(s, f, x) takes any C value; that of another future becomes the value of
// |f| once it has come, but |f| is INVALID if that one waits for |f| itself.
GW_API gw_future *gw_future_open(gw_scope *s);
GW_API void gw_future_set(gw_scope *s, gw_future *f, gw_value v) GW_CALLS(gw_future_set_with);
#define gw_future_set(s, f, v) gw_future_set_with((s), (f), gw_value_of(v))
GW_API GW_TYPE_OF(gw_future_set) gw_future_set_with;
GW_API void gw_future_fail(gw_scope *s, gw_future *f, gw_status status, const char *format, ...)
    GW_PRINTF(4, 5);

// ---- Meeting ------------------------------------------------------------------------------------
// What several workers do together: every one of |workers| calls it, with the same ones in any
// order, itself among them. Each of them must enter each meeting of the same workers, one after the
// other.
// If one of them is lost, gives up, is in another kind of meeting, or does not come before somebody's
// deadline, all fail, with its name; who comes later, too. Then the next is a new one. After a deadline it takes at most a
// second to learn who is missing. After gw_rpc_shutdown or gw_rpc_leave only functions that a worker serves enter one
// (else WRONG_STATE). Those that wait for it then fail with DISCONNECTED and its name, once no call can make it enter.
// gw_rpc_all_gather(s, workers, count, x): the values of all, in the order of |workers|.
GW_API gw_list *gw_rpc_all_gather(gw_scope *s, const gw_worker *workers, int count, gw_value v)
    GW_CALLS(gw_rpc_all_gather_with);
#define gw_rpc_all_gather(s, workers, count, v)                                                    \
    gw_rpc_all_gather_with((s), (workers), (count), gw_value_of(v))
GW_API GW_TYPE_OF(gw_rpc_all_gather) gw_rpc_all_gather_with;
GW_API void gw_rpc_barrier(gw_scope *s, const gw_worker *workers, int count);

// ---- Counting -----------------------------------------------------------------------------------
// What has gone over one way to other workers: "shm" (shared memory, of workers on this host), "tcp".
typedef struct gw_transport_stats {
    const char *name;
    int workers;                          // that are connected over it now
    uint64_t bytes_sent, bytes_received;  // frames, with all that is in them
} gw_transport_stats;

enum { GW_TRANSPORTS_MAX = 8 };

typedef struct gw_rpc_stats {
    uint64_t calls_made, calls_served;
    // Requests, replies and control, but no acknowledgements, and none about membership; calls to
    // oneself are none.
    uint64_t messages_sent, messages_received;
    uint64_t bytes_sent, bytes_received;  // on the wire, everything
    uint64_t reconnects;
    uint64_t replies_dropped;  // that came when no future waited for them any more
    // The best first. GW_TRANSPORT=tcp in the environment leaves "tcp" alone.
    gw_transport_stats transports[GW_TRANSPORTS_MAX];
    int transport_count;
    // What protects connections to other hosts: "a key", "a certificate", "nothing (insecure)", or
    // "there are none".
    const char *protection;
} gw_rpc_stats;

GW_API gw_rpc_stats gw_rpc_get_stats(gw_scope *s);

// How a worker is reached, in words for people, which last as long as |s|: "shm; large tensors: lent, or pulled where the
// program has them", "tcp, encrypted; large tensors: sent: ...; not shm: ...: on another host", and why not better. Ways for tensors are found out when the
// first large one is sent. Lent: the receiver reads them where they are; pulled: it copies them from there; sent: they go the
// way of all messages.
GW_API const char *gw_rpc_path(gw_scope *s, gw_worker to);

#ifdef __cplusplus
}
#endif
#include <gradwire/detail/rpc.h>
#endif
