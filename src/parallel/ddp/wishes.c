// Wishes of members that travel with gradients: one number of the bucket that also carries buffers, 1 if a member wants
// something, else 0. So all members know of a wish behind the same pass, without a message more.
#include "parallel/ddp/ddp.h"
#include <gradwire/ops.h>

void wishes_open(gw_ddp *d) {
    d->wishes.travel = true;
}

bool wishes_are_carried(const gw_ddp *d) {
    return d->wishes.travel && !d->hook && d->layout->rider >= 0;
}

void wishes_set_own(gw_ddp *d, bool wants) {
    atomic_store(&d->wishes.own, wants);
}

bool wishes_of_some(const gw_ddp *d) {
    return atomic_load(&d->wishes.some);
}

void wishes_forget(gw_ddp *d) {
    atomic_store(&d->wishes.some, false);
}

int64_t wishes_count(const ddp_pass *r, int b) {
    return r->ddp->wishes.travel && !r->ddp->hook && b == r->layout->rider;
}

gw_tensor *wishes_pack(gw_scope *s, const ddp_pass *r, gw_dtype dtype) {
    int64_t one = 1;
    double own = atomic_load(&r->ddp->wishes.own) ? 1 : 0;
    return gw_full_with(s, dtype, gw_value_of(own), (gw_shape){ 1, &one });
}

// A mean of ones and zeros is 0 only if all are.
void wishes_unpack(gw_scope *s, ddp_pass *r, gw_tensor *sum) {
    if (gw_item(s, sum) > 0) atomic_store(&r->ddp->wishes.some, true);
}
