// Worker processes: the functions of gradwire/process.h.
//
// Each has a thread, which starts it and waits for its end. The kernel kills a process when the *thread* that started
// it ends (PR_SET_PDEATHSIG), and this one ends last.
#include <gradwire/process.h>

#include "agent/settings/environment.h"
#include "agent/members/member_table.h"
#include "base/mem.h"
#include "base/system_error.h"
#include "future/future.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATH_OF_PROGRAM_BYTES = 4096, UNSTARTABLE = 127 };

struct gw_process {
    gw_handle handle;
    agent *agent;
    list_node link;  // in the agent's
    char worker[LIMIT_NAME_BYTES + 1];
    char **argv;
    char **environment;  // the strings are those of this process
    gw_future *joined, *ended;
    int rank;  // -1: it has not joined
    int code;  // -1: the agent has not noted its end

    pthread_t thread;
    bool has_thread;
    sigset_t signals;  // that the program blocks

    pthread_mutex_t lock;  // a leaf, of the following fields
    pthread_cond_t started;
    pid_t pid;  // 0: not started yet; -1: it could not be
    int error_number;
    bool has_ended;  // its number may be another process's from then on
};

static void destroy_process(gw_handle *h);

static const handle_class process_class = { .name = "process", .destroy = destroy_process };

static gw_process process_poison = { .handle = { &process_class, HANDLE_IMMORTAL },
                                     .joined = &future_poison,
                                     .ended = &future_poison };

// ---- Its thread ---------------------------------------------------------------------------------

// In the new process: nothing that another thread may have locked.
static void become_worker(const gw_process *p, pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent && sigprocmask(SIG_SETMASK, &p->signals, NULL) == 0)
        execve("/proc/self/exe", p->argv, p->environment);
    _exit(UNSTARTABLE);
}

static pid_t start_process(gw_process *p) {
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) become_worker(p, parent);
    int number = errno;
    pthread_mutex_lock(&p->lock);
    p->pid = pid;
    p->error_number = number;
    pthread_cond_signal(&p->started);
    pthread_mutex_unlock(&p->lock);
    return pid;
}

// How the process ended, as its exit code and in words.
static int await_end(gw_process *p, pid_t pid, char *words, size_t size) {
    siginfo_t info;
    int status = 0;
    while (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) < 0 && errno == EINTR) continue;
    pthread_mutex_lock(&p->lock);
    bool has_ended = waitpid(pid, &status, WNOHANG) == pid;
    p->has_ended = true;
    pthread_mutex_unlock(&p->lock);
    int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    if (!has_ended)
        snprintf(words, size,
                 "has ended, but its exit code is unknown, because the program itself has called "
                 "waitpid");
    else if (WIFSIGNALED(status))
        snprintf(words, size, "was killed by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else
        snprintf(words, size, "exited with code %d", code);
    return code;
}

static void complete_on_loop(gw_future *f, int64_t x) {
    gw_error error;
    result *r = result_of_value(gw_value_of_int(x));
    if (!r) error_set(&error, GW_NO_MEMORY, "no memory for the result of a process");
    future_complete_on_loop(f, r ? r : result_of_error(&error));
}

// The end is reported once the worker is no member any more: then another one may have its name.
static void end_on_loop(gw_process *p, int code, const char *words) {
    agent *a = p->agent;
    gw_error error;
    p->code = code;
    if (p->rank >= 0) {
        error_set(&error, GW_DISCONNECTED, "%s (rank %d) is gone: its process (pid %d) %s",
                  p->worker, p->rank, (int)p->pid, words);
        error_set_lost(&error, GW_LOSS_ENDED, p->rank, agent_member(a, p->rank)->worker.incarnation,
                       p->worker);
        member_table_process_ended_on_loop(a, p->rank, &error);
        if (a->phase != AGENT_LEFT && !agent_member(a, p->rank)->lost) return;
    }
    error_set(&error, GW_DISCONNECTED, "%s (pid %d) %s before it had joined the job", p->worker,
              (int)p->pid, words);
    future_fail_on_loop(p->joined, &error);
    complete_on_loop(p->ended, code);
}

