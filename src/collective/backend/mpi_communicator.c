// Without Open MPI there is nothing here (CMakeLists.txt).
#ifdef GW_OPEN_MPI

#include "collective/backend/mpi_communicator.h"

#include "base/mem.h"
#include "base/process_lock.h"
#include "base/status.h"
#include "collective/backend/mpi_library.h"

#include <limits.h>
#include <pthread.h>
#include <string.h>

struct mpi_communicator {
    list_node link;

    // constant
    int *ranks;
    int count, self;

    // with the lock
    list_node calls;  // of backend_call, in order, that have not begun
    bool is_aborted, is_closed;

    // used by the thread of MPI only
    MPI_Comm channels[MPI_CHANNELS];
    int flight_count;
    gw_error error;  // set if it could not be made
};

// A call under way, and the memory that MPI reads meanwhile.
typedef struct flight {
    mpi_communicator *of;
    backend_call *call;
    bool has_ended;
    int code;       // of the completed request
    int numbers[];  // sizes and offsets, sent and received, four for each member
} flight;

PROCESS_LOCK(lock, PROCESS_LOCK_LEAF, NULL);
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static list_node opened;  // communicators to be made
static bool is_stopping;

// Used by the thread of MPI only. MPI tests all requests in one call, so they are in one array, and their flights in
// a parallel one.
static list_node all;
static struct {
    int count, room;
    MPI_Request *requests;
    flight **flights;
    int *ended;  // of |room|, as the next
    MPI_Status *statuses;
} air;

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

static gw_status begin(flight *f, MPI_Request *request, gw_error *error) {
    const mpi_communicator *c = f->of;
    const backend_call *x = f->call;
    int n = c->count, *out = f->numbers, *out_at = out + n, *in = out + 2 * n, *in_at = in + n;
    if (x->size > INT_MAX || !lay_out(x->sizes_from, n, out, out_at) ||
        !lay_out(x->sizes_to, n, in, in_at))
        return error_set(error, GW_LIMIT,
                         "mpi: a collective has more than 2 GiB, the limit of one call of MPI");
    MPI_Comm comm = c->channels[x->channel];
    int size = (int)x->size, code;
    switch (x->operation) {
    case OPERATION_ALL_TO_ALL:
        code = mpi.Ialltoallv(x->from, out, out_at, mpi.byte, x->to, in, in_at, mpi.byte, comm,
                              request);
        break;
    case OPERATION_ALL_GATHER:
        code = mpi.Iallgatherv(x->from, size, mpi.byte, x->to, in, in_at, mpi.byte, comm, request);
        break;
    case OPERATION_GATHER:
        code = mpi.Igatherv(x->from, size, mpi.byte, x->to, in, in_at, mpi.byte, x->root, comm,
                            request);
        break;
    case OPERATION_BROADCAST:
        code = mpi.Ibcast(x->to, size, mpi.byte, x->root, comm, request);
        break;
    default:
        code = mpi.Iallreduce(x->from, x->to, size / (int)gw_dtype_size(x->dtype),
                              mpi_datatype_of(x->dtype), mpi_op_of(x->op), comm, request);
    }
    return mpi_check(code, operation_name(x->operation), error);
}

static bool grow(void) {
    if (air.count < air.room) return true;
    size_t room = air.room ? (size_t)air.room * 2 : 16;
    MPI_Request *requests = mem_realloc(air.requests, room * sizeof *requests);
    if (requests) air.requests = requests;
    flight **flights = mem_realloc(air.flights, room * sizeof *flights);
    if (flights) air.flights = flights;
    int *ended = mem_realloc(air.ended, room * sizeof *ended);
    if (ended) air.ended = ended;
    MPI_Status *statuses = mem_realloc(air.statuses, room * sizeof *statuses);
    if (statuses) air.statuses = statuses;
    bool grown = requests && flights && ended && statuses;
    if (grown) air.room = (int)room;
    return grown;
}

static gw_status launch(mpi_communicator *c, backend_call *call, gw_error *error) {
    size_t numbers = 4 * (size_t)c->count;
    flight *f = grow() ? mem_calloc(sizeof *f + numbers * sizeof f->numbers[0]) : NULL;
    if (!f) return error_set(error, GW_NO_MEMORY, "mpi: no memory for a call");
    f->of = c;
    f->call = call;
    gw_status status = begin(f, &air.requests[air.count], error);
    if (status) {
        mem_free(f);
        return status;
    }
    air.flights[air.count++] = f;
    c->flight_count++;
    return GW_OK;
}

// The last one takes its position.
static void land(int at) {
    flight *f = air.flights[at];
    backend_call *call = f->call;
    gw_error error = { 0 };
    mpi_check(f->code, operation_name(call->operation), &error);
    air.count--;
    air.flights[at] = air.flights[air.count];
    air.requests[at] = air.requests[air.count];
    f->of->flight_count--;
    mem_free(f);
    call->done(call, error.status ? &error : NULL);
}

static void mark_ended(int count, bool has_codes) {
    for (int i = 0; i < count; i++) {
        flight *f = air.flights[air.ended[i]];
        f->has_ended = true;
        f->code = has_codes ? air.statuses[i].MPI_ERROR : MPI_SUCCESS;
    }
}

static void mark_all_ended(int code) {
    for (int i = 0; i < air.count; i++) {
        air.flights[i]->has_ended = true;
        air.flights[i]->code = code;
    }
}

