// Making a plan of the kind that is requested or chosen.
#include "collective/plan/plan_build.h"

#include "base/mem.h"
#include "base/status.h"

#include <assert.h>

gw_status plan_init(plan *p, const plan_request *request, gw_error *error) {
    plan_kind kind = request->choice.kind;
    bool meets = kind == PLAN_BACKEND || kind == PLAN_BACKEND_ADDS;
    assert(meets || plan_exists(request->operation, kind));
    assert(request->rank >= 0 && request->rank < request->member_count);
    assert(request->root >= 0 && request->root < request->member_count);
    *p = (plan){ .kind = kind };
    plan_builder b = { .plan = p, .request = request };
    switch (kind) {
    case PLAN_DIRECT:
    case PLAN_STAR: plan_direct(&b); break;
    case PLAN_DOUBLING: plan_doubling(&b); break;
    case PLAN_TREE: plan_tree(&b); break;
    case PLAN_CHAIN: plan_chain(&b); break;
    case PLAN_HALVING: plan_halving(&b); break;
    case PLAN_HOSTS: plan_hosts(&b); break;
    case PLAN_BACKEND:
    case PLAN_BACKEND_ADDS: plan_barrier(&b); break;
    default: plan_flat(&b);
    }
    if (!b.is_out_of_memory) return GW_OK;
    return error_set(error, GW_NO_MEMORY, "%s: out of memory for a plan of %d members",
                     operation_name(request->operation), request->member_count);
}

void plan_fini(plan *p) {
    mem_free(p->steps);
    mem_free(p->inputs);
    mem_free(p->outputs);
    *p = (plan){ 0 };
}
