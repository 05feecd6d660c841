#include "tensor/update.h"

#include "tensor/device.h"

bool update_is_supported(const update_rule *r, const gw_tensor *x) {
    return device_find_update(x->device, r, (gw_dtype)x->dtype) != NULL;
}

static void *address(update_array a) {
    return a.block ? a.block->bytes + a.offset : NULL;
}

void update_on_device(const update_rule *r, const void *options, const update_run *run) {
    update u = {
        .x = address(run->x),
        .grad = address(run->grad),
        .new_x = address(run->new_x),
        .count = run->count,
        .step = run->step,
        .first = run->first,
        .rule = r,
    };
    for (int k = 0; k < UPDATE_STATES_MAX; k++) {
        u.state[k] = address(run->state[k]);
        u.new_state[k] = address(run->new_state[k]);
    }
    device_find_update(run->x.block->device, r, run->dtype)(options, &u);
}
