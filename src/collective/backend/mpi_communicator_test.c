// Communicators over a fake MPI of the test, which completes calls when the test says so.
#include "testing/testing.h"

#include <stdio.h>
#include <string.h>

#ifdef GW_OPEN_MPI

#include "collective/backend/mpi_communicator.h"
#include "collective/backend/mpi_library.h"

#include "base/status.h"

#include <limits.h>

enum { BEGUN_MAX = 16, MEMBERS = 3, SELF = 1, FAILS = 77 };

// The calls that were begun, in order.
typedef struct begun {
    const char *what;
    MPI_Comm in;
    int sizes[2][MEMBERS], offsets[2][MEMBERS];  // sent, and received
    int size, root;
    bool is_done;
    int code;  // its result
} begun;

static struct {
    begun begun[BEGUN_MAX];
    int count, rank;
    char communicators[BEGUN_MAX];  // their addresses are handles
    int made;
    int broken;  // the result of all tests of requests
} fake;

static begun *begin(const char *what, MPI_Comm in, MPI_Request *out) {
    assert_true(fake.count < BEGUN_MAX);
    begun *b = &fake.begun[fake.count++];
    *b = (begun){ .what = what, .in = in };
    *out = (MPI_Request)(void *)b;
    return b;
}

static MPI_Comm make_communicator(void) {
    return (MPI_Comm)(void *)&fake.communicators[fake.made++];
}

static int comm_rank(MPI_Comm c, int *out) {
    (void)c;
    *out = fake.rank;
    return MPI_SUCCESS;
}

static int comm_size(MPI_Comm c, int *out) {
    (void)c;
    *out = 8;
    return MPI_SUCCESS;
}

static int comm_group(MPI_Comm c, MPI_Group *out) {
    (void)c;
    *out = NULL;
    return MPI_SUCCESS;
}

static int group_incl(MPI_Group g, int count, const int *ranks, MPI_Group *out) {
    (void)g;
    assert_int_equal(count, MEMBERS);
    assert_int_equal(ranks[SELF], 4);
    *out = NULL;
    return MPI_SUCCESS;
}

static int group_free(MPI_Group *g) {
    (void)g;
    return MPI_SUCCESS;
}

static int create_group(MPI_Comm c, MPI_Group g, int tag, MPI_Comm *out) {
    (void)c, (void)g, (void)tag;
    *out = make_communicator();
    return MPI_SUCCESS;
}

static int set_errhandler(MPI_Comm c, MPI_Errhandler h) {
    (void)c, (void)h;
    return MPI_SUCCESS;
}

static int error_string(int code, char *out, int *size) {
    *size = snprintf(out, MPI_MAX_ERROR_STRING, "%s", code == FAILS ? "the network is down" : "?");
    return MPI_SUCCESS;
}

static int dup(MPI_Comm c, MPI_Comm *out) {
    (void)c;
    *out = make_communicator();
    return MPI_SUCCESS;
}

static int testsome(int count, MPI_Request *requests, int *ended_count, int *ended,
                    MPI_Status *statuses) {
    bool has_failed = false;
    *ended_count = 0;
    for (int i = count; i-- > 0;) {  // in any order
        const begun *b = (const void *)requests[i];
        if (!b->is_done) continue;
        statuses[*ended_count].MPI_ERROR = b->code;
        ended[(*ended_count)++] = i;
        has_failed = has_failed || b->code;
    }
    return has_failed ? MPI_ERR_IN_STATUS : fake.broken;
}

static int alltoallv(const void *from, const int out[], const int out_at[], MPI_Datatype a,
                     void *to, const int in[], const int in_at[], MPI_Datatype b, MPI_Comm c,
                     MPI_Request *request) {
    (void)from, (void)to, (void)a, (void)b;
    begun *x = begin("alltoallv", c, request);
    memcpy(x->sizes[0], out, sizeof x->sizes[0]);
    memcpy(x->offsets[0], out_at, sizeof x->offsets[0]);
    memcpy(x->sizes[1], in, sizeof x->sizes[1]);
    memcpy(x->offsets[1], in_at, sizeof x->offsets[1]);
    return MPI_SUCCESS;
}

static int bcast(void *bytes, int size, MPI_Datatype d, int root, MPI_Comm c,
                 MPI_Request *request) {
    (void)bytes, (void)d;
    begun *x = begin("bcast", c, request);
    x->size = size;
    x->root = root;
    return MPI_SUCCESS;
}

// ---- Calls --------------------------------------------------------------------------------------

typedef struct call {
    backend_call call;
    int ended;
    gw_error error;
} call;

