// The agent of this process: joining a job, leaving it, and the scopes of operations.
#include "core.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

static gw_scope *root;  // of the agent; NULL: none
static bool is_ending;  // a thread is in shutdown or leave; guarded by the GIL
static _Thread_local int own_users;
static int users;  // scopes of agent_begin that are open; guarded by the lock
static pthread_mutex_t users_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t users_gone = PTHREAD_COND_INITIALIZER;
// agent_begin fails. Else |root| is set, and is not closed before its last user has ended.
static _Atomic bool is_leaving = true;
static _Atomic bool is_forked;
static _Thread_local gw_scope *body;

// ---- Scopes ---------------------------------------------------------------------------------------
bool agent_is_forked(void) {
    return is_forked;
}

static void forget_in_child(void) {
    is_forked = true;
}

gw_scope *scope_of_body(void) {
    return body;
}

void scope_set_body(gw_scope *s) {
    body = s;
}

static void close_scope(gw_scope *s) {
    Py_BEGIN_ALLOW_THREADS
    gw_error error = gw_scope_close(s);
    (void)error;
    Py_END_ALLOW_THREADS
}

static gw_scope *refuse(void) {
    if (is_forked)
        PyErr_SetString(PyExc_RuntimeError,
                        "this process was forked from a worker; use the start method \"spawn\"");
    else
        raise_status(GW_WRONG_STATE, root ? "this worker has called shutdown or leave"
                                          : "no job: call gradwire.init first");
    return NULL;
}

gw_scope *agent_begin(void) {
    if (is_forked) return NULL;
    pthread_mutex_lock(&users_lock);
    gw_scope *s = !is_leaving ? gw_scope_open_of(root) : NULL;
    users += s != NULL;
    pthread_mutex_unlock(&users_lock);
    return s;
}

void agent_end(gw_scope *s) {
    gw_error error = gw_scope_close(s);  // which the caller has handled
    (void)error;
    pthread_mutex_lock(&users_lock);
    if (--users == 0) pthread_cond_broadcast(&users_gone);
    pthread_mutex_unlock(&users_lock);
}

gw_scope *scope_begin(void) {
    release_waiting();
    if (!is_forked && body) return gw_scope_open(body);
    gw_scope *s = agent_begin();
    if (!s) return refuse();
    own_users++;
    return s;
}

// Without the GIL, since handles of |s| may need a lock of the agent when they are released.
void scope_end(gw_scope *s) {
    if (body) {
        close_scope(s);
        return;
    }
    own_users--;
    Py_BEGIN_ALLOW_THREADS
    agent_end(s);
    Py_END_ALLOW_THREADS
}

// ---- Joining --------------------------------------------------------------------------------------
typedef struct init_arguments {
    gw_rpc_options options;
    int job, pickles;
    PyObject *functions, *classes;
} init_arguments;

static bool read_arguments(init_arguments *out, PyObject *args, PyObject *names) {
    static char *keywords[] = {
        "name",    "rank",      "world_size", "init_method", "job",
        "key",     "addresses", "interfaces", "timeout_ms",  "join_timeout_ms",
        "threads", "insecure",  "pickles",    "functions",   "classes",
        NULL
    };
    *out = (init_arguments){ .options = GW_OPTIONS(gw_rpc_options) };
    gw_rpc_options *o = &out->options;
    long long timeout_ms, join_timeout_ms;
    int insecure;
    if (!PyArg_ParseTupleAndKeywords(args, names, "ziizizzzLLippOO", keywords, &o->name, &o->rank,
                                     &o->world_size, &o->init_method, &out->job, &o->key,
                                     &o->addresses, &o->interfaces, &timeout_ms, &join_timeout_ms,
                                     &o->threads, &insecure, &out->pickles, &out->functions,
                                     &out->classes))
        return false;
    o->job = (gw_job_kind)out->job;
    o->timeout_ms = timeout_ms;
    o->join_timeout_ms = join_timeout_ms;
    o->insecure = insecure;
    return true;
}

