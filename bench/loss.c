// A member is killed while the others wait for it in a collective: measures the time until the last of them has the
// error.
#include "bench.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MEMBERS = 4, JOBS = 20, WAIT_US = 20000 };

// Shared by the processes of a job.
typedef struct job_times {
    double killed_us, noticed_us[MEMBERS];
} job_times;

static void work(int rank, const char *file, job_times *times) {
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root, .name = gw_format(root, "w%d", rank), .rank = rank, .world_size = MEMBERS,
                .init_method = gw_format(root, "file://%s", file));
    gw_group *g = gw_group_world(root);
    gw_barrier(root, g);
    if (rank == MEMBERS - 1 && gw_ok(root)) {
        usleep(WAIT_US);  // the others have entered, and sleep
        times->killed_us = now_us();
        kill(getpid(), SIGKILL);
    }
    gw_all_reduce(root, g, gw_ones(root, GW_F32, 1024), GW_SUM);
    if (gw_scope_error(root)->status == GW_DISCONNECTED) times->noticed_us[rank] = now_us();
    _exit(0);  // a shutdown would wait for the killed member
}

static bool run_job(job_times *times) {
    char file[] = "/tmp/gw-bench-XXXXXX";
    int fd = mkstemp(file);
    if (fd < 0) return false;
    close(fd);
    bool all_began = true;
    for (int rank = 0; rank < MEMBERS && all_began; rank++) {
        pid_t pid = fork();
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (!freopen("/dev/null", "w", stderr))
                _exit(1);  // hides the expected messages about the loss
            work(rank, file, times);
        }
        all_began = pid > 0;
    }
    while (wait(NULL) > 0) continue;
    unlink(file);
    for (int i = 0; i < MEMBERS - 1; i++) all_began = all_began && times->noticed_us[i] > 0;
    return all_began && times->killed_us > 0;
}

static void loss_noticed(gw_scope *root, samples *out) {
    job_times *times =
        mmap(NULL, sizeof *times, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (times == MAP_FAILED) {
        gw_fail(root, GW_NO_MEMORY, "no shared memory");
        return;
    }
    for (int i = 0; i < JOBS && gw_ok(root); i++) {
        *times = (job_times){ 0 };
        if (!run_job(times)) {
            gw_fail(root, GW_REMOTE, "a member has no error after the loss");
            break;
        }
        double last_us = 0;
        for (int k = 0; k < MEMBERS - 1; k++)
            if (times->noticed_us[k] > last_us) last_us = times->noticed_us[k];
        samples_add(out, last_us - times->killed_us);
    }
    munmap(times, sizeof *times);
}

const bench_case loss_cases[] = { { "collective.loss_noticed_n4", 0, loss_noticed }, { 0 } };
