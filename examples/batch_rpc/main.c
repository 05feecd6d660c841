// Calls that are answered together: a function that returns a future answers later, and no thread waits for it.
//
//     batch_rpc                                        a parameter server and four trainers
//     batch_rpc --form agent                           an agent and four observers
//     gradwire run -n 9 -- batch_rpc --form agent
//
// The lines that communicate: 9 in server.c (the server's object, "train" on all trainers,
// fetch_model, update_and_fetch_model, three for the promise: opened, set, failed, and two for the
// loss of a trainer), 11 in agent.c (observers, the agent, "play" and the wait for it, five for the
// promise: opened twice, followed by one's own action, set, failed, and two for the loss of an
// observer), one in observer.c, and here init and shutdown.
#include "../common/workers.h"
#include "learners.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NOT_LEARNED = 3 };

static int learn(gw_scope *root, const options *o) {
    curve progress;
    curve_open(&progress, stdout, (curve_options){ 0 });
    bool learned = strcmp(o->form, "agent") == 0 ? agent_learn(root, o, &progress)
                                                 : server_learn(root, o, &progress);
    if (gw_ok(root) && o->plot && !curve_plot(&progress, o->plot))
        gw_fail(root, GW_SYSTEM, "%s: %s", o->plot, strerror(errno));
    curve_close(&progress);
    return learned ? 0 : NOT_LEARNED;
}

// Runs one worker. |init_method| is NULL under a launcher.
static int run_worker(const char *init_method, void *context) {
    const options *o = context;
    bool is_first = gw_rpc_launched().rank == 0;
    gw_scope *root = gw_scope_open(NULL);
    gw_seed(root, (uint64_t)o->seed);
    gw_rpc_init(root, .init_method = init_method);
    if (gw_ok(root) && gw_rpc_world_size(root) < 2)
        gw_fail(root, GW_INVALID, "this takes at least two workers: gradwire run -n 2 -- ...");
    int outcome = is_first && gw_ok(root) ? learn(root, o) : 0;
    gw_rpc_shutdown(root);  // the other workers serve until worker 0 is done
    int failed = gw_exit_code(gw_scope_close(root));
    return failed ? failed : outcome;
}

int main(int argc, char **argv) {
    options o;
    int code = options_parse(argc, argv, &o);
    if (code >= 0) return code;
    if (gw_rpc_launched().rank >= 0) return run_worker(NULL, &o);
    return workers_run((int)o.world_size, run_worker, &o);
}
