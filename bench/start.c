// A whole job: two processes start, join, one calls the other, both leave and end.
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

GW_FUNCTION(bench_hello, GW_INLINE, "") {
    (void)s;
    (void)a;
    return gw_none();
}

static int work(int rank, const char *file) {
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root, .name = gw_format(root, "w%d", rank), .rank = rank, .world_size = 2,
                .init_method = gw_format(root, "file://%s", file));
    if (rank == 0) gw_rpc_sync(root, "w1", "bench_hello");
    gw_rpc_shutdown(root);
    return gw_exit_code(gw_scope_close(root));
}

static bool run_job(void) {
    char file[] = "/tmp/gw-bench-XXXXXX";
    int fd = mkstemp(file), failed = fd < 0;
    if (!failed) close(fd);
    for (int rank = 0; rank < 2 && !failed; rank++) {
        pid_t pid = fork();
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            _exit(work(rank, file));
        }
        failed = pid < 0;
    }
    for (int status; wait(&status) > 0;) failed |= status;
    unlink(file);
    return !failed;
}

static void start(gw_scope *root, samples *out) {
    for (int i = 0; i < 20 && gw_ok(root); i++) {
        double begin = now_us();
        if (!run_job()) gw_fail(root, GW_REMOTE, "a job has failed");
        if (i > 1) samples_add(out, now_us() - begin);
    }
}

const bench_case start_cases[] = { { "start", 0, start }, { 0 } };
