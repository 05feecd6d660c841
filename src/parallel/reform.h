// gw_ddp_reform for the rooms above this one.
#ifndef PARALLEL_REFORM_H
#define PARALLEL_REFORM_H

#include <gradwire/ddp.h>

// gw_ddp_reform. A member that |lacks_state| is behind all that do not, whatever its counts are; not all members may.
void reform_replicas(gw_scope *s, gw_ddp *ddp, gw_optimizer *opt, gw_group *group,
                     bool lacks_state);

#endif
