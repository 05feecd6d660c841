// The part of an optimizer whose parameters other workers own: what the optimizer asks of it. A
// room above this one makes and runs it; the scope of the call knows the table (scope_remote of
// base/scope.h), and the part itself, too.
#ifndef OPTIM_REMOTE_PART_H
#define OPTIM_REMOTE_PART_H

#include "optim/optimizer.h"

typedef struct remote_part_class {
    // Whether |r| names a value of this worker, which is written to |out|; fails |s| if it has
    // none.
    bool (*is_here)(gw_scope *s, gw_rref *r, gw_value *out);

    // Makes |g| the next group of |o| on the owners of |refs|, too, whose parameters have
    // |numbers|. All of them, or false with |s| failed. The first time this makes the remote part
    // of |o|.
    bool (*add_group)(gw_scope *s, gw_optimizer *o, const optimizer_group *g, const gw_value *refs,
                      const int *numbers, int count);
    void (*close)(remote_part *part);

    // Of an optimizer that has a remote part: a step here and there.
    void (*step)(gw_scope *s, gw_optimizer *o);

    // Adds the values of the remote part to |map|; takes over a map, here and there, or nowhere
    // with |s| failed.
    void (*write)(gw_scope *s, const gw_optimizer *o, gw_map *map);
    void (*load)(gw_scope *s, gw_optimizer *o, gw_map *map);

    // Of all references in |params| to parameters of other workers: the sum of the squares of their
    // gradients in |s|; and these times |by|.
    double (*squares)(gw_scope *s, const gw_list *params);
    void (*scale)(gw_scope *s, const gw_list *params, double by);
} remote_part_class;

struct remote_part {
    const remote_part_class *class;
};

// The table of the job that |s| takes part in; NULL with |s| failed if there is none, so that
// references lead nowhere.
const remote_part_class *remote_parts_of(gw_scope *s);

#endif
