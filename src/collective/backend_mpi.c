// Open MPI as a backend, loaded when a group asks for it: see docs/decisions/0025-backends.md.
//
// One thread makes all calls of MPI, also those that start and end it: in each communicator one call
// after the other, in the order in which they were started. A communicator has a base, made by the
// members when they open their group and used for nothing but to be duplicated: for the first calls,
// and once more for each abort, because a call that one member has begun and another one never will
// would be taken for the next one.
#include "collective/backend.h"

#include "base/status.h"

#ifndef GW_OPEN_MPI

static gw_status open_group(const backend_members *m, void **out, gw_error *error) {
    (void)m, (void)out;
    return error_set(error, GW_UNSUPPORTED,
                     "this gradwire was built without MPI, which backend \"mpi\" needs "
                     "(libopenmpi-dev, and configure again)");
}

const backend backend_mpi = { .name = "mpi", .open = open_group };

#else

#include "base/mem.h"

#include <dlfcn.h>
#include <limits.h>
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// ---- The library --------------------------------------------------------------------------------
// Its plug-ins look for symbols of it in the whole process.

#define LIBRARY "libmpi.so.40"  // of Open MPI 4 and 5
#define CALLS(X)                                                                                   \
    X(Initialized)                                                                                 \
    X(Init_thread)                                                                                 \
    X(Query_thread)                                                                                \
    X(Finalize)                                                                                    \
    X(Comm_rank)                                                                                   \
    X(Comm_size)                                                                                   \
    X(Comm_group)                                                                                  \
    X(Group_incl)                                                                                  \
    X(Group_free)                                                                                  \
    X(Comm_create_group)                                                                           \
    X(Comm_idup)                                                                                   \
    X(Comm_set_errhandler)                                                                         \
    X(Error_string)                                                                                \
    X(Test)                                                                                        \
    X(Ialltoallv)                                                                                  \
    X(Iallgatherv)                                                                                 \
    X(Igatherv)                                                                                    \
    X(Ibcast)                                                                                      \
    X(Iallreduce)

#define FIELD(name) __typeof__(MPI_##name) *name;
static struct {
    CALLS(FIELD)
    MPI_Comm world;
    MPI_Errhandler returns_errors;
    MPI_Datatype byte;
    bool is_loaded;
} mpi;

static void *library;

static void load(void) {
    library = dlopen(LIBRARY, RTLD_NOW | RTLD_GLOBAL);
    if (!library) return;
    mpi.is_loaded = true;
#define LOAD(name)                                                                                 \
    *(void **)&mpi.name = dlsym(library, "MPI_" #name);                                            \
    mpi.is_loaded = mpi.is_loaded && mpi.name;
    CALLS(LOAD)
    mpi.world = dlsym(library, "ompi_mpi_comm_world");
    mpi.returns_errors = dlsym(library, "ompi_mpi_errors_return");
    mpi.byte = dlsym(library, "ompi_mpi_byte");
    mpi.is_loaded = mpi.is_loaded && mpi.world && mpi.returns_errors && mpi.byte;
}

static MPI_Datatype datatype_of(gw_dtype dtype) {
    static const char *const names[GW_DTYPE_COUNT] = {
        [GW_F32] = "ompi_mpi_float",
        [GW_F64] = "ompi_mpi_double",
        [GW_I32] = "ompi_mpi_int32_t",
        [GW_I64] = "ompi_mpi_int64_t",
    };
    return names[dtype] ? dlsym(library, names[dtype]) : NULL;
}

static MPI_Op op_of(combine_op op) {
    static const char *const names[] = {
        [COMBINE_SUM] = "ompi_mpi_op_sum",   [COMBINE_PRODUCT] = "ompi_mpi_op_prod",
        [COMBINE_MIN] = "ompi_mpi_op_min",   [COMBINE_MAX] = "ompi_mpi_op_max",
        [COMBINE_BAND] = "ompi_mpi_op_band", [COMBINE_BOR] = "ompi_mpi_op_bor",
        [COMBINE_BXOR] = "ompi_mpi_op_bxor",
    };
    return names[op] ? dlsym(library, names[op]) : NULL;
}

// ---- What is under way --------------------------------------------------------------------------

typedef struct communicator {
    list_node link;

    // constant
    int *ranks;
    int count, self;

    // with the lock
    list_node calls;      // of backend_call, in their order
    uint64_t generation;  // how often it was aborted
    bool is_closed;

    // the thread's
    MPI_Comm base, current;
    uint64_t made;          // duplicates of |base|
    struct flight *flight;  // what is under way in it; NULL
    gw_error error;         // it could not be made
} communicator;

// A request, and what it reads while it is under way.
typedef struct flight {
    list_node link;
    communicator *of;  // NULL: it was aborted
    MPI_Request request;
    MPI_Comm duplicate;
    backend_call *call;  // NULL: it duplicates
    int numbers[];       // sizes and offsets of what goes and comes, four for each member
} flight;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t news = PTHREAD_COND_INITIALIZER;
static list_node opened;  // communicators that are to be made
static bool is_stopping;

static list_node all, flights;  // the thread's
static bool is_ours;            // to be ended
static gw_error why_not;        // there is no MPI
static pthread_t thread;
static pid_t process;

// ---- Calls --------------------------------------------------------------------------------------

static gw_status check(int code, const char *what, gw_error *error) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int size;
    if (code == MPI_SUCCESS) return GW_OK;
    mpi.Error_string(code, text, &size);
    return error_set(error, GW_REMOTE, "mpi: %s: %s", what, text);
}

