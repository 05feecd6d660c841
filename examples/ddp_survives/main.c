// Replicas that survive losses: members of a group are killed while they learn; the remaining members continue, and
// admit new members, which receive the current state.
//
//     ddp_survives                                  three members; two are killed, one after the other
//     ddp_survives --world-size 4 --losses 4
//     ddp_survives --losses 0                       the same without losses
//
// This program founds a job, starts its trainers (this program, started again), kills some of them, and starts
// replacements. It trains nothing itself: it has a board that trainers report to. The lines that a loss needs in a
// trainer: agree, reform and gw_ddp_reform, after a failed step; in a new trainer: gw_group_join and gw_ddp_reform.
// Under `gradwire run` use --on-failure=keep: by default the first failure ends all workers.
#include "board.h"
#include "trainer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { NOT_LEARNED = 3 };

// The running trainers: the ends of their processes, and their numbers.
static gw_future *ends[WORKERS_MAX];
static int numbers[WORKERS_MAX], running;

static void start_trainer(gw_scope *root, board *b, const char *url) {
    if (b->started == WORKERS_MAX) {
        gw_fail(root, GW_LIMIT, "%d trainers have been started: too many are lost", b->started);
        return;
    }
    const options *o = b->o;
    int number = ++b->started;
    const char *name = gw_format(root, "worker%d", number);
    const char *size = gw_format(root, "%d", (int)o->world_size);
    const char *epochs = gw_format(root, "%d", (int)o->epochs);
    const char *patience = gw_format(root, "%d", (int)o->patience);
    // clang-format off
    const char *const arguments[] = { "--join", url, "--number", name + strlen("worker"), "--world-size", size,
                                      "--epochs", epochs, "--patience", patience, "--losses", "0", NULL };
    // clang-format on
    b->workers[number].process = gw_process_start(root, name, arguments);
    ends[running] = gw_process_ended(b->workers[number].process);
    numbers[running++] = number;
}

static void start_all(gw_scope *root, gw_rref *me, const options *o, const char *url) {
    gw_scope *s = gw_scope_open(root);
    board *b = gw_local(s, me, board);
    if (b) b->o = o;
    for (int i = 0; i < o->world_size && gw_ok(s) && gw_ok(root); i++) start_trainer(root, b, url);
    gw_scope_close_up(s);
}

// A trainer has ended; if it was killed before the end, a replacement starts.
static void take_end(gw_scope *root, gw_rref *me, int number, int64_t code, const char *url) {
    gw_scope *s = gw_scope_open(root);
    board *b = gw_local(s, me, board);
    if (b) b->workers[number].process = NULL;
    if (b && code > 128) {
        printf("worker%d is lost after epoch %d\n", number, (int)b->epoch);
        b->lost++;
        if (number == 1 && !b->has_group)
            gw_fail(s, GW_DISCONNECTED, "worker1 is lost before it has founded the group");
        if (gw_ok(s) && !b->workers[number].has_finished) start_trainer(root, b, url);
        if (gw_ok(s)) board_consider(s, b);
    } else if (b && code) {
        gw_fail(s, GW_REMOTE, "worker%d ended with exit code %d", number, (int)code);
    }
    gw_scope_close_up(s);
}

static void supervise(gw_scope *root, gw_rref *me, const char *url) {
    while (running && gw_ok(root)) {
        int i = gw_wait_any(root, ends, running);
        if (i < 0) return;
        int64_t code = gw_int_of(root, gw_wait(root, ends[i]));
        int number = numbers[i];
        ends[i] = ends[--running];
        numbers[i] = numbers[running];
        take_end(root, me, number, code, url);
    }
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
    gw_rpc_init(root, .name = "board", .job = GW_JOB_CREATE, .init_method = url);
    gw_rref *me = board_start(root);
    if (gw_ok(root)) start_all(root, me, &o, url);
    if (gw_ok(root)) supervise(root, me, url);
    double accuracy = gw_ok(root) ? conclude(root, me, &o) : 0;
    if (gw_ok(root)) gw_rpc_shutdown(root);
    unlink(path);
    int failed = gw_exit_code(gw_scope_close(root));  // remaining trainers end with this program
    return failed || accuracy >= 0.97 ? failed : NOT_LEARNED;
}
