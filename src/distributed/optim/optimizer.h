// An optimizer's part on other workers, as the worker sees it that made it. docs/PROTOCOL.md, "Optimizers", is the
// specification.
//
// Ownership: the optimizer has it; it holds a reference to an object of class gw.optimizer on each owner. Threads: as the
// optimizer.
#ifndef DISTRIBUTED_OPTIM_OPTIMIZER_H
#define DISTRIBUTED_OPTIM_OPTIMIZER_H

#include "optim/upward.h"
#include "agent/context.h"
#include "agent/upward.h"
#include <gradwire/ref.h>

typedef struct owner {
    gw_rref *object;  // one count
    int rank;
} owner;

struct elsewhere {
    uint64_t id;  // of the optimizer, in the job
    owner *owners;
    int owner_count;
    int *owner_of;  // by a parameter's number; -1: it is here
    int number_count;
    uint64_t ticket;  // of the last step that was tried
    double *told;     // the options that all owners have
    int told_count;   // 0: not known
};

// A scope for calls that are made as if in |s|: it has the gradients' id. Its errors are its own until it is merged.
gw_scope *calls_open(gw_scope *s);

// Whether |s| may wait; else fails it.
bool calls_may_wait(gw_scope *s, const char *what);

// The options of all groups, in the order of the rule's table.
int options_count(const gw_optimizer *o);
void options_write(const gw_optimizer *o, double *out);

extern const function optimizer_functions[], clipping_functions[];

#endif