// Sizes and the offsets that follow from them.
static bool lay_out(const uint64_t *sizes, int count, int *out_sizes, int *out_offsets) {
    uint64_t at = 0;
    for (int i = 0; sizes && i < count; i++) {
        if (at + sizes[i] > INT_MAX) return false;
        out_sizes[i] = (int)sizes[i];
        out_offsets[i] = (int)at;
        at += sizes[i];
    }
    return true;
}

static gw_status begin(communicator *c, flight *f, gw_error *error) {
    const backend_call *x = f->call;
    int n = c->count, *out = f->numbers, *out_at = out + n, *in = out + 2 * n, *in_at = in + n;
    if (x->size > INT_MAX || !lay_out(x->sizes_from, n, out, out_at) ||
        !lay_out(x->sizes_to, n, in, in_at))
        return error_set(error, GW_LIMIT, "mpi: more than 2 GiB in one call");
    int size = (int)x->size, code;
    switch (x->operation) {
    case OPERATION_ALL_TO_ALL:
        code = mpi.Ialltoallv(x->from, out, out_at, mpi.byte, x->to, in, in_at, mpi.byte,
                              c->current, &f->request);
        break;
    case OPERATION_ALL_GATHER:
        code = mpi.Iallgatherv(x->from, size, mpi.byte, x->to, in, in_at, mpi.byte, c->current,
                               &f->request);
        break;
    case OPERATION_GATHER:
        code = mpi.Igatherv(x->from, size, mpi.byte, x->to, in, in_at, mpi.byte, x->root,
                            c->current, &f->request);
        break;
    case OPERATION_BROADCAST:
        code = mpi.Ibcast(x->to, size, mpi.byte, x->root, c->current, &f->request);
        break;
    default:
        code = mpi.Iallreduce(x->from, x->to, size / (int)gw_dtype_size(x->dtype),
                              datatype_of(x->dtype), op_of(x->op), c->current, &f->request);
    }
    return check(code, operation_name(x->operation), error);
}

static flight *open_flight(communicator *c, backend_call *call) {
    flight *f = mem_calloc(sizeof *f + 4 * (size_t)c->count * sizeof f->numbers[0]);
    if (!f) return NULL;
    f->of = c;
    f->call = call;
    list_append(&flights, &f->link);
    c->flight = f;
    return f;
}

static void close_flight(flight *f) {
    if (f->of) f->of->flight = NULL;
    list_remove(&f->link);
    mem_free(f);
}

static void launch(communicator *c, backend_call *call) {
    gw_error error = c->error;
    flight *f = error.status ? NULL : open_flight(c, call);
    if (!f && !error.status) error_set(&error, GW_NO_MEMORY, "mpi: no memory for a call");
    if (f && begin(c, f, &error)) close_flight(f);
    if (error.status) call->done(call, &error);
}

static void duplicate(communicator *c) {
    flight *f = open_flight(c, NULL);
    if (!f) {
        error_set(&c->error, GW_NO_MEMORY, "mpi: no memory for a communicator");
        return;
    }
    if (check(mpi.Comm_idup(c->base, &f->duplicate, &f->request), "MPI_Comm_idup", &c->error))
        close_flight(f);
}

// ---- Communicators ------------------------------------------------------------------------------