// Whether any has ended.
static bool test_all(void) {
    int count = 0;
    if (!air.count) return false;
    int code = mpi.Testsome(air.count, air.requests, &count, air.ended, air.statuses);
    if (code == MPI_SUCCESS || code == MPI_ERR_IN_STATUS)
        mark_ended(count, code != MPI_SUCCESS);
    else
        mark_all_ended(code);
    bool any = false;
    for (int i = air.count; i-- > 0;) {
        if (!air.flights[i]->has_ended) continue;
        land(i);
        any = true;
    }
    return any;
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
                         "mpi: rank %d of the job has rank %d in MPI: let mpirun assign the ranks",
                         c->ranks[c->self], rank);
    for (int i = 0; i < c->count; i++)
        if (c->ranks[i] >= size)
            return error_set(&c->error, GW_WRONG_STATE, "mpi: mpirun has not started rank %d",
                             c->ranks[i]);
    if (mpi_check(mpi.Comm_group(mpi.world, &world), "MPI_Comm_group", &c->error) ||
        mpi_check(mpi.Group_incl(world, c->count, c->ranks, &members), "MPI_Group_incl",
                  &c->error) ||
        mpi_check(mpi.Comm_create_group(mpi.world, members, 0, &c->channels[0]),
                  "MPI_Comm_create_group", &c->error))
        return c->error.status;
    mpi.Group_free(&world);
    mpi.Group_free(&members);
    for (int i = 0; i < MPI_CHANNELS && !c->error.status; i++) {
        if (i &&
            mpi_check(mpi.Comm_dup(c->channels[0], &c->channels[i]), "MPI_Comm_dup", &c->error))
            break;
        mpi_check(mpi.Comm_set_errhandler(c->channels[i], mpi.returns_errors),
                  "MPI_Comm_set_errhandler", &c->error);
    }
    return c->error.status;
}

static void free_communicator(mpi_communicator *c) {
    list_remove(&c->link);
    mem_free(c->ranks);
    mem_free(c);
}

static backend_call *next_call(mpi_communicator *c, bool *out_is_aborted) {
    process_lock_take(&lock);
    list_node *l = list_take(&c->calls);
    *out_is_aborted = c->is_aborted;
    process_lock_release(&lock);
    return l ? list_entry(l, backend_call, link) : NULL;
}

static bool has_closed(mpi_communicator *c) {
    process_lock_take(&lock);
    bool is_over = c->is_closed && list_is_empty(&c->calls) && !c->flight_count;
    process_lock_release(&lock);
    return is_over;
}

// Whether any call has begun or ended.
static bool advance(mpi_communicator *c) {
    bool any = false, is_aborted;
    for (backend_call *x; (x = next_call(c, &is_aborted)); any = true) {
        gw_error error = c->error;
        if (is_aborted) error_set(&error, GW_CANCELLED, "mpi: aborted");
        if (error.status || launch(c, x, &error)) x->done(x, &error);
    }
    if (!has_closed(c)) return any;
    free_communicator(c);
    return true;
}

// ---- The thread ---------------------------------------------------------------------------------

void mpi_communicators_init(void) {
    list_init(&opened);
    list_init(&all);
}

static bool make_opened(const gw_error *why_not) {
    process_lock_take(&lock);
    list_node *l = list_take(&opened);
    process_lock_release(&lock);
    if (!l) return false;
    list_append(&all, l);
    make(list_entry(l, mpi_communicator, link), why_not);
    return true;
}

static bool advance_all(void) {
    bool any = test_all();
    list_each(l, &all) any = advance(list_entry(l, mpi_communicator, link)) || any;
    return any;
}

bool mpi_progress(const gw_error *why_not) {
    return make_opened(why_not) || advance_all();
}

int mpi_count_flights(void) {
    return air.count;
}

static bool has_calls(void) {
    list_each(l, &all) {
        const mpi_communicator *c = list_entry(l, mpi_communicator, link);
        if (!list_is_empty(&c->calls) || (c->is_closed && !c->flight_count)) return true;
    }
    return false;
}

bool mpi_await(void) {
    process_lock_take(&lock);
    while (!is_stopping && list_is_empty(&opened) && !air.count && !has_calls())
        pthread_cond_wait(&changed, &lock.mutex);
    bool stops = is_stopping;
    process_lock_release(&lock);
    return !stops;
}

// ---- Any thread -----------------------------------------------------------------------------------

void mpi_communicators_stop(void) {
    process_lock_take(&lock);
    is_stopping = true;
    pthread_cond_signal(&changed);
    process_lock_release(&lock);
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
    process_lock_take(&lock);
    list_append(&opened, &c->link);
    pthread_cond_signal(&changed);
    process_lock_release(&lock);
    *out = c;
    return GW_OK;
}

void mpi_communicator_start(mpi_communicator *c, backend_call *call) {
    process_lock_take(&lock);
    list_append(&c->calls, &call->link);
    pthread_cond_signal(&changed);
    process_lock_release(&lock);
}

void mpi_communicator_abort(mpi_communicator *c) {
    process_lock_take(&lock);
    c->is_aborted = true;
    pthread_cond_signal(&changed);
    process_lock_release(&lock);
}

void mpi_communicator_close(mpi_communicator *c) {
    process_lock_take(&lock);
    c->is_closed = true;
    pthread_cond_signal(&changed);
    process_lock_release(&lock);
}

#endif
