// The remote part of an optimizer, whose parameters, or whose state, other workers have: the table
// through which the optimizer uses it. The distributed room fills one for parameters, which the scope
// of a call has (scope_remote of base/scope.h), and the part itself, too; the parallel room one for
// state.
#ifndef OPTIM_REMOTE_PART_H
#define OPTIM_REMOTE_PART_H

#include "optim/optimizer.h"

typedef struct remote_part_class {
    // "sharded". Its address identifies the class, so that files below the functions of the class recognise a part.
    const char *kind;

    // Whether |r| names a value of this worker, which it writes to |out|. Fails |s| if there is no
    // value.
    bool (*is_here)(gw_scope *s, gw_rref *r, gw_value *out);

    // Adds the group |g| on the owners of |refs|, whose parameters have |numbers|. On all of them,
    // or false with |s| failed. The first call makes the remote part of |o|. There may be none.
    bool (*add_group)(gw_scope *s, gw_optimizer *o, const optimizer_group *g, const gw_value *refs,
                      const int *numbers, int count);
    void (*close)(remote_part *part);

    // A step of an optimizer with a remote part, on this worker and on all owners.
    void (*step)(gw_scope *s, gw_optimizer *o);

    // A step in a scope that has failed, which does nothing: notifies those that wait for this worker.
    // May be NULL.
    void (*refused)(gw_scope *s, gw_optimizer *o);

    // Adds the state of the remote part to |map|; loads a map on this worker and all owners, or on
    // none with |s| failed. Called also in a scope that has failed.
    void (*write)(gw_scope *s, const gw_optimizer *o, gw_map *map);
    void (*load)(gw_scope *s, gw_optimizer *o, gw_map *map);

    // For the gradients in |s| of all references in |params| to other workers' parameters: sums
    // their squares; multiplies them by |by|.
    double (*squares)(gw_scope *s, const gw_list *params);
    void (*scale)(gw_scope *s, const gw_list *params, double by);

    // Multiplies the gradients in |s| of the remote parameters of |o| by |by|. Returns whether one
    // was not finite, of these or, if |not_finite|, of those that are here; of a sharded
    // optimizer, on any member.
    bool (*unscale)(gw_scope *s, const gw_optimizer *o, double by, bool not_finite);
} remote_part_class;

struct remote_part {
    const remote_part_class *class;
};

// The table that the scope |s| has. NULL with |s| failed if |s| has no agent, so that a reference
// cannot be used.
const remote_part_class *remote_parts_of(gw_scope *s);

#endif