static gw_status make(communicator *c) {
    MPI_Group world, members;
    int rank, size;
    if (why_not.status) {
        c->error = why_not;
        return why_not.status;
    }
    mpi.Comm_rank(mpi.world, &rank);
    mpi.Comm_size(mpi.world, &size);
    if (rank != c->ranks[c->self])
        return error_set(&c->error, GW_WRONG_STATE,
                         "mpi: rank %d of the job is rank %d of MPI: let mpirun say the ranks",
                         c->ranks[c->self], rank);
    for (int i = 0; i < c->count; i++)
        if (c->ranks[i] >= size)
            return error_set(&c->error, GW_WRONG_STATE, "mpi: mpirun has not started rank %d",
                             c->ranks[i]);
    if (check(mpi.Comm_group(mpi.world, &world), "MPI_Comm_group", &c->error) ||
        check(mpi.Group_incl(world, c->count, c->ranks, &members), "MPI_Group_incl", &c->error) ||
        check(mpi.Comm_create_group(mpi.world, members, 0, &c->base), "MPI_Comm_create_group",
              &c->error))
        return c->error.status;
    mpi.Group_free(&world);
    mpi.Group_free(&members);
    return check(mpi.Comm_set_errhandler(c->base, mpi.returns_errors), "MPI_Comm_set_errhandler",
                 &c->error);
}

static void free_communicator(communicator *c) {
    list_remove(&c->link);
    mem_free(c->ranks);
    mem_free(c);
}

// What was started before the last abort, and has not begun, never will.
static backend_call *next_call(communicator *c, bool *out_is_over) {
    pthread_mutex_lock(&lock);
    list_node *l = list_is_empty(&c->calls) ? NULL : c->calls.next;
    backend_call *call = l ? list_entry(l, backend_call, link) : NULL;
    *out_is_over = call && call->generation < c->generation;
    bool goes = call && (*out_is_over || c->error.status || c->made == call->generation + 1);
    if (goes) list_remove(l);
    pthread_mutex_unlock(&lock);
    return goes ? call : NULL;
}

static bool is_wanted(communicator *c, bool *out_is_closed) {
    pthread_mutex_lock(&lock);
    bool wants = !list_is_empty(&c->calls) && !c->error.status && c->made <= c->generation;
    *out_is_closed = c->is_closed;
    pthread_mutex_unlock(&lock);
    return wants;
}

// False: it has ended.
static bool go_on(communicator *c) {
    bool is_over, is_closed;
    if (c->flight && c->flight->call) {
        pthread_mutex_lock(&lock);
        bool was_aborted = c->flight->call->generation < c->generation;
        pthread_mutex_unlock(&lock);
        if (!was_aborted) return true;
        c->flight->of = NULL;
        c->flight = NULL;
    }
    if (c->flight) return true;
    for (backend_call *x; !c->flight && (x = next_call(c, &is_over));) {
        gw_error error;
        error_set(&error, GW_CANCELLED, "mpi: aborted");
        if (is_over)
            x->done(x, &error);
        else
            launch(c, x);
    }
    if (!c->flight && is_wanted(c, &is_closed)) {
        duplicate(c);
    } else if (!c->flight && is_closed) {
        free_communicator(c);
        return false;
    }
    return true;
}

// Whether |f| has ended.
static bool look(flight *f) {
    int done = 0;
    gw_error error = { 0 };
    gw_status status = check(mpi.Test(&f->request, &done, MPI_STATUS_IGNORE), "MPI_Test", &error);
    if (!done && !status) return false;
    backend_call *call = f->call;
    communicator *c = f->of;
    if (!call && c && !status) {
        c->current = f->duplicate;
        c->made++;
        mpi.Comm_set_errhandler(c->current, mpi.returns_errors);
    } else if (!call && c) {
        c->error = error;
    }
    close_flight(f);
    if (call) call->done(call, status ? &error : NULL);
    return true;
}

// ---- The thread ---------------------------------------------------------------------------------

static void begin_mpi(void) {
    int is_begun, level;
    mpi.Initialized(&is_begun);
    is_ours = !is_begun;
    if (is_ours) {
        check(mpi.Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level), "MPI_Init_thread",
              &why_not);
    } else if (mpi.Query_thread(&level) != MPI_SUCCESS || level < MPI_THREAD_MULTIPLE) {
        error_set(&why_not, GW_WRONG_STATE,
                  "mpi: the program has started MPI without MPI_THREAD_MULTIPLE");
    }
    if (!why_not.status) mpi.Comm_set_errhandler(mpi.world, mpi.returns_errors);
}

static bool make_opened(void) {
    pthread_mutex_lock(&lock);
    list_node *l = list_take(&opened);
    pthread_mutex_unlock(&lock);
    if (!l) return false;
    list_append(&all, l);
    make(list_entry(l, communicator, link));
    return true;
}

// Whether anything has ended.
static bool progress(void) {
    bool any = false;
    list_each(l, &flights) any = look(list_entry(l, flight, link)) || any;
    list_each(l, &all) any = !go_on(list_entry(l, communicator, link)) || any;
    return any;
}

