// Worker processes: workers of a job that this program starts.
//
// A worker process is this program, started again with other arguments. The new process joins the elastic job of this
// worker. A process has two futures: one resolves when its worker has joined, the other when the process has ended.
// gw_wait_any can wait for processes, members and calls together. A program needs no fork, waitpid or kill. Linux only.
//
//     static int be_worker(const char *url, const char *name) {
//         gw_scope *root = gw_scope_open(NULL);
//         gw_rpc_init(root, .name = name, .job = GW_JOB_JOIN, .init_method = url);
//         gw_rpc_shutdown(root);                                           // serves calls
//         return gw_exit_code(gw_scope_close(root));
//     }
//
//     int main(int argc, char **argv) {
//         if (argc == 3) return be_worker(argv[1], argv[2]);
//         gw_scope *root = gw_scope_open(NULL);
//         gw_rpc_init(root, .name = "parent", .job = GW_JOB_CREATE, .init_method = "file:///tmp/meet");
//         const char *const arguments[] = { "file:///tmp/meet", "worker1", NULL };
//         gw_process *p = gw_process_start(root, "worker1", arguments);
//         gw_wait(root, gw_process_joined(p));                             // or its error
//         gw_rpc_sync(root, "worker1", "work", 7);
//         gw_rpc_shutdown(root);
//         printf("worker1: %d\n", (int)gw_int_of(root, gw_wait(root, gw_process_ended(p))));
//         return gw_exit_code(gw_scope_close(root));
//     }
//
// A process may end after the job has admitted its worker, but before the worker is connected. The worker is then
// declared dead at once, and no call waits for it. If the worker of a running process is declared dead, for example
// because the process was stopped for 7 s (gradwire/membership.h), the library kills the process. gw_process_ended then
// resolves.
//
// Ownership: a process belongs to the scope that started it. When that scope or the root scope closes, the library
// kills the process if it still runs. So wait for gw_process_ended before the scope closes; gw_rpc_shutdown does not
// wait for the end of the process. The process is also killed when this program ends. The futures of a process live as
// long as its handle.
// Threads: the same as for the scope. A thread of the library waits for the end of each process; if the program itself
// calls wait(NULL) or waitpid(-1), the library may miss the exit code.
#ifndef GRADWIRE_PROCESS_H
#define GRADWIRE_PROCESS_H

#include <gradwire/rpc.h>

#ifdef __cplusplus
extern "C" {
#endif

/// A worker process, started by gw_process_start.
typedef struct gw_process gw_process;

/// Starts this program again, with the environment, the streams and the working folder of this process. The standard
/// output of the new process is line buffered: no complete line is lost when the process is killed.
///
/// worker: the name under which the new process joins.
/// arguments: a list that ends with NULL, without argv[0].
/// Returns: the process.
/// Errors: INVALID for a malformed name; WRONG_STATE without a job; SYSTEM if the system has no process or thread left.
GW_API gw_process *gw_process_start(gw_scope *s, const char *worker, const char *const *arguments);

/// Returns a future of the rank of the worker, an int. The future resolves when the worker has joined. It fails with
/// DISCONNECTED if the process ends before that time: "worker1 (pid 4711) was killed by signal 9 (Killed) before it had
/// joined".
GW_API gw_future *gw_process_joined(gw_process *p);

/// Returns a future of the exit code, an int (128 + n after signal n). The future resolves when the process has ended
/// and its worker is no longer a member; a new worker may then use the name. The future does not fail while this worker
/// is in the job.
GW_API gw_future *gw_process_ended(gw_process *p);

/// Kills the process by SIGKILL; does nothing if the process has ended.
///
/// Threads: any.
GW_API void gw_process_kill(gw_process *p);

/// Returns the process id, also after the process has ended; 0 if it was never started.
GW_API int gw_process_id(const gw_process *p);

#ifdef __cplusplus
}
#endif
#endif
