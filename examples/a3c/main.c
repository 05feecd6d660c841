// Asynchronous advantage actor-critic: workers that each play in environments of their own, and a
// parameter server.
//
// The server keeps the weights and the optimizer. Each worker plays some steps with the weights it has, computes
// gradients of its own loss and pushes them to the server. The server takes a step with them at once and returns the
// new weights. No worker waits for another worker. Mnih et al., "Asynchronous Methods for Deep Reinforcement Learning",
// 2016.
//
//     a3c                                         CartPole-v1; makes its own four processes
//     a3c --task pendulum --runs 5                five times, with the mean of the scores
//     gradwire run -n 9 -- a3c                    a server, eight workers
//
// The lines that communicate: 7 (init, the server's object, learn and the wait for it, pull, push,
// shutdown). Everything else would be the same in one process.
#include "rollout.h"
#include "server.h"

#include "../common/workers.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The workers learn until the server has taken the last step.
static void learn(gw_scope *s, gw_rref *me, const options *o, int64_t seed) {
    const task *t = &o->task;
    const gw_call_options patient = GW_OPTIONS(gw_call_options, .timeout_ms = GW_NO_TIMEOUT);
    int workers = gw_rpc_world_size(s) - 1;
    gw_future **ends = gw_alloc(s, (size_t)workers * sizeof *ends);
    for (int i = 0; i < workers && gw_ok(s); i++)
        ends[i] = gw_rpc_async_with(s, gw_to(i + 1), "learn",
                                    GW_ARGS(me, t->name, seed * 1000 + i, t->environments,
                                            t->rollout, t->gamma, t->lambda, t->entropy),
                                    patient);
    if (gw_ok(s)) gw_wait_all(s, ends, workers);
}

static void print_stats(gw_scope *s, gw_rpc_stats before, int64_t updates) {
    gw_rpc_stats now = gw_rpc_get_stats(s);
    double n = updates ? (double)updates : 1;
    printf(
        "%lld updates; an update: %.2f messages, %.1f kB; %llu reconnects\n", (long long)updates,
        (double)(now.messages_sent + now.messages_received - before.messages_sent -
                 before.messages_received) /
            n,
        (double)(now.bytes_sent + now.bytes_received - before.bytes_sent - before.bytes_received) /
            n / 1e3,
        (unsigned long long)(now.reconnects - before.reconnects));
}

// Returns the score of the learnt policy.
static double run_once(gw_scope *root, const options *o, int64_t seed) {
    gw_scope *s = gw_scope_open(root);
    gw_scope_label(s, "seed %d", (int)seed);
    gw_seed(s, (uint64_t)seed);
    curve progress;
    curve_open(&progress, stdout,
               (curve_options){ .title = "mean score of the last 100 episodes",
                                .x_label = "update",
                                .goal = o->task.goal });
    gw_rpc_stats before = gw_rpc_get_stats(s);
    double since_s = now_s(), score = 0;
    gw_rref *me = gw_remote(s, 0, "server");
    server *self = gw_local(s, me, server);
    if (self) {
        gw_seed(self->own, (uint64_t)seed);
        server_begin(self, o, &progress);
        learn(s, me, o, seed);
        double seconds = now_s() - since_s;
        if (gw_ok(s) && o->stats) print_stats(s, before, self->updates);
        gw_seed(s, (uint64_t)seed);
        score = player_evaluate(s, &o->task, self->policy, (int)o->evaluate);
        if (gw_ok(s))
            printf("seed %lld: %lld steps, score %.1f over %d new episodes, %.1f s\n",
                   (long long)seed, (long long)self->steps, score, (int)o->evaluate, seconds);
    }
    if (gw_ok(s) && o->plot && !curve_plot(&progress, o->plot))
        gw_fail(s, GW_SYSTEM, "%s: %s", o->plot, strerror(errno));
    curve_close(&progress);
    gw_scope_close_up(s);
    return score;
}

static void run_all(gw_scope *root, const options *o) {
    double sum = 0, squares = 0;
    for (int64_t run = 0; run < o->runs && gw_ok(root); run++) {
        double score = run_once(root, o, o->seed + run);
        sum += score;
        squares += score * score;
    }
    double n = (double)o->runs, mean = sum / n, variance = squares / n - mean * mean;
    if (gw_ok(root) && o->runs > 1)
        printf("%s over %d seeds: %.1f +- %.1f\n", o->task.name, (int)n, mean,
               sqrt(variance > 0 ? variance : 0));
}

// Runs one worker. |init_method| is NULL under a launcher.
static int run_worker(const char *init_method, void *context) {
    const options *o = context;
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root, .init_method = init_method);
    if (gw_ok(root) && gw_rpc_world_size(root) < 2)
        gw_fail(root, GW_INVALID, "this program is for two processes or more");
    if (gw_ok(root) && gw_rpc_self(root).rank == 0) run_all(root, o);
    gw_rpc_shutdown(root);  // workers serve until the server is done
    return gw_exit_code(gw_scope_close(root));
}

int main(int argc, char **argv) {
    options o;
    int code = options_parse(argc, argv, &o);
    if (code >= 0) return code;
    if (gw_rpc_launched().rank >= 0) return run_worker(NULL, &o);
    return workers_run((int)o.workers + 1, run_worker, &o);
}