static void ended(backend_call *c, const gw_error *error) {
    call *x = (call *)(void *)c;
    x->ended++;
    if (error) x->error = *error;
}

static call broadcast_of(uint64_t size) {
    return (call){ .call = {
                       .operation = OPERATION_BROADCAST, .root = 2, .size = size, .done = ended } };
}

static const gw_error fine;

static mpi_communicator *open_communicator(int rank) {
    memset(&fake, 0, sizeof fake);
    fake.rank = rank;
    mpi = (mpi_library){ .Comm_rank = comm_rank,
                         .Comm_size = comm_size,
                         .Comm_group = comm_group,
                         .Group_incl = group_incl,
                         .Group_free = group_free,
                         .Comm_create_group = create_group,
                         .Comm_set_errhandler = set_errhandler,
                         .Error_string = error_string,
                         .Comm_dup = dup,
                         .Testsome = testsome,
                         .Ialltoallv = alltoallv,
                         .Ibcast = bcast };
    mpi_communicators_init();
    const int ranks[MEMBERS] = { 0, 4, 7 };
    mpi_communicator *c;
    gw_error error;
    backend_members m = { .ranks = ranks, .count = MEMBERS, .self = SELF, .name = "g" };
    assert_int_equal(mpi_communicator_open(&m, &c, &error), GW_OK);
    return c;
}

// Until nothing more changes.
static void advance(void) {
    for (int i = 0; i < 10; i++) mpi_progress(&fine);
}

static void end(int i) {
    assert_true(i < fake.count);
    fake.begun[i].is_done = true;
    advance();
}

static void assert_begun(int i, const char *what) {
    assert_int_equal(fake.count, i + 1);
    assert_string_equal(fake.begun[i].what, what);
}

static void close_communicator(mpi_communicator *c) {
    mpi_communicator_close(c);
    advance();
    assert_int_equal(mpi_count_flights(), 0);
}

// ---- Tests --------------------------------------------------------------------------------------

static void calls_of_several_channels_are_under_way_at_once(void **state) {
    (void)state;
    mpi_communicator *c = open_communicator(4);
    call a = broadcast_of(10), b = broadcast_of(20), d = broadcast_of(30);
    b.call.channel = d.call.channel = MPI_CHANNELS - 1;
    mpi_communicator_start(c, &a.call);
    mpi_communicator_start(c, &b.call);
    advance();
    assert_int_equal(fake.made, MPI_CHANNELS);
    assert_begun(1, "bcast");
    assert_int_equal(fake.begun[0].size, 10);
    assert_int_equal(fake.begun[1].size, 20);
    assert_int_equal(fake.begun[1].root, 2);
    assert_true(fake.begun[0].in != fake.begun[1].in);
    assert_int_equal(mpi_count_flights(), 2);
    end(1);
    assert_int_equal(a.ended, 0);
    assert_int_equal(b.ended, 1);
    mpi_communicator_start(c, &d.call);
    advance();
    assert_begun(2, "bcast");
    assert_true(fake.begun[2].in == fake.begun[1].in);
    fake.begun[0].is_done = true;
    end(2);
    assert_int_equal(a.ended, 1);
    assert_int_equal(d.ended, 1);
    assert_int_equal(a.error.status, GW_OK);
    close_communicator(c);
}

static void an_abort_ends_calls_that_have_not_begun(void **state) {
    (void)state;
    mpi_communicator *c = open_communicator(4);
    call a = broadcast_of(10), b = broadcast_of(20);
    mpi_communicator_start(c, &a.call);
    advance();
    mpi_communicator_start(c, &b.call);
    mpi_communicator_abort(c);
    advance();
    assert_begun(0, "bcast");
    assert_int_equal(b.ended, 1);
    assert_int_equal(b.error.status, GW_CANCELLED);
    assert_int_equal(a.ended, 0);  // the peer may never take part
    assert_int_equal(mpi_count_flights(), 1);
    mpi_communicator_close(c);
    advance();
    end(0);
    assert_int_equal(a.ended, 1);
    assert_int_equal(mpi_count_flights(), 0);
}

