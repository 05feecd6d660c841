// Launchers of MPI start programs of gradwire, which read their rank and size from the environment that these set.
// Debian's Open MPI and MPICH are started for it; where one is not installed its tests are skipped.
#include "../support/launched.h"
#include "../support/other_launchers.h"
#include "testing/testing.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct engine {
    const char *program;
    const char *start;  // the command before -n
    const char *rank;   // the variable
} engine;

// Open MPI refuses by default to run as root, and more ranks than processors.
#define AS_ANY_USER                                                                                \
    "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "                                   \
    "OMPI_MCA_rmaps_base_oversubscribe=1 "

static const engine open_mpi = { "mpirun.openmpi", AS_ANY_USER "mpirun.openmpi",
                                 "OMPI_COMM_WORLD_RANK" };
static const engine mpich = { "mpiexec.hydra", "mpiexec.hydra", "PMI_RANK" };

static void need(const engine *e) {
    if (!has_program(e->program)) testing_skip("%s is not installed", e->program);
}

// Reads a stream up to a line that contains |word|.
static void await_word(int fd, const char *word) {
    while (!strstr(read_line(fd, ""), word)) continue;
}

enum { RANKS = 3 };

// Prefix of a command of the launcher: the process prints its id before it executes the program.
#define PRINTS_PROCESS "echo rank $%s is $$; exec "

// Returns the process of rank 1.
static pid_t read_processes(launched *l, int processes[RANKS]) {
    pid_t one = 0;
    for (int i = 0; i < RANKS; i++) {
        int rank, pid;
        assert_int_equal(sscanf(read_line(l->out_fd, "rank "), "%d is %d", &rank, &pid), 2);
        char number[16];
        snprintf(number, sizeof number, "%d", pid);
        processes[i] = open_process(number);
        if (rank == 1) one = pid;
    }
    return one;
}

// Called once all processes have ended: Open MPI's launcher may not end by itself after a loss.
static void end_launcher(launched l, const int processes[RANKS]) {
    for (int i = 0; i < RANKS; i++) wait_for_end(processes[i]);
    kill(l.pid, SIGKILL);
    result r = finish(l);
    testing_note("%s%s", r.out, r.err);
    forget(r);
}

// A rank that is killed joins again, while the others train.
static void start_again(const engine *e) {
    need(e);
    other_launcher_heals(e->start);
}

static void compute_the_same(const engine *e) {
    need(e);
    other_launcher_computes_the_same(e->start);
}

// One rank is killed in the middle of training.
static void all_end_with_one(const engine *e) {
    int processes[RANKS];
    need(e);
    launched l = launch_command("%s -n %d sh -c '" PRINTS_PROCESS "./batch_rpc --epochs 2000'",
                                e->start, RANKS, e->rank);
    pid_t victim = read_processes(&l, processes);
    await_word(l.out_fd, "epoch");
    kill(victim, SIGKILL);
    end_launcher(l, processes);
}

static void jobs_do_not_mix(const engine *e) {
    need(e);
    other_launcher_keeps_jobs_apart(e->start);
}

static void connect_over_tcp(const engine *e) {
    need(e);
    result r = finish(launch_command("GW_TRANSPORT=tcp %s -n 2 ./hello", e->start));
    testing_note("%s", r.err);
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "6., 12., 18."));
    forget(r);
}

// A shell, or another program, may stand between the launcher and the program.
static void a_wrapper_is_no_matter(const engine *e) {
    need(e);
    result r = finish(launch_command("%s -n 2 sh -c './hello; exit $?'", e->start));
    testing_note("%s", r.err);
    assert_int_equal(r.code, 0);
    forget(r);
}

// ---- Collectives over Open MPI ------------------------------------------------------------------

// Ignores what Open MPI has not released at its end, and its lock order.
#define OVER_MPI                                                                                   \
    "exec env ASAN_OPTIONS=detect_leaks=0 TSAN_OPTIONS=ignore_noninstrumented_modules=1 "

// mpirun may be installed on a machine whose gradwire was built without MPI.
static void need_backend(void) {
#ifndef GW_OPEN_MPI
    testing_skip("this build has no Open MPI (libopenmpi-dev, and configure again)");
#endif
    need(&open_mpi);
}

static result run_backend(int ranks, const char *how) {
    need_backend();
    result r = finish(
        launch_command(OVER_MPI "%s -n %d ./gradwire-mpi-worker %s", open_mpi.start, ranks, how));
    testing_note("%s%s", r.out, r.err);
    return r;
}

