#include "runtime/runtime.h"

#include "agent/open.h"
#include "agent/settings/error_file.h"
#include "base/log.h"
#include "call/calls.h"
#include "checkpoint/writing.h"
#include "collective/group/groups_state.h"
#include "collective/p2p/transfers.h"
#include "collective/rpc/collective.h"
#include "distributed/autograd/graphs.h"
#include "distributed/nn/module_object.h"
#include "distributed/optim/optimizers.h"
#include "future/future.h"
#include "lend/lend.h"
#include "net/env_os.h"
#include "reference/references.h"
#include "runtime/tracing.h"

// The services of every agent, in the order in which they are opened, notified and ended. A new room adds
// its line here.
const service *const runtime_services[] = {
    &collective_service,  // before calls: a worker that is lost in a collective is lost, and has not given up (COL-3)
    &group_service,
    &point_to_point_service,
    &call_service,
    &future_service,
    &name_service,  // before references: a name is one
    &reference_service,
    &pass_service,
    &optimizer_service,
    &module_service,
    &checkpoint_service,
    &trace_service,
    &lend_service,  // after all that drop lent memory
    NULL,
};

void runtime_open_on(gw_scope *root, env *e, bool owns_env, gw_rpc_options options) {
    agent_open_on(root, e, owns_env, options, runtime_services, false);
}

static void try_open(gw_scope *root, gw_rpc_options options, bool lacks_state) {
    gw_error error;
    env *e;
    if (env_os_open(&e, &error)) {
        scope_fail_with(root, &error);
    } else {
        scope_enter(root);
        agent_open_on(root, e, true, options, runtime_services, lacks_state);
        scope_leave(root);
    }
}

// The member that has admitted this worker was lost before this worker was a member (JOIN-1).
static bool has_lost_admission(const gw_scope *root, const gw_rpc_options *o) {
    return o->job == GW_JOB_JOIN && root->error && root->error->status == GW_DISCONNECTED &&
           root->error->lost.how;
}

static void open_here(gw_scope *root, gw_rpc_options options, bool lacks_state) {
    if (root->error) return;
    if (root->agent) {
        scope_fail(root, GW_WRONG_STATE, "this scope has an agent already");
        return;
    }
    int64_t until_ns = deadline_after_ms(scope_now_ns(root), options.join_timeout_ms);
    try_open(root, options, lacks_state);
    while (has_lost_admission(root, &options)) {
        int64_t left_ns = until_ns - scope_now_ns(root);
        if (left_ns <= 0) return;
        if (until_ns != ENV_NEVER) options.join_timeout_ms = 1 + left_ns / 1000000;
        log_info("gw_rpc_init: %s; it joins again", root->error->text);
        gw_scope_clear(root);
        try_open(root, options, lacks_state);
        if (!root->error) error_file_withdraw();
    }
}

void runtime_open_elastic(gw_scope *root, gw_rpc_options options) {
    open_here(root, options, true);
    if (!root->error) tracing_begin(root);
}

void gw_rpc_init_with(gw_scope *root, gw_rpc_options options) {
    if (root->error) return;
    open_here(root, options, false);
    if (!root->error) tracing_begin(root);
    // At once: a program may do a lot before it reads its scope's error, or be ended by its launcher.
    if (root->error && !root->error->is_printed) {
        bool is_printed = log_error("gw_rpc_init: %s", root->error->text);
        if (scope_own_error(root)) root->error->is_printed = is_printed;
    }
}