static void *run(void *argument) {
    gw_process *p = argument;
    char words[128];
    pid_t pid = start_process(p);
    if (pid < 0) return NULL;
    int code = await_end(p, pid, words, sizeof words);
    if (!agent_visit(p->agent)) return NULL;
    end_on_loop(p, code, words);
    agent_visit_end(p->agent);
    return NULL;
}

// ---- Callbacks of the agent ------------------------------------------------------------------------

static void kill_process(gw_process *p) {
    pthread_mutex_lock(&p->lock);
    if (p->pid > 0 && !p->has_ended) kill(p->pid, SIGKILL);
    pthread_mutex_unlock(&p->lock);
}

void processes_joined_on_loop(agent *a, int rank) {
    list_each(l, futures_processes(a)) {
        gw_process *p = list_entry(l, gw_process, link);
        if (p->rank >= 0 || future_result(p->joined)) continue;
        if (strcmp(p->worker, agent_member(a, rank)->name) != 0) continue;
        p->rank = rank;
        complete_on_loop(p->joined, rank);
        return;
    }
}

// One that has not ended is dead to the others and may hang. A worker that has left ends by itself.
void processes_lost_on_loop(agent *a, int rank) {
    list_each(l, futures_processes(a)) {
        gw_process *p = list_entry(l, gw_process, link);
        if (p->rank != rank) continue;
        if (p->code >= 0) complete_on_loop(p->ended, p->code);
        if (p->code < 0 && !agent_member(a, rank)->left) kill_process(p);
    }
}

// Ends are still reported: programs wait for them after gw_rpc_shutdown.
void processes_stop_on_loop(agent *a, const gw_error *why) {
    list_each(l, futures_processes(a)) {
        gw_process *p = list_entry(l, gw_process, link);
        future_fail_on_loop(p->joined, why);
        if (p->code >= 0) complete_on_loop(p->ended, p->code);
    }
}

static void end_process(gw_process *p) {
    if (!p->has_thread) return;
    kill_process(p);
    pthread_join(p->thread, NULL);
    p->has_thread = false;
}

void processes_close(agent *a) {
    list_each(l, futures_processes(a)) end_process(list_entry(l, gw_process, link));
}

// ---- The program's side -------------------------------------------------------------------------

static void leave_agent(gw_process *p) {
    agent *a = p->agent;
    if (!agent_is_closed(a)) {
        gw_error error;
        error_set(&error, GW_CANCELLED, "the scope that has started the process of %s was closed",
                  p->worker);
        env_enter(a->env);
        list_remove(&p->link);
        if (p->joined) future_fail_on_loop(p->joined, &error);
        if (p->ended) future_fail_on_loop(p->ended, &error);
        env_leave(a->env);
    }
    handle_release(p->joined);
    handle_release(p->ended);
    agent_release(a);
}

static void free_argv(char **argv) {
    for (int i = 0; argv && argv[i]; i++) mem_free(argv[i]);
    mem_free(argv);
}

static void destroy_process(gw_handle *h) {
    gw_process *p = (gw_process *)h;
    if (!is_process_fork(p->agent->mark)) end_process(p);
    leave_agent(p);
    free_argv(p->argv);
    mem_free(p->environment);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->started);
    mem_free(p);
}

// With the program's own path in front; NULL without memory.
static char **copy_argv(const char *const *arguments) {
    char path[PATH_OF_PROGRAM_BYTES];
    ssize_t size = readlink("/proc/self/exe", path, sizeof path - 1);
    path[size > 0 ? size : 0] = '\0';
    size_t count = 0;
    while (arguments[count]) count++;
    char **argv = mem_calloc((count + 2) * sizeof *argv);
    bool is_whole = argv && (argv[0] = mem_strdup(path));
    for (size_t i = 0; is_whole && i < count; i++)
        is_whole = (argv[i + 1] = mem_strdup(arguments[i])) != NULL;
    if (is_whole) return argv;
    free_argv(argv);
    return NULL;
}

