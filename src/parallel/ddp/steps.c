// Steps of the program: the mark of a pass's sequence contains its step and its number in the step, so that members that
// make different numbers of passes in a step fail, and do not add gradients of different steps.
#include "base/mutation.h"
#include "collective/group/group.h"
#include "parallel/ddp/ddp.h"
#include <gradwire/scope.h>

#include <inttypes.h>

void steps_begin(gw_ddp *d, int64_t number) {
    env_enter(d->agent->env);
    d->step = (ddp_step){ .is_known = true, number, d->stats.passes };
    env_leave(d->agent->env);
}

int64_t steps_passes(const gw_ddp *d) {
    env_enter(d->agent->env);
    int64_t count = d->stats.passes - d->step.passes_before;
    env_leave(d->agent->env);
    return count;
}

void steps_close(gw_ddp *d, const gw_error *error) {
    if (d->stats.world_size > 1) d->gate.class->abandoned(&d->gate, error);
}

void steps_end(gw_ddp *d, const gw_error *error) {
    if (agent_is_closed(d->agent)) return;
    env_enter(d->agent->env);
    group_break_all_on_loop(d->group, error);
    env_leave(d->agent->env);
}

static int64_t place_of(const ddp_pass *r) {
    return r->number - r->step.passes_before;
}

uint64_t steps_mark(const ddp_pass *r) {
    if (!r->step.is_known || has_mutation(MUTATION_STEP_NOT_MARKED)) return 0;
    return hash_u64(hash_u64((uint64_t)r->step.number) + (uint64_t)place_of(r));
}

const char *steps_text(gw_scope *s, const ddp_pass *r) {
    if (!r->step.is_known) return NULL;
    return gw_format(s, "pass %" PRId64 " in step %" PRId64, place_of(r), r->step.number);
}
