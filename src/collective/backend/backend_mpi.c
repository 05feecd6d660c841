// Open MPI as a backend: see docs/decisions/0025-backends.md. One thread makes all calls of MPI, including those that
// initialize and finalize it.
#include "collective/backend/backend.h"

#include "base/log.h"
#include "base/status.h"
#include "base/system_error.h"

#ifndef GW_OPEN_MPI

static gw_status open_group(const backend_members *m, void **out, gw_error *error) {
    (void)m, (void)out;
    return error_set(error, GW_UNSUPPORTED,
                     "this gradwire was built without MPI, which backend \"mpi\" needs "
                     "(libopenmpi-dev, and configure again)");
}

const backend backend_mpi = { .name = "mpi", .open = open_group };

#else

#include "collective/backend/mpi_communicator.h"
#include "collective/backend/mpi_library.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { LAST_POLLS = 4500 };  // about two seconds
enum { LOST_S = 3 };

static gw_error why_not;  // there is no MPI
static bool is_ours;      // this process has to finalize it
static pthread_t thread;
static pid_t process;
static atomic_bool has_loss;

// ---- The thread ---------------------------------------------------------------------------------

static void begin_mpi(void) {
    int is_begun, level;
    mpi.Initialized(&is_begun);
    is_ours = !is_begun;
    if (is_ours) {
        mpi_check(mpi.Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level), "MPI_Init_thread",
                  &why_not);
    } else if (mpi.Query_thread(&level) != MPI_SUCCESS || level < MPI_THREAD_MULTIPLE) {
        error_set(&why_not, GW_WRONG_STATE,
                  "mpi: the program has started MPI without MPI_THREAD_MULTIPLE");
    }
    if (!why_not.status) mpi.Comm_set_errhandler(mpi.world, mpi.returns_errors);
}

// Other processes need the processor while no call ends: it yields, and then sleeps for longer and longer.
static void rest(int idle) {
    struct timespec t = { .tv_nsec = idle < 2000 ? 20000 : idle < 4000 ? 200000 : 2000000 };
    if (idle < 50)
        sched_yield();
    else
        nanosleep(&t, NULL);
}

// In a broken group too, calls that all members have begun still end.
static void await_last(void) {
    for (int idle = 0; mpi_count_flights() && idle < LAST_POLLS; idle++) {
        mpi_progress(&why_not);
        rest(idle);
    }
}

static void *serve(void *argument) {
    begin_mpi();
    prctl(PR_SET_TIMERSLACK, 1000UL);  // it sleeps for less than is usual
    for (int idle = 0; mpi_await(); idle++) {
        if (mpi_progress(&why_not)) idle = 0;
        if (mpi_count_flights()) rest(idle);
    }
    await_last();
    // MPI_Finalize crashes while calls that never end are pending.
    if (mpi_count_flights())
        log_error("mpi: %d calls of broken groups have not ended, so this process cannot call "
                  "MPI_Finalize, and mpirun reports it as failed",
                  mpi_count_flights());
    else if (is_ours && !why_not.status)
        mpi.Finalize();
    return argument;
}

// The thread that has initialized MPI has to finalize it before the process ends. After a worker was lost,
// initialization and finalization may never end: both wait for all ranks, and mpirun may be set to continue.
static void stop(void) {
    if (getpid() != process) return;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += LOST_S;
    mpi_communicators_stop();
    if (!atomic_load(&has_loss))
        pthread_join(thread, NULL);
    else if (pthread_timedjoin_np(thread, NULL, &until))
        log_error("mpi: MPI_Finalize has not returned within %d s after a worker was lost, and "
                  "this process ends without it",
                  LOST_S);
}

static void begin_once(void) {
    sigset_t every, before;
    mpi_load();
    if (!mpi.is_loaded || !getenv("OMPI_COMM_WORLD_SIZE")) return;
    mpi_communicators_init();
    process = getpid();
    sigfillset(&every);
    pthread_sigmask(SIG_SETMASK, &every, &before);
    int failed = pthread_create(&thread, NULL, serve, NULL);
    if (failed)
        error_set(&why_not, GW_SYSTEM, "mpi: no thread can be started: %s",
                  system_thread_error_text(failed).text);
    else
        atexit(stop);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

// ---- The table ----------------------------------------------------------------------------------

static gw_status open_group(const backend_members *m, void **out, gw_error *error) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, begin_once);
    if (!mpi.is_loaded)
        return error_set(error, GW_UNSUPPORTED,
                         "backend \"mpi\" needs the library %s, which is not installed",
                         MPI_LIBRARY);
    if (!getenv("OMPI_COMM_WORLD_SIZE"))
        return error_set(error, GW_WRONG_STATE,
                         "backend \"mpi\" is for processes that Open MPI's mpirun has started");
    mpi_communicator *c = NULL;
    gw_status status = mpi_communicator_open(m, &c, error);
    *out = c;
    return status;
}

static void start(void *to, backend_call *call) {
    mpi_communicator_start(to, call);
}

static void abort_group(void *of) {
    mpi_communicator_abort(of);
}

static void close_group(void *of) {
    mpi_communicator_close(of);
}

static void lose(void) {
    atomic_store(&has_loss, true);
}

#define BIT(x) (1u << (x))

const backend backend_mpi = {
    .name = "mpi",
    .operations = BIT(OPERATION_ALL_REDUCE) | BIT(OPERATION_BROADCAST) | BIT(OPERATION_ALL_GATHER) |
                  BIT(OPERATION_GATHER) | BIT(OPERATION_ALL_TO_ALL),
    .ops = BIT(COMBINE_BXOR + 1) - 1,
    // Sums of narrow integers do not wrap around in Open MPI 4.1 on processors with saturating instructions.
    .dtypes = BIT(GW_F32) | BIT(GW_F64) | BIT(GW_I32) | BIT(GW_I64),
    .bytes_max = INT_MAX,
    .devices = BIT(GW_CPU),
    .channels = MPI_CHANNELS,
    .open = open_group,
    .start = start,
    .abort = abort_group,
    .close = close_group,
    .lose = lose,
};

#endif