// gw_rpc_init ends by signals that reach its thread, but one that is sent to the process may reach a thread of another
// library, such as BLAS. So it runs on a thread of its own, and this one looks for what Python has noted.
typedef struct joining {
    gw_scope *scope;
    gw_rpc_options options;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool has_ended;
} joining;

static void *run_join(void *context) {
    joining *j = context;
    gw_rpc_init_with(j->scope, j->options);
    pthread_mutex_lock(&j->lock);
    j->has_ended = true;
    pthread_cond_broadcast(&j->ended);
    pthread_mutex_unlock(&j->lock);
    return NULL;
}

// Waits for at most 100 ms.
static bool has_joined(joining *j) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 100 * 1000 * 1000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&j->lock);
    if (!j->has_ended) pthread_cond_timedwait(&j->ended, &j->lock, &until);
    bool has_ended = j->has_ended;
    pthread_mutex_unlock(&j->lock);
    return has_ended;
}

// Again after 100 ms, if the thread does not catch signals yet.
static void interrupt_thread(pthread_t thread) {
    struct sigaction action;
    bool has_handler = !sigaction(SIGINT, NULL, &action) && action.sa_handler != SIG_DFL &&
                       action.sa_handler != SIG_IGN;
    if (has_handler) pthread_kill(thread, SIGINT);
}

// The handler of interrupt_thread's signals has run, too: what it raises is dropped for what was raised first.
static void drop_own_signals(void) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (PyErr_CheckSignals() < 0) PyErr_Clear();
    PyErr_Restore(type, value, traceback);
}

// False: an exception is set.
static bool run_init(joining *j) {
    pthread_t thread;
    bool is_interrupted = false;
    if (pthread_create(&thread, NULL, run_join, j))
        return raise_status(GW_SYSTEM, "no thread for joining the job");
    for (bool has_ended = false; !has_ended;) {
        Py_BEGIN_ALLOW_THREADS
        has_ended = has_joined(j);
        Py_END_ALLOW_THREADS
        if (!is_interrupted) is_interrupted = PyErr_CheckSignals() < 0;
        if (is_interrupted && !has_ended) interrupt_thread(thread);
    }
    pthread_join(thread, NULL);
    if (is_interrupted) drop_own_signals();
    return !is_interrupted && (gw_ok(j->scope) || raise_scope(j->scope));
}

static gw_scope *join(init_arguments *a) {
    gw_scope *s = gw_scope_open(NULL);
    gw_registry *r = gw_registry_open(s);
    a->options.registry = r;
    a->options.serve_later = true;  // until |root| is set
    joining j = { .scope = s,
                  .options = a->options,
                  .lock = PTHREAD_MUTEX_INITIALIZER,
                  .ended = PTHREAD_COND_INITIALIZER };
    if (serve_register(s, r, a->functions, a->classes, a->pickles) && run_init(&j)) return s;
    close_scope(s);
    return NULL;
}

PyObject *core_init(PyObject *module, PyObject *args, PyObject *names) {
    (void)module;
    static bool watches_fork;
    init_arguments a;
    if (!read_arguments(&a, args, names)) return NULL;
    if (is_forked) {
        refuse();
        return NULL;
    }
    if (root) return raise_status(GW_WRONG_STATE, "this process has joined a job already");
    if (!watches_fork) pthread_atfork(NULL, NULL, forget_in_child);
    watches_fork = true;
    gw_scope *s = join(&a);
    if (!s) return NULL;
    root = s;
    is_leaving = false;
    gw_rpc_serve(root);
    gw_worker self = gw_rpc_self(root);
    return Py_BuildValue("(Ni)", object_of_worker(self), gw_rpc_world_size(root));
}

PyObject *core_is_initialized(PyObject *module, PyObject *args) {
    (void)module;
    (void)args;
    return PyBool_FromLong(root && !is_leaving && !is_forked);
}

