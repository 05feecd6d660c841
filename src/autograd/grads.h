// The gradients that passes have added to a scope, by their tensor.
#ifndef AUTOGRAD_GRADS_H
#define AUTOGRAD_GRADS_H

#include "tensor/tensor.h"
#include <gradwire/autograd.h>

struct gate;

// The table through which a scope imports the accumulated gradients of another worker's passes.
typedef struct remote_grads {
    // Gives |s|, the scope of a body, the gradients that passes of its caller have left on this
    // worker, by grads_add_imported; nothing if there are none, or |s| is no such scope.
    void (*import)(gw_scope *s);
    // Whether |s| is the scope of a call whose caller has made a pass in its own scope: that one counts,
    // also on a worker that took no part in it.
    bool (*has_pass)(const gw_scope *s);
} remote_grads;

// The gradient of |x| in |s|, borrowed until the next pass or change; NULL if there is none.
gw_tensor *grads_find(const gw_scope *s, const gw_tensor *x);

// Gate |i| of those that have answered passes of |s|, also in a scope that has failed, and if this worker keeps no
// gradient; borrowed. NULL behind the last one.
struct gate *grads_answered(const gw_scope *s, int i);

// Adds |more[i].grad| (of the shape and dtype of |more[i].leaf|; contiguous, or sparse by rows) to
// the gradient of each leaf in |s|; or none of them, and |work|, in which the sums are computed, is
// failed. Takes one count on each grad in either case. No leaf is listed twice.
bool grads_add(gw_scope *s, gw_scope *work, gw_tensor_grad *more, int count);
// The same, but those from |replaces| on replace the gradients of |s|: it has none any more where
// that is NULL.
bool grads_add_and_replace(gw_scope *s, gw_scope *work, gw_tensor_grad *more, int count,
                           int replaces);
// The same for accumulated gradients of a caller's passes; they are not imported again.
bool grads_add_imported(gw_scope *s, gw_scope *work, gw_tensor_grad *more, int count, int replaces);

// From here on a pass counts as made in |s|, also if it has left nothing. False without memory.
bool grads_note_pass(gw_scope *s);
// If |s| is closed before an answer of |of| was read, a warning is logged, once for each gate.
void grads_expect_reader(gw_scope *s, struct gate *of);
// For functions that use gradients of |s|: fails |s| unless a pass was made there. |left| is
// left_latest of the parameters, see autograd/left.h.
bool grads_check_pass(gw_scope *s, const char *function, uint32_t left);
// Behind it, if |s| has no gradient of any of the parameters: fails |s| if one that was left in another
// scope is missed.
bool grads_check_missed(gw_scope *s, const char *function, uint32_t left);
// A step has used the gradient of |leaf| in |s|.
void grads_note_used(const gw_scope *s, gw_tensor *leaf);
// In the checked mode, at the end of a pass whose scope is |s|.
void grads_check_all_read(const gw_scope *s);

// Replaces the gradient of |leaf| by |grad|. Takes the caller's count; cannot fail.
void grads_replace(gw_scope *s, const gw_tensor *leaf, gw_tensor *grad);

// From here on |s| has no gradient of |leaf|.
void grads_forget(gw_scope *s, gw_tensor *leaf);

#endif
