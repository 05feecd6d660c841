// Without Open MPI there is nothing here (CMakeLists.txt).
#ifdef GW_OPEN_MPI

#include "collective/mpi_communicator.h"

#include "base/mem.h"
#include "base/status.h"
#include "collective/mpi_library.h"

#include <limits.h>
#include <pthread.h>
#include <string.h>

struct mpi_communicator {
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
};

// A request, and what it reads while it is under way.
typedef struct flight {
    list_node link;
    mpi_communicator *of;  // NULL: it was aborted
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

// ---- Calls --------------------------------------------------------------------------------------

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

static gw_status begin(mpi_communicator *c, flight *f, gw_error *error) {
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
                              mpi_datatype_of(x->dtype), mpi_op_of(x->op), c->current, &f->request);
    }
    return mpi_check(code, operation_name(x->operation), error);
}

static flight *open_flight(mpi_communicator *c, backend_call *call) {
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

static void launch(mpi_communicator *c, backend_call *call) {
    gw_error error = c->error;
    flight *f = error.status ? NULL : open_flight(c, call);
    if (!f && !error.status) error_set(&error, GW_NO_MEMORY, "mpi: no memory for a call");
    if (f && begin(c, f, &error)) close_flight(f);
    if (error.status) call->done(call, &error);
}

static void duplicate(mpi_communicator *c) {
    flight *f = open_flight(c, NULL);
    if (!f) {
        error_set(&c->error, GW_NO_MEMORY, "mpi: no memory for a communicator");
        return;
    }
    if (mpi_check(mpi.Comm_idup(c->base, &f->duplicate, &f->request), "MPI_Comm_idup", &c->error))
        close_flight(f);
}

// ---- Communicators ------------------------------------------------------------------------------

static gw_status make(mpi_communicator *c, const gw_error *why_not) {
    MPI_Group world, members;
    int rank, size;
    if (why_not->status) {
        c->error = *why_not;
        return why_not->status;
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
    if (mpi_check(mpi.Comm_group(mpi.world, &world), "MPI_Comm_group", &c->error) ||
        mpi_check(mpi.Group_incl(world, c->count, c->ranks, &members), "MPI_Group_incl",
                  &c->error) ||
        mpi_check(mpi.Comm_create_group(mpi.world, members, 0, &c->base), "MPI_Comm_create_group",
                  &c->error))
        return c->error.status;
    mpi.Group_free(&world);
    mpi.Group_free(&members);
    return mpi_check(mpi.Comm_set_errhandler(c->base, mpi.returns_errors),
                     "MPI_Comm_set_errhandler", &c->error);
}

static void free_communicator(mpi_communicator *c) {
    list_remove(&c->link);
    mem_free(c->ranks);
    mem_free(c);
}

// What was started before the last abort, and has not begun, never will.
static backend_call *next_call(mpi_communicator *c, bool *out_is_over) {
    pthread_mutex_lock(&lock);
    list_node *l = list_is_empty(&c->calls) ? NULL : c->calls.next;
    backend_call *call = l ? list_entry(l, backend_call, link) : NULL;
    *out_is_over = call && call->generation < c->generation;
    bool goes = call && (*out_is_over || c->error.status || c->made == call->generation + 1);
    if (goes) list_remove(l);
    pthread_mutex_unlock(&lock);
    return goes ? call : NULL;
}

static bool is_wanted(mpi_communicator *c, bool *out_is_closed) {
    pthread_mutex_lock(&lock);
    bool wants = !list_is_empty(&c->calls) && !c->error.status && c->made <= c->generation;
    *out_is_closed = c->is_closed;
    pthread_mutex_unlock(&lock);
    return wants;
}

// False: it has ended.
static bool go_on(mpi_communicator *c) {
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
    gw_status status =
        mpi_check(mpi.Test(&f->request, &done, MPI_STATUS_IGNORE), "MPI_Test", &error);
    if (!done && !status) return false;
    backend_call *call = f->call;
    mpi_communicator *c = f->of;
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

void mpi_communicators_init(void) {
    list_init(&opened);
    list_init(&all);
    list_init(&flights);
}

static bool make_opened(const gw_error *why_not) {
    pthread_mutex_lock(&lock);
    list_node *l = list_take(&opened);
    pthread_mutex_unlock(&lock);
    if (!l) return false;
    list_append(&all, l);
    make(list_entry(l, mpi_communicator, link), why_not);
    return true;
}

static bool go_on_with_all(void) {
    bool any = false;
    list_each(l, &flights) any = look(list_entry(l, flight, link)) || any;
    list_each(l, &all) any = !go_on(list_entry(l, mpi_communicator, link)) || any;
    return any;
}

bool mpi_progress(const gw_error *why_not) {
    return make_opened(why_not) || go_on_with_all();
}

bool mpi_is_busy(void) {
    return !list_is_empty(&flights);
}

static bool has_calls(void) {
    list_each(l, &all) {
        const mpi_communicator *c = list_entry(l, mpi_communicator, link);
        if (!list_is_empty(&c->calls) && !c->flight) return true;
        if (c->is_closed && !c->flight) return true;
    }
    return false;
}

bool mpi_await(void) {
    pthread_mutex_lock(&lock);
    while (!is_stopping && list_is_empty(&opened) && list_is_empty(&flights) && !has_calls())
        pthread_cond_wait(&news, &lock);
    bool stops = is_stopping;
    pthread_mutex_unlock(&lock);
    return !stops;
}

// ---- Any thread -----------------------------------------------------------------------------------

void mpi_communicators_stop(void) {
    pthread_mutex_lock(&lock);
    is_stopping = true;
    pthread_cond_signal(&news);
    pthread_mutex_unlock(&lock);
}

gw_status mpi_communicator_open(const backend_members *m, mpi_communicator **out, gw_error *error) {
    mpi_communicator *c = mem_calloc(sizeof *c);
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

void mpi_communicator_start(mpi_communicator *c, backend_call *call) {
    pthread_mutex_lock(&lock);
    call->generation = c->generation;
    list_append(&c->calls, &call->link);
    pthread_cond_signal(&news);
    pthread_mutex_unlock(&lock);
}

void mpi_communicator_abort(mpi_communicator *c) {
    pthread_mutex_lock(&lock);
    c->generation++;
    pthread_mutex_unlock(&lock);
}

void mpi_communicator_close(mpi_communicator *c) {
    pthread_mutex_lock(&lock);
    c->is_closed = true;
    pthread_cond_signal(&news);
    pthread_mutex_unlock(&lock);
}

#endif