static bool has_calls(void) {
    list_each(l, &all) {
        const communicator *c = list_entry(l, communicator, link);
        if (!list_is_empty(&c->calls) && !c->flight) return true;
        if (c->is_closed && !c->flight) return true;
    }
    return false;
}

// Others need the processor while nothing comes: it yields, and then sleeps ever longer.
static void rest(int idle) {
    struct timespec t = { .tv_nsec = idle < 200 ? 20000 : 200000 };
    if (idle < 50)
        sched_yield();
    else
        nanosleep(&t, NULL);
}

static bool await_news(void) {
    pthread_mutex_lock(&lock);
    while (!is_stopping && list_is_empty(&opened) && list_is_empty(&flights) && !has_calls())
        pthread_cond_wait(&news, &lock);
    bool stops = is_stopping;
    pthread_mutex_unlock(&lock);
    return !stops;
}

static void *serve(void *argument) {
    begin_mpi();
    for (int idle = 0; await_news(); idle++) {
        if (make_opened() || progress()) idle = 0;
        if (!list_is_empty(&flights)) rest(idle);
    }
    // Ending MPI with calls that never end crashes in it.
    if (is_ours && !why_not.status && list_is_empty(&flights)) mpi.Finalize();
    return argument;
}

// MPI has to be ended by who has begun it, before the process ends.
static void stop(void) {
    if (getpid() != process) return;
    pthread_mutex_lock(&lock);
    is_stopping = true;
    pthread_cond_signal(&news);
    pthread_mutex_unlock(&lock);
    pthread_join(thread, NULL);
}

static void begin_once(void) {
    sigset_t every, before;
    load();
    if (!mpi.is_loaded || !getenv("OMPI_COMM_WORLD_SIZE")) return;
    list_init(&opened);
    list_init(&all);
    list_init(&flights);
    process = getpid();
    sigfillset(&every);
    pthread_sigmask(SIG_SETMASK, &every, &before);
    if (pthread_create(&thread, NULL, serve, NULL))
        error_set(&why_not, GW_NO_MEMORY, "mpi: no thread for it");
    else
        atexit(stop);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

// ---- The table ----------------------------------------------------------------------------------

static gw_status open_group(const backend_members *m, void **out, gw_error *error) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, begin_once);
    if (!mpi.is_loaded)
        return error_set(error, GW_UNSUPPORTED, "backend \"mpi\" needs %s, which is not here",
                         LIBRARY);
    if (!getenv("OMPI_COMM_WORLD_SIZE"))
        return error_set(error, GW_WRONG_STATE,
                         "backend \"mpi\" is for processes that Open MPI's mpirun has started");
    communicator *c = mem_calloc(sizeof *c);
    int *ranks = mem_alloc((size_t)m->count * sizeof *ranks);
    if (!c || !ranks) {
        mem_free(c);
        mem_free(ranks);
        return error_set(error, GW_NO_MEMORY, "no memory for a communicator");
    }
    memcpy(ranks, m->ranks, (size_t)m->count * sizeof *ranks);
    c->ranks = ranks;
    c->count = m->count;
    c->self = m->self;
    list_init(&c->calls);
    pthread_mutex_lock(&lock);
    list_append(&opened, &c->link);
    pthread_cond_signal(&news);
    pthread_mutex_unlock(&lock);
    *out = c;
    return GW_OK;
}

static void start(void *to, backend_call *call) {
    communicator *c = to;
    pthread_mutex_lock(&lock);
    call->generation = c->generation;
    list_append(&c->calls, &call->link);
    pthread_cond_signal(&news);
    pthread_mutex_unlock(&lock);
}

static void abort_group(void *of) {
    communicator *c = of;
    pthread_mutex_lock(&lock);
    c->generation++;
    pthread_mutex_unlock(&lock);
}

static void close_group(void *of) {
    communicator *c = of;
    pthread_mutex_lock(&lock);
    c->is_closed = true;
    pthread_cond_signal(&news);
    pthread_mutex_unlock(&lock);
}

#define BIT(x) (1u << (x))

const backend backend_mpi = {
    .name = "mpi",
    .operations = BIT(OPERATION_ALL_REDUCE) | BIT(OPERATION_BROADCAST) | BIT(OPERATION_ALL_GATHER) |
                  BIT(OPERATION_GATHER) | BIT(OPERATION_ALL_TO_ALL),
    .ops = BIT(COMBINE_BXOR + 1) - 1,
    // Sums of narrow integers do not wrap around in Open MPI 4.1, where the processor can saturate them.
    .dtypes = BIT(GW_F32) | BIT(GW_F64) | BIT(GW_I32) | BIT(GW_I64),
    .devices = BIT(GW_CPU),
    .open = open_group,
    .start = start,
    .abort = abort_group,
    .close = close_group,
};

#endif
