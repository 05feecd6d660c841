// Gates: a gate gets the gradients of some leaves before the commit of a pass, and answers with the gradients that
// replace them, such as the sums over the replicas of a model.
//
// Each pass that reaches a leaf of a gate calls the functions of the gate's class: before any node runs, with the
// leaves that the pass reaches; then once with the gradient of each of these leaves, after the program's hooks; and at
// the end of the pass. The gate answers once, perhaps later, with the gradients that replace those in the scope of the
// pass, also of leaves that the pass has not reached: a leaf without an answer has no gradient. The pass waits for the
// answer.
//
// A gate takes no part in a pass with inputs, in a pass in a scope that is not synchronised, and in a pass inside a
// hook of another pass. The gradients that a pass inside a hook leaves in the scope of the outer pass must be present
// when the gate gets gradients: so a pass with hooks holds its gradients until all other nodes have run.
//
// A gate may need its answers to stay separate from the gradients that passes of this worker alone leave, for example
// if the answer is a mean of gradients that only one worker keeps. Then later passes of that scope add their answers,
// and passes in that scope in which the gate takes no part fail.
//
// Ownership: the gate holds its leaves, and is a handle, which a pass and a scope retain. Threads:
// a leaf's gate changes while no pass runs; the functions of a class are called without the loop
// lock, by the thread that runs the pass.
#ifndef AUTOGRAD_GATE_H
#define AUTOGRAD_GATE_H

#include "autograd/hook.h"
#include "autograd/late.h"
#include "base/handle.h"
#include <gradwire/autograd.h>

typedef struct gate gate;

// One pass, as one gate sees it.
typedef struct gate_pass {
    gate *gate;           // one count
    gw_scope *scope;      // that gets the gradients
    const bool *reached;  // by leaf
    bool holds;           // gradients are passed on when all else has run
    bool adds;            // answers are added to the gradients of the scope
    late *answer;         // with one tensor for each leaf; the gate's count is one
    void *state;          // the gate's

    struct gate_pass *next;  // of the pass
    bool begun;
    late *answered;  // the pass's count on |answer|
} gate_pass;

typedef struct gate_class {
    const char *name;  // of its owner, for lines of the log
    // The pass is planned. A gate that refuses it fails |s|, and has nothing to end or to answer.
    void (*begin)(gate_pass *g, gw_scope *s);
    // Leaf |i|, which the pass reaches, has its gradient; NULL: none has arrived. Borrowed; its values
    // do not change. |s| owns tensors made of it until the function returns.
    void (*gradient)(gate_pass *g, gw_scope *s, int i, gw_tensor *gradient);
    // Of a pass that holds gradients: all have arrived, and no more passes run inside hooks. May be
    // NULL.
    void (*all_arrived)(gate_pass *g, gw_scope *s);
    // The pass has succeeded, or failed with |error|; then the answer is not awaited any more, and
    // the gate ends its work on other workers. The count on the answer stays the gate's.
    void (*end)(gate_pass *g, const gw_error *error);
    // A scope has failed in which gate_note was called, and no pass behind that has begun.
    void (*abandoned)(gate *g, const gw_error *error);
    // |numbers| become their sums over all workers that have such a gate. All of these call it,
    // also in a scope that has failed, so that none waits. May be NULL.
    void (*sum)(gate *g, gw_scope *s, double *numbers, int count);
} gate_class;

enum { GATE_SCOPES = 64 };

struct gate {
    gw_handle handle;
    const gate_class *class;
    gw_tensor **leaves;
    int leaf_count;
    const bool *gives_away;  // by leaf: other workers keep its gradient. NULL: none
    gw_tensor *
        *ranges;  // by leaf, counted: of which this worker keeps the gradient, in place of the
                  // leaf's; NULL: of the leaf. NULL: all
    _Atomic bool has_inside;  // a pass inside a hook has reached a leaf
    uint64_t visit;           // the last visit
    _Atomic bool has_warned;  // that its answers are not used
    _Atomic bool overlaps;    // no pass holds gradients; one inside a hook fails
    bool fails_once;          // a scope that has failed is reported to it once; set with the class

    // The ids of the last scopes that have an answer which is to stay apart, by their number modulo
    // GATE_SCOPES; 0: none. With the loop lock.
    uint64_t answered[GATE_SCOPES];
    _Atomic unsigned answered_count;
};

// Sets the gate of its leaves: all or none. Fails |s| with DUPLICATE if one has a gate, or without
// memory.
bool gate_set(gw_scope *s, gate *g);
void gate_unset(gate *g);

// From here on other workers keep the gradients of the leaves that are true in |gives_away|, NULL: none, and of
// those that have |ranges|, but of these ranges. Both are by leaf, and live as long as |g|. A range is a leaf of
// that gate for gate_of. False without memory, with nothing changed; never with NULL.
bool gate_share(gate *g, const bool *gives_away, gw_tensor **ranges);

// The gradient of leaf |i| that the scope of the pass has from earlier passes; borrowed, or NULL.
gw_tensor *gate_earlier(const gate_pass *g, int i);

// From here on the gradients that |s| has of the leaves are kept apart from those that passes leave that are
// not the gate's. No scope has them behind gate_forget_answers.
void gate_note_answer(gate *g, const gw_scope *s);
bool gate_has_answered(gate *g, const gw_scope *s);
void gate_forget_answers_on_loop(gate *g);

// The gradients that |answers|, one for each leaf, leave in a scope, or, with |adds|, add there: at most
// twice as many as leaves, with one count each. Where NULL is one of them, the scope has none any more.
int gate_list_answers(const gate *g, gw_tensor *const *answers, bool adds, gw_tensor_grad *out);

// Notes that |g| expects a pass over tensors of |s|: if |s| fails before, or has failed, |g| gets the error. A scope
// that has failed notes it in the outermost scope that has.
void gate_note(gw_scope *s, gate *g);
// Whether that is noted in |s|, or in a scope around it, and has not been reported.
bool gate_is_noted(const gw_scope *s, const gate *g);
void gate_forget_note(gw_scope *s, const gate *g);
// Reports the error to the gates that are noted in |failed| and in the scopes around it.
void gates_report_failure(gw_scope *failed);
// Reports the error of |failed| to |g|, noted or not.
void gate_report_failure(gw_scope *failed, gate *g);

// The tensor of which a scope has the gradient of |x| that this worker keeps: a range of |x|, or |x|.
const gw_tensor *gate_kept_of(const gw_tensor *x);

// For walks over leaves that do something once for each gate: whether |visit| is at it for the first
// time. One thread at a time visits a gate, as with steps.
uint64_t gates_begin_visit(void);
static inline bool gate_visit(gate *g, uint64_t visit) {
    bool is_first = g->visit != visit;
    g->visit = visit;
    return is_first;
}

// ---- For passes -----------------------------------------------------------------------------------

// Finds the gates of a plan, to be freed by gates_close.
bool gates_find(struct pass *p);
bool gates_begin(struct pass *p);
bool gates_pass_gradient(struct pass *p, gw_tensor *leaf, gw_tensor *gradient);
bool gates_all_arrived(struct pass *p);                 // of a pass that holds them
void gates_end(struct pass *p, const gw_error *error);  // NULL: it has succeeded
void gates_close(struct pass *p);

#endif