// With this option mpirun does not end the remaining ranks when some do not finalize MPI. It may wait for ever
// meanwhile, in PMIx, for a lock of a thread that has ended (Open MPI 4.1.4, PMIx 4.2.2), and then forwards no output
// of the ranks: so they print to files, and mpirun is killed once all have ended.
static result leave_alone(const char *how) {
    need_backend();
    path folder = make_folder();
    launched mpirun =
        launch_command(OVER_MPI "%s --enable-recovery -n %d sh -c '" PRINTS_PROCESS
                                "./gradwire-mpi-worker %s >%s/$%s 2>&1'",
                       open_mpi.start, RANKS, open_mpi.rank, how, folder.text, open_mpi.rank);
    int processes[RANKS];
    read_processes(&mpirun, processes);
    end_launcher(mpirun, processes);
    result r = finish(launch_command("cat %s/*", folder.text));
    testing_note("%s", r.out);
    remove_folder(folder);
    return r;
}

static int count_of(const char *text, const char *word) {
    int count = 0;
    while ((text = strstr(text, word))) text += strlen(word), count++;
    return count;
}

static void the_backend_gives_the_bits_of_sessions(void **state) {
    (void)state;
    for (int ranks = 1; ranks <= 4; ranks++) {
        result r = run_backend(ranks, "");
        assert_int_equal(r.code, 0);
        forget(r);
    }
}

static void the_backend_may_add_in_any_order(void **state) {
    (void)state;
    result r = run_backend(3, "any_order");
    assert_int_equal(r.code, 0);
    forget(r);
}

static void members_that_differ_continue_over_the_backend(void **state) {
    (void)state;
    result r = run_backend(3, "desync");
    assert_int_equal(r.code, 0);
    forget(r);
}

// MPI ends, too, or mpirun would not return 0.
static void an_abort_midway_ends_the_operation_in_the_backend(void **state) {
    (void)state;
    result r = run_backend(3, "midway");
    assert_int_equal(r.code, 0);
    forget(r);
}

static void replicas_learn_the_same_over_the_backend(void **state) {
    (void)state;
    for (int ranks = 1; ranks <= 4; ranks++) {
        result r = run_backend(ranks, "replicas");
        assert_int_equal(r.code, 0);
        forget(r);
    }
}

// The operation in MPI then may end or not; the processes do.
static void a_group_that_breaks_midway_blocks_no_process(void **state) {
    (void)state;
    result r = leave_alone("fail");
    assert_int_equal(count_of(r.out, "the same"), RANKS);
    forget(r);
}

static void lose_one(const char *when) {
    result r = leave_alone(when);
    assert_int_equal(count_of(r.out, "worker2 (rank 2) is gone"), RANKS - 1);
    forget(r);
}

static void a_loss_ends_the_others_of_the_backend(void **state) {
    (void)state;
    lose_one("lost");
}

static void a_loss_before_mpi_has_begun_ends_the_others(void **state) {
    (void)state;
    lose_one("lost_before_mpi");
}

static void the_backend_needs_mpirun(void **state) {
    (void)state;
    result r = finish(launch_command("./gradwire run -n 2 -- ./gradwire-mpi-worker"));
    assert_int_not_equal(r.code, 0);
    assert_non_null(strstr(r.err, "backend \"mpi\""));
    forget(r);
}

#define WITH(engine, what)                                                                         \
    static void engine##_##what(void **state) {                                                    \
        (void)state;                                                                               \
        what(&(engine));                                                                           \
    }

WITH(open_mpi, compute_the_same)
WITH(open_mpi, all_end_with_one)
WITH(open_mpi, jobs_do_not_mix)
WITH(open_mpi, connect_over_tcp)
WITH(open_mpi, a_wrapper_is_no_matter)
WITH(open_mpi, start_again)
WITH(mpich, compute_the_same)
WITH(mpich, all_end_with_one)
WITH(mpich, jobs_do_not_mix)
WITH(mpich, connect_over_tcp)
WITH(mpich, a_wrapper_is_no_matter)
WITH(mpich, start_again)

GW_TESTS(clusters_mpi, open_mpi_start_again, mpich_start_again, open_mpi_compute_the_same,
         open_mpi_all_end_with_one, open_mpi_jobs_do_not_mix, open_mpi_connect_over_tcp,
         open_mpi_a_wrapper_is_no_matter, mpich_compute_the_same, mpich_all_end_with_one,
         mpich_jobs_do_not_mix, mpich_connect_over_tcp, mpich_a_wrapper_is_no_matter,
         the_backend_gives_the_bits_of_sessions, the_backend_may_add_in_any_order,
         members_that_differ_continue_over_the_backend,
         an_abort_midway_ends_the_operation_in_the_backend,
         replicas_learn_the_same_over_the_backend, a_group_that_breaks_midway_blocks_no_process,
         a_loss_ends_the_others_of_the_backend, a_loss_before_mpi_has_begun_ends_the_others,
         the_backend_needs_mpirun);
