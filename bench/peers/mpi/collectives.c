// Collectives of MPI, as bench/collective.c makes them: prints "case median_us min_us".
//
//     mpirun --oversubscribe -np 2 build/mpi/collectives [case...]
//
// A sample is the time from a barrier until the slowest member is done.
#include <mpi.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES_MAX = 1000, WARM = 2 };

typedef struct size {
    const char *name;
    int numbers, samples;
} size;

static const size sizes[] = { { "4KB", 1 << 10, 1000 },
                              { "64KB", 1 << 14, 400 },
                              { "1MB", 1 << 18, 60 },
                              { "25MB", 25 << 18, 10 },
                              { "100MB", 25 << 20, 5 } };
enum { SIZES = sizeof sizes / sizeof *sizes };

static const char *const operations[] = { "barrier",    "all_reduce",     "broadcast",
                                          "all_gather", "reduce_scatter", "all_to_all" };
enum { BARRIER, ALL_REDUCE, BROADCAST, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, OPERATIONS };

static void run(int operation, float *x, float *y, int numbers, int members) {
    switch (operation) {
    case BARRIER: MPI_Barrier(MPI_COMM_WORLD); break;
    case ALL_REDUCE: MPI_Allreduce(x, y, numbers, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); break;
    case BROADCAST: MPI_Bcast(x, numbers, MPI_FLOAT, 0, MPI_COMM_WORLD); break;
    case ALL_GATHER:
        MPI_Allgather(x, numbers, MPI_FLOAT, y, numbers, MPI_FLOAT, MPI_COMM_WORLD);
        break;
    case REDUCE_SCATTER:
        MPI_Reduce_scatter_block(x, y, numbers / members, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        break;
    default:
        MPI_Alltoall(x, numbers / members, MPI_FLOAT, y, numbers / members, MPI_FLOAT,
                     MPI_COMM_WORLD);
    }
}

// Round trip, from |x| and into it.
static void echo(float *x, int numbers, int rank) {
    int other = 1 - rank;
    if (rank == 0) MPI_Send(x, numbers, MPI_FLOAT, other, 0, MPI_COMM_WORLD);
    MPI_Recv(x, numbers, MPI_FLOAT, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 1) MPI_Send(x, numbers, MPI_FLOAT, other, 0, MPI_COMM_WORLD);
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(const char *name, int operation, size s, int rank, int members) {
    static double times[SAMPLES_MAX], slowest[SAMPLES_MAX];
    size_t bytes = (size_t)s.numbers * sizeof(float);
    float *x = malloc(bytes), *y = malloc(bytes * (size_t)members);
    if (!x || !y) MPI_Abort(MPI_COMM_WORLD, 1);
    memset(x, 0, bytes);
    memset(y, 0, bytes * (size_t)members);
    for (int i = -WARM; i < s.samples; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double start = MPI_Wtime();
        run(operation, x, y, s.numbers, members);
        if (i >= 0) times[i] = (MPI_Wtime() - start) * 1e6;
    }
    MPI_Reduce(times, slowest, s.samples, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    qsort(slowest, (size_t)s.samples, sizeof *slowest, by_size);
    if (rank == 0) printf("%s %.2f %.2f\n", name, slowest[s.samples / 2], slowest[0]);
    fflush(stdout);
    free(x);
    free(y);
}

static void measure_sends(int rank) {
    static double times[SAMPLES_MAX];
    float x[2] = { 0 };
    for (int i = -WARM; i < SAMPLES_MAX; i++) {
        double start = MPI_Wtime();
        echo(x, 2, rank);
        if (i >= 0) times[i] = (MPI_Wtime() - start) * 1e6;
    }
    qsort(times, SAMPLES_MAX, sizeof *times, by_size);
    if (rank == 0) printf("collective.send_8B_n2 %.2f %.2f\n", times[SAMPLES_MAX / 2], times[0]);
    fflush(stdout);
}

static bool is_wanted(const char *name, char **wanted) {
    if (!*wanted) return true;
    for (; *wanted; wanted++)
        if (strncmp(name, *wanted, strlen(*wanted)) == 0) return true;
    return false;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, members;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &members);
    if (members == 2 && is_wanted("collective.send_8B_n2", argv + 1)) measure_sends(rank);
    for (int o = 0; o < OPERATIONS; o++) {
        for (int i = 0; i < (o == BARRIER ? 1 : SIZES); i++) {
            char name[64];
            snprintf(name, sizeof name, "collective.%s%s%s_n%d", operations[o],
                     o == BARRIER ? "" : "_", o == BARRIER ? "" : sizes[i].name, members);
            if (is_wanted(name, argv + 1)) measure(name, o, sizes[i], rank, members);
        }
    }
    MPI_Finalize();
}
