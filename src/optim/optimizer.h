// Shared by the files of this room: optimizers, each with a rule, groups of parameters, and a step in two phases.
//
// optimizer_prepare computes the new values of all parameters into separate blocks; afterwards, optimizer_commit puts
// these values in place and cannot fail, or optimizer_abort drops them. A step over several workers prepares on every
// owner before any of them commits.
#ifndef OPTIM_OPTIMIZER_H
#define OPTIM_OPTIMIZER_H

#include "autograd/index.h"
#include "tensor/update.h"
#include <gradwire/optim.h>

typedef struct optimizer_group optimizer_group;
typedef struct remote_part remote_part;

enum { OPTIM_STATES_MAX = UPDATE_STATES_MAX };

// ---- Rules --------------------------------------------------------------------------------------
// One member of a rule's options.
typedef struct option {
    const char *name;
    size_t offset;
    bool is_flag;  // a bool; otherwise a double
    double low, below;
} option;

typedef struct rule {
    const char *name;
    const option *options;
    int option_count;
    const char *(*check)(
        const optimizer_group *g);  // the error of the options; NULL: none. May be NULL

    const char *states[OPTIM_STATES_MAX];              // PyTorch's names
    unsigned (*uses)(const optimizer_group *g);        // which of them, as bits; NULL: all
    double (*start)(const optimizer_group *g, int k);  // the initial value of state |k|; NULL: 0

    bool takes_rows, takes_dense;  // gradients
    const update_rule *update;
} rule;

// One of this library, or one that the program has registered. NULL if there is none.
const rule *rule_find(const char *name);
const rule *rule_find_listed(const char *name);  // only of this library

// The bits of the states that are used.
unsigned rule_states(const rule *r, const optimizer_group *g);

// False with |s| failed if a number is out of its range.
bool rule_check(gw_scope *s, const rule *r, const optimizer_group *g);

// The number that |o| is in the options of |g|; a flag is 0 or 1.
double option_get(const option *o, const optimizer_group *g);
void option_set(const option *o, optimizer_group *g, double value);
const option *rule_option(const rule *r, const char *name);  // NULL if there is none

// ---- Optimizers ---------------------------------------------------------------------------------
struct optimizer_group {
    union {
        double lr;  // the first member of all of them
        gw_sgd_options sgd;
        gw_adam_options adam;
        gw_adamw_options adamw;
        gw_sparse_adam_options sparse_adam;
        gw_adamax_options adamax;
        gw_adagrad_options adagrad;
        gw_adadelta_options adadelta;
        gw_rmsprop_options rmsprop;
        gw_rprop_options rprop;
        double own[GW_RULE_OPTIONS_MAX];
    } options;
    double
        initial_lr;   // the rate before the first schedule, which schedules start from; NaN without
    bool concurrent;  // the optimizer's, in the first group
};

typedef struct parameter {
    gw_tensor *x;  // counted
    int number;    // among all parameters of the optimizer, the remote ones too
    int group;
    int64_t step_count;
    block *state[OPTIM_STATES_MAX];  // arrays like x; NULL before the first step, or unused
    bool elsewhere;                  // another worker has its state and computes its steps

    // prepared
    bool is_early;                       // before the step, by optimizer_prepare_early
    gw_tensor *grad;                     // counted; NULL: none, so nothing happens to it
    block *new_x;                        // NULL: written in place
    block *new_state[OPTIM_STATES_MAX];  // NULL: unused, or written in place
    block *spare;             // for the whole storage, should it be pinned before the commit
    struct row_update *rows;  // the new values are only of these
} parameter;

// A function that a room above runs behind each step, also behind one that has failed: others wait for it. It
// keeps a count, which the state map has under |key|.
typedef struct after_step {
    void (*run)(struct after_step *a, gw_scope *s, gw_optimizer *o);
    void (*close)(struct after_step *a);
    const char *key;
    int64_t *count;
} after_step;

struct gw_optimizer {
    gw_handle handle;

    // arguments
    const rule *rule;
    optimizer_group *groups;
    int group_count;

    // state
    parameter *parameters;  // of this worker
    int parameter_count;
    int number_count;  // of all parameters
    uint32_t group_capacity, parameter_capacity;
    pointer_index indices;  // of tensors in |parameters|; also of some removed ones
    remote_part *remote;    // NULL: all are here
    after_step *after;      // NULL: nothing
    int64_t step_count;
};

// Without groups; one count, NULL with |s| failed.
gw_optimizer *optimizer_open(gw_scope *s, const rule *r);

// With one group, owned by |s|; or poison.
gw_optimizer *optimizer_make(gw_scope *s, const rule *r, gw_list *params,
                             const optimizer_group *options);

// Whether there is something to do for |function|; fails |s| if there is no optimizer at all.
bool optimizer_check(gw_scope *s, const gw_optimizer *o, const char *function);
// Whether |x| is one of the first |count| parameters.
bool optimizer_has(const gw_optimizer *o, int count, const gw_tensor *x);
// Whether a pass was made in |s|, whose gradients |function| uses; fails |s| if not.
bool optimizer_check_pass(gw_scope *s, const gw_optimizer *o, const char *function);
bool optimizer_add_group(gw_scope *s, gw_optimizer *o, gw_list *params,
                         const optimizer_group *options);
// The same for the owner side of an optimizer of another worker: |params| are tensors and have the
// |numbers|. There may be none.
bool optimizer_add_part(gw_scope *s, gw_optimizer *o, gw_list *params, const int *numbers,
                        const optimizer_group *options);
void optimizer_remove_group(gw_optimizer *o);  // the last one

extern gw_optimizer optimizer_poison;  // the result of failed constructors

// ---- Steps --------------------------------------------------------------------------------------
// False with |s| failed and nothing prepared.
bool optimizer_prepare(gw_scope *s, gw_optimizer *o);
// Its halves: taking memory, which may fail, and the arithmetic, which cannot.
bool optimizer_reserve(gw_scope *s, gw_optimizer *o);
void optimizer_compute(gw_optimizer *o);
void optimizer_commit(gw_optimizer *o);
void optimizer_abort(gw_optimizer *o);

// Prepares parameter |i| alone, before the step, for a gradient that is going to be in its scope.
// optimizer_prepare leaves it as it is then. False with |s| failed and nothing prepared.
bool optimizer_prepare_early(gw_scope *s, gw_optimizer *o, int i, gw_tensor *grad);
void optimizer_discard(gw_optimizer *o, int i);

// Takes memory for the values that other workers compute for parameter |i|, which is elsewhere. False with |s|
// failed.
bool optimizer_reserve_values(gw_scope *s, gw_optimizer *o, int i);
// The same where only the rows are computed that |indices| name, each once.
bool optimizer_reserve_rows(gw_scope *s, gw_optimizer *o, int i, gw_tensor *indices);
// Numbers of it, or of these rows, from |first| on are |count| of |values|, contiguous, from |at| on. A commit puts
// them in place.
void optimizer_stage(gw_optimizer *o, int i, int64_t first, const gw_tensor *values, int64_t at,
                     int64_t count);

// A whole step: writes in place where no other handle sees the old values. False with |s| failed
// and nothing changed.
bool optimizer_step(gw_scope *s, gw_optimizer *o);

// ---- Clipping -----------------------------------------------------------------------------------
// For the gradients in |s| of the tensors in |params|: sums their squares; multiplies them by |by|.
double clip_squares(gw_scope *s, const gw_list *params);
void clip_scale(gw_scope *s, const gw_list *params, double by);

#endif
