// Replicas that survive: members of a group are killed while they learn, the others go on without
// them, and let in new ones, which are brought up to date.
//
//     ddp_survives                                  three members; two are killed, one after the other
//     ddp_survives --world-size 4 --losses 4
//     ddp_survives --losses 0                       the same without losses
//
// This program founds a job, starts its trainers (this program, started again), kills some of them,
// and starts others in the place of those that die. It learns nothing itself: it has a board that
// trainers report to. What a loss asks of a trainer: agree, reform and gw_ddp_reform, behind a step
// that has failed; of a new one: gw_group_knock and gw_ddp_reform.
// Under `gradwire run` workers that are to go on need its --on-failure=keep: the first failure ends all otherwise.
#include "board.h"
#include "trainer.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOT_LEARNED = 3 };

static void be_trainer(const options *o, const char *url, int number) {
    char texts[4][24];
    const int64_t values[] = { number, o->world_size, o->epochs, o->patience };
    for (int i = 0; i < 4; i++) snprintf(texts[i], sizeof texts[i], "%lld", (long long)values[i]);
    execl("/proc/self/exe", "ddp_survives", "--join", url, "--number", texts[0], "--world-size",
          texts[1], "--epochs", texts[2], "--patience", texts[3], "--losses", "0", (char *)NULL);
}

static void start_trainer(gw_scope *s, board *b, const char *url) {
    if (b->started == WORKERS_MAX) {
        gw_fail(s, GW_LIMIT, "%d trainers have been started: too many are lost", b->started);
        return;
    }
    int number = b->started + 1;
    fflush(NULL);
    pid_t parent = getpid(), pid = fork();
    if (pid < 0) gw_fail(s, GW_SYSTEM, "fork: %s", strerror(errno));
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);  // nobody stays behind if this program is killed
        if (getppid() == parent) be_trainer(b->o, url, number);
        _exit(127);
    }
    if (pid > 0) b->workers[b->started = number].pid = pid;
}

static void start_all(gw_scope *root, gw_rref *me, const options *o, const char *url) {
    gw_scope *s = gw_scope_open(root);
    board *b = gw_local(s, me, board);
    if (b) b->o = o;
    for (int i = 0; i < o->world_size && gw_ok(s); i++) start_trainer(s, b, url);
    gw_scope_close_up(s);
}

// A trainer has ended; if it was killed before the end, another one comes.
static void reap(gw_scope *root, gw_rref *me, pid_t pid, const char *url) {
    gw_scope *s = gw_scope_open(root);
    board *b = gw_local(s, me, board);
    int status, number = 1;
    while (b && number <= b->started && b->workers[number].pid != pid) number++;
    // Only now, in the board's turn, may the pid be another process's.
    if (b && number <= b->started && waitpid(pid, &status, 0) == pid) {
        b->workers[number].pid = 0;
        if (WIFSIGNALED(status)) {
            printf("worker%d is lost after epoch %d\n", number, (int)b->epoch);
            b->lost++;
            // Before there is a group to go on in, and anything learnt.
            if (!b->epoch)
                gw_fail(s, GW_DISCONNECTED, "worker%d is lost before the first epoch is over",
                        number);
            if (gw_ok(s) && !b->workers[number].has_finished) start_trainer(s, b, url);
            if (gw_ok(s)) board_consider(s, b);
        } else if (WEXITSTATUS(status)) {
            gw_fail(s, GW_REMOTE, "worker%d ended with exit code %d", number, WEXITSTATUS(status));
        }
    }
    gw_scope_close_up(s);
}

static double conclude(gw_scope *root, gw_rref *me, const options *o) {
    gw_scope *s = gw_scope_open(root);
    board *b = gw_local(s, me, board);
    if (b) board_conclude(s, b);
    double accuracy = b ? b->accuracy : 0;
    if (gw_ok(s) && o->plot && !curve_plot(&b->progress, o->plot))
        gw_fail(s, GW_SYSTEM, "%s: %s", o->plot, strerror(errno));
    gw_scope_close_up(s);
    return accuracy;
}

int main(int argc, char **argv) {
    options o;
    int code = options_parse(argc, argv, &o);
    if (code >= 0) return code;
    if (o.join) return trainer_run(&o);

    setvbuf(stdout, NULL, _IOLBF, 0);
    char path[64], url[80];
    snprintf(path, sizeof path, "/tmp/gradwire-survives-%d", (int)getpid());
    snprintf(url, sizeof url, "file://%s", path);
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root, .name = "board", .group = GW_GROUP_CREATE, .init_method = url);
    gw_rref *me = board_start(root);
    if (gw_ok(root)) start_all(root, me, &o, url);
    siginfo_t ended;
    while (gw_ok(root) && waitid(P_ALL, 0, &ended, WEXITED | WNOWAIT) == 0)
        reap(root, me, ended.si_pid, url);
    double accuracy = gw_ok(root) ? conclude(root, me, &o) : 0;
    if (gw_ok(root)) gw_rpc_shutdown(root);
    unlink(path);
    int failed =
        gw_exit_code(gw_scope_close(root));  // trainers that are left end with this program
    return failed || accuracy >= 0.97 ? failed : NOT_LEARNED;
}