// That of this process, and that gw_process_start has started the new one; NULL without memory.
static char **copy_environment(void) {
    static char mark[] = ENVIRONMENT_STARTED "=1";
    size_t count = 0;
    while (environ && environ[count]) count++;
    char **all = mem_calloc((count + 2) * sizeof *all);
    if (!all) return NULL;
    if (count) memcpy(all, environ, count * sizeof *all);
    all[count] = mark;
    return all;
}

static gw_process *open_process(gw_scope *s, agent *a, const char *worker,
                                const char *const *arguments) {
    gw_process *p = mem_calloc(sizeof *p);
    if (!p) {
        scope_fail(s, GW_NO_MEMORY, "no memory for a process");
        return NULL;
    }
    handle_init(&p->handle, &process_class);
    p->agent = agent_retain(a);
    p->rank = p->code = -1;
    list_init(&p->link);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->started, NULL);
    snprintf(p->worker, sizeof p->worker, "%s", worker);
    p->argv = copy_argv(arguments);
    p->environment = copy_environment();
    p->joined = future_open(a, "");
    p->ended = future_open(a, "");
    if (p->argv && p->environment && p->joined && p->ended) return p;
    scope_fail(s, GW_NO_MEMORY, "no memory for a process");
    handle_release(p);
    return NULL;
}

// It is found by its name before it can join.
static gw_status list_process(gw_process *p, gw_error *error) {
    agent *a = p->agent;
    env_enter(a->env);
    gw_status status =
        a->phase == AGENT_LEFT ? agent_left_error(a, "gw_process_start", error) : GW_OK;
    if (!status) list_append(futures_processes(a), &p->link);
    env_leave(a->env);
    return status;
}

// Signals are the program's own: its handlers run neither on the thread nor in the new process before it is another
// program.
static gw_status start_thread(gw_process *p, gw_error *error) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &p->signals);
    int failed = pthread_create(&p->thread, NULL, run, p);
    pthread_sigmask(SIG_SETMASK, &p->signals, NULL);
    if (failed)
        return error_set(error, GW_SYSTEM, "%s: pthread_create: %s", p->worker,
                         system_thread_error_text(failed).text);
    p->has_thread = true;
    pthread_mutex_lock(&p->lock);
    while (!p->pid) pthread_cond_wait(&p->started, &p->lock);
    bool has_started = p->pid > 0;
    pthread_mutex_unlock(&p->lock);
    if (has_started) return GW_OK;
    return error_set(error, GW_SYSTEM, "%s: fork: %s", p->worker,
                     system_thread_error_text(p->error_number).text);
}

gw_process *gw_process_start(gw_scope *s, const char *worker, const char *const *arguments) {
    agent *a = s->error ? NULL : agent_of(s);
    if (!a) return &process_poison;
    if (!worker || !options_is_name(worker) || !arguments) {
        scope_fail(s, GW_INVALID, "gw_process_start: %s",
                   arguments
                       ? "the name of the worker must have 1 to 127 characters of [A-Za-z0-9_:.-]"
                       : "the arguments are NULL");
        return &process_poison;
    }
    gw_error error;
    gw_process *p = open_process(s, a, worker, arguments);
    if (!p) return &process_poison;
    if (list_process(p, &error) || start_thread(p, &error)) {
        scope_fail_with(s, &error);
        handle_release(p);
        return &process_poison;
    }
    return scope_own_or(s, p, &process_poison);
}

gw_future *gw_process_joined(gw_process *p) {
    return p ? p->joined : &future_poison;
}

gw_future *gw_process_ended(gw_process *p) {
    return p ? p->ended : &future_poison;
}

void gw_process_kill(gw_process *p) {
    if (p && p != &process_poison) kill_process(p);
}

int gw_process_id(const gw_process *p) {
    return p && p->pid > 0 ? (int)p->pid : 0;
}