// ---- Leaving --------------------------------------------------------------------------------------
// Threads of the program that still use the agent: their calls have failed, and they close their scopes soon.
static void await_users(void) {
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&users_lock);
    is_leaving = true;
    while (users > 0) pthread_cond_wait(&users_gone, &users_lock);
    pthread_mutex_unlock(&users_lock);
    Py_END_ALLOW_THREADS
}

enum { BODIES_MS = 5000 };

// Functions that still run have been cancelled, or gw_rpc_leave has waited 30 s for them. They cannot be ended from outside.
static bool await_bodies(void) {
    struct timespec pause = { .tv_nsec = 10 * 1000 * 1000 };
    for (int waited_ms = 0; serve_running() && waited_ms < BODIES_MS; waited_ms += 10) {
        Py_BEGIN_ALLOW_THREADS
        nanosleep(&pause, NULL);
        Py_END_ALLOW_THREADS
    }
    return !serve_running();
}

// Closing the scope waits for the threads of the pool. So the agent, which has left the job, is left behind with those that
// do not end.
static void close_agent(gw_scope *s) {
    if (await_bodies()) {
        close_scope(s);
        return;
    }
    int count = serve_running();
    gw_scope_clear(s);
    PySys_WriteStderr("gradwire: %.127s has left the job, but still runs %d function%s that other "
                      "workers have called\n",
                      gw_rpc_self(s).name, count, count == 1 ? "" : "s");
}

// A function that a worker calls would wait for its own end, and so would a handler of a signal that arrives in a call.
static bool begin_ending(void) {
    const char *why = is_ending ? "shutdown or leave is under way already"
                      : scope_of_body() || own_users
                          ? "shutdown and leave cannot be called during a call"
                          : NULL;
    if (why) return raise_status(GW_WRONG_STATE, why), false;
    return is_ending = true;
}

// What has ended gw_rpc_shutdown or gw_rpc_leave: an error, or a signal. False: an exception is set.
static bool end_agent(void) {
    await_users();
    gw_scope *s = root;
    gw_error error = *gw_scope_error(s);
    bool is_interrupted = PyErr_Occurred() || PyErr_CheckSignals() < 0;
    root = NULL;
    close_agent(s);
    is_ending = false;
    if (error.status && !is_interrupted) raise_error(NULL, &error);
    return !is_interrupted && !error.status;
}

// shutdown(timeout_ms); a signal ends the wait for the others, and this worker leaves.
PyObject *core_shutdown(PyObject *module, PyObject *args) {
    (void)module;
    long long timeout_ms;
    if (!PyArg_ParseTuple(args, "L", &timeout_ms)) return NULL;
    if (!root || is_forked) Py_RETURN_NONE;
    interrupt wait;
    if (!begin_ending()) return NULL;
    interrupt_begin(root, &wait);
    gw_rpc_shutdown(root, .timeout_ms = timeout_ms);
    interrupt_end(root, &wait);
    return end_agent() ? Py_NewRef(Py_None) : NULL;
}

PyObject *core_leave(PyObject *module, PyObject *args) {
    (void)module;
    (void)args;
    if (!root || is_forked) Py_RETURN_NONE;
    if (!begin_ending()) return NULL;
    is_leaving = true;
    Py_BEGIN_ALLOW_THREADS
    gw_rpc_leave(root);
    Py_END_ALLOW_THREADS
    return end_agent() ? Py_NewRef(Py_None) : NULL;
}

// fail(text): the job's other workers, and the launcher, get this text as the reason for which this worker leaves.
PyObject *core_fail(PyObject *module, PyObject *args) {
    (void)module;
    const char *text;
    if (!PyArg_ParseTuple(args, "s", &text)) return NULL;
    if (root && !is_forked) gw_fail(root, GW_REMOTE, "%s", text);
    Py_RETURN_NONE;
}
