// Late answers: another thread or worker computes the result of a node or a gate while the pass runs other ready nodes.
//
// A late is counted twice: by its pass, and by the answerer, which answers exactly once, on any thread. An answer that
// arrives after the end of the pass is dropped. Sums follow the order of the plan of the pass, so the order of answers
// changes no bits.
#ifndef AUTOGRAD_LATE_H
#define AUTOGRAD_LATE_H

#include "base/env.h"
#include "tensor/tensor.h"

#include <stdatomic.h>

struct pass;
struct gate_pass;

typedef struct late {
    _Atomic uint32_t count;
    env *env;
    uint32_t target;         // of the pass, if a node answers
    struct gate_pass *gate;  // else NULL

    // with the loop lock
    struct pass *pass;  // NULL: it is over
    list_node link;     // among the answers of |pass| that it has not taken
    list_node sibling;  // among all lates of |pass|

    // the answer
    gw_error error;  // its status is GW_OK without one
    uint32_t tensor_count;
    gw_tensor *tensors[];  // counted; NULL: no gradient
} late;

// Of |p|, which takes the second count. NULL with the scope of |p| failed.
late *late_open(struct pass *p, uint32_t tensor_count);
void late_release(late *l);

// Answers by |tensors|, as many as given to late_open, which are borrowed. Takes the answerer's
// count. Without the loop lock, as late_fail.
void late_answer(late *l, gw_tensor *const *tensors);
void late_fail(late *l, const gw_error *error);

// The table through which a pass in one process waits for answers; a room above fills it.
typedef struct late_waiting {
    bool (*check)(gw_scope *s);    // whether a thread may wait in |s|; else |s| has failed
    void (*wait)(struct pass *p);  // until an answer has arrived, or the scope of |p| has failed
} late_waiting;

#endif