static void bytes_of_members_are_contiguous(void **state) {
    (void)state;
    mpi_communicator *c = open_communicator(4);
    const uint64_t from[MEMBERS] = { 3, 0, 5 }, to[MEMBERS] = { 7, 1, 2 };
    call a = { .call = { .operation = OPERATION_ALL_TO_ALL,
                         .sizes_from = from,
                         .sizes_to = to,
                         .done = ended } };
    mpi_communicator_start(c, &a.call);
    advance();
    assert_begun(0, "alltoallv");
    const begun *x = &fake.begun[0];
    assert_memory_equal(x->sizes[0], ((int[]){ 3, 0, 5 }), sizeof x->sizes[0]);
    assert_memory_equal(x->offsets[0], ((int[]){ 0, 3, 3 }), sizeof x->offsets[0]);
    assert_memory_equal(x->sizes[1], ((int[]){ 7, 1, 2 }), sizeof x->sizes[1]);
    assert_memory_equal(x->offsets[1], ((int[]){ 0, 7, 8 }), sizeof x->offsets[1]);
    end(0);
    close_communicator(c);
}

// MPI counts bytes with an int.
static void a_call_that_is_too_large_is_refused(void **state) {
    (void)state;
    mpi_communicator *c = open_communicator(4);
    const uint64_t much[MEMBERS] = { INT_MAX, 1, 0 }, none[MEMBERS] = { 0 };
    call a = { .call = { .operation = OPERATION_ALL_TO_ALL,
                         .sizes_from = none,
                         .sizes_to = much,
                         .done = ended } };
    call b = broadcast_of((uint64_t)INT_MAX + 1), fits = broadcast_of(INT_MAX);
    mpi_communicator_start(c, &a.call);
    mpi_communicator_start(c, &b.call);
    mpi_communicator_start(c, &fits.call);
    advance();
    assert_int_equal(a.error.status, GW_LIMIT);
    assert_int_equal(b.error.status, GW_LIMIT);
    assert_begun(0, "bcast");
    end(0);
    assert_int_equal(fits.error.status, GW_OK);
    close_communicator(c);
}

static void an_error_of_mpi_is_reported(void **state) {
    (void)state;
    mpi_communicator *c = open_communicator(4);
    call a = broadcast_of(10), b = broadcast_of(20), d = broadcast_of(30);
    b.call.channel = 1;
    d.call.channel = 2;
    mpi_communicator_start(c, &a.call);
    mpi_communicator_start(c, &b.call);
    mpi_communicator_start(c, &d.call);
    advance();
    fake.begun[1].code = FAILS;
    fake.begun[0].is_done = true;
    end(1);
    assert_int_equal(a.error.status, GW_OK);
    assert_int_equal(b.error.status, GW_REMOTE);
    assert_non_null(strstr(b.error.text, "broadcast: the network is down"));
    assert_int_equal(d.ended, 0);
    fake.broken = FAILS;  // of no request
    advance();
    assert_int_equal(d.error.status, GW_REMOTE);
    close_communicator(c);
}

static void ranks_that_differ_from_those_of_mpi_are_refused(void **state) {
    (void)state;
    mpi_communicator *c = open_communicator(5);
    call a = broadcast_of(10);
    mpi_communicator_start(c, &a.call);
    advance();
    assert_int_equal(a.error.status, GW_WRONG_STATE);
    assert_non_null(strstr(a.error.text, "rank 4 of the job has rank 5 in MPI"));
    assert_int_equal(fake.count, 0);
    close_communicator(c);
}

static void without_mpi_all_calls_fail_with_the_reason(void **state) {
    (void)state;
    mpi_communicator *c = open_communicator(4);
    gw_error why;
    error_set(&why, GW_WRONG_STATE, "mpi: it is off");
    call a = broadcast_of(10);
    mpi_communicator_start(c, &a.call);
    for (int i = 0; i < 3; i++) mpi_progress(&why);
    assert_string_equal(a.error.text, "mpi: it is off");
    close_communicator(c);
}

static void a_stopped_thread_waits_no_more(void **state) {
    (void)state;
    mpi_communicator *c = open_communicator(4);
    assert_true(mpi_await());  // there is a communicator to be made
    close_communicator(c);
    mpi_communicators_stop();
    assert_false(mpi_await());
}

GW_TESTS(mpi_communicator, calls_of_several_channels_are_under_way_at_once,
         an_abort_ends_calls_that_have_not_begun, bytes_of_members_are_contiguous,
         a_call_that_is_too_large_is_refused, an_error_of_mpi_is_reported,
         ranks_that_differ_from_those_of_mpi_are_refused,
         without_mpi_all_calls_fail_with_the_reason, a_stopped_thread_waits_no_more);

#else

static void calls_of_several_channels_are_under_way_at_once(void **state) {
    (void)state;
    testing_skip("built without Open MPI");
}

GW_TESTS(mpi_communicator, calls_of_several_channels_are_under_way_at_once);

#endif
