// Internals of a scope, for the folders above that attach data to it.
#ifndef BASE_SCOPE_H
#define BASE_SCOPE_H

#include "base/check.h"
#include "base/env.h"
#include "base/handle.h"
#include "base/random.h"
#include "base/scope_handles.h"
#include "base/status.h"

// Data of the folders above. |fini| runs at close, before the handles are released; slots in
// reverse order.
typedef enum scope_slot {
    SCOPE_ATTACHED,  // agent: the count on the agent of a scope of gw_scope_open_of
    SCOPE_POISON,    // tensor: the result of failed operators
    SCOPE_AUTOCAST,  // tensor: casts that this scope has requested
    SCOPE_GRADS,     // autograd: gradients of this scope's passes
    SCOPE_PASS,      // dist: of a pass's work, the pass
    SCOPE_GATES,     // autograd: the gates that expect a pass over results computed here
    SCOPE_VISITED,   // dist: the workers that the passes of this scope have visited
    SCOPE_TURN,      // rpc: the turn of an object, held through gw_local
    SCOPE_AGENT,     // rpc: the agent that was opened on this scope
    SCOPE_SLOT_COUNT
} scope_slot;

// The source of scope ids: the worker's rank + 1 in the upper 16 bits, 0 before there is an
// agent.
typedef struct scope_ids {
    uint64_t space;
    _Atomic uint64_t next;
} scope_ids;

// The part of autograd and optim on other workers, in the scopes of an agent: tables that
// these folders define and a folder above them fills.
typedef struct scope_remote {
    const struct remote_grads *grads;       // autograd/grads.h
    const struct late_waiting *late;        // autograd/late.h
    const struct remote_part_class *optim;  // optim/remote_part.h
} scope_remote;

struct gw_scope {
    gw_scope *parent;
    list_node children;  // of type gw_scope, by |sibling|
    list_node sibling;

    gw_error *error;           // NULL while nothing has failed; never replaced
    bool is_error_read;        // by the program; or it is that of a scope around it
    bool is_interrupted;       // its latest wait has ended by |interrupt|
    bool next_is_interrupted;  // its next wait ends: what the latest one was for had happened
    uint32_t process;          // in which it was opened (base/process_number.h)
    char *label;
    _Atomic uint64_t id;  // 0 until requested, also by threads that use scopes inside it
    int64_t deadline_ns;  // on the env's clock; ENV_NEVER
    bool grad_enabled;
    bool not_synchronised;  // gradients of its passes stay on this worker (autograd/gate.h)
    bool may_wait;          // false inside GW_INLINE handlers
    bool has_own_keys;  // the library calls: keys of collectives may be its own (GRP-21, GRP-22)
    bool is_lent;       // to a registered function, which runs: it is closed after it returns
    uint64_t
        body;  // a number of the body that it is, or was, lent to; scopes inside have the same. 0: none
    uint64_t
        tensor_bytes_max;  // of one new tensor; 0: none. For scopes that act on behalf of a peer

    // Inherited from the parent unless set here.
    env *env;                    // for the clock; NULL: the machine's
    void *agent;                 // of the folder agent
    const scope_remote *remote;  // NULL without an agent
    scope_ids *ids;
    generator *random;          // |own_random| or the parent's
    uint64_t number;            // among the scopes opened in the parent since it was seeded
    const char *worker;         // this worker's name, for traces; NULL without agent
    struct autocast *autocast;  // the dtypes of operators (tensor/ops/autocast.c); NULL: unchanged
    bool (*interrupt)(void *context);  // of gw_scope_set_interrupt; NULL: none
    void *interrupt_context;
    int64_t poll_due_ns;  // when a wait calls |interrupt| next; 0: 100 ms after it begins

    // The thread inside an operation, and how deep; in the checked mode only.
    _Atomic uintptr_t user;
    int user_depth;

    // Owned.
    generator own_random;
    uint64_t opened, calls;  // scopes and calls so far, since it was seeded
    bool is_seeded;          // by the program
    scope_handles handles;
    struct scope_chunk *chunks;  // memory of gw_alloc
    struct {
        void *data;
        void (*fini)(gw_scope *s, void *data);
    } slots[SCOPE_SLOT_COUNT];
};

// As gw_scope_open, but a scope opened in a failed scope has not failed: for work that must be done in any case.
gw_scope *scope_open_regardless(gw_scope *parent);
gw_scope *scope_open_unrecorded(gw_scope *parent);  // with gw_no_grad
void scope_close_unread(gw_scope *s);  // as gw_scope_close, where no caller needs the error

uint64_t scope_new_id(const gw_scope *s);  // one that no scope has

// The error of |s|, for the library's own use: gw_scope_error notes that the program has read it.
static inline const gw_error *scope_error(const gw_scope *s) {
    static const gw_error none;
    return s->error ? s->error : &none;
}

// The same, writable: NULL if there is none, or if it is shared for lack of memory.
gw_error *scope_own_error(const gw_scope *s);

// |s| belongs to a body while that runs. After it, an error of a scope that the body has left open is
// the error of the body.
void scope_lend(gw_scope *s);
void scope_take_back(gw_scope *s);

// Moves the caller's count on |handle| to |s| and returns |handle|. If |s| has no memory for it,
// releases it, fails |s| and returns NULL.
void *scope_own(gw_scope *s, void *handle);
void *scope_own_or(gw_scope *s, void *handle, void *poison);  // |poison| in place of NULL

// Releases all handles of |s| but the first |count|: for long work in one scope.
void scope_release_from(gw_scope *s, uint32_t count);

// Fails |s|, unless it has failed already. The text gets the scope's label in front. This and the next two return false,
// so that checks write
//     return scope_fail(s, GW_INVALID, "rank %d of %d", rank, world_size);
bool scope_fail(gw_scope *s, gw_status status, const char *format, ...) GW_PRINTF(3, 4);
// With "|function|: " in front, unless the error of a call to another worker already has it.
bool scope_fail_of(gw_scope *s, const char *function, gw_status status, const char *format, ...)
    GW_PRINTF(4, 5);
// Whether |items| may have |count| items; else fails with INVALID.
bool scope_check_array(gw_scope *s, const char *function, const void *items, int64_t count);
bool scope_fail_with(gw_scope *s,
                     const gw_error *error);  // an existing error, perhaps of another worker

// Puts "|what|: " before the text of the latest error of |s|, for a function that can explain it better than
// the function that it called.
void scope_explain_error(gw_scope *s, const char *what);

// The key of the random stream of the next call that |s| makes. It follows from the generator's seed
// and from the scopes between the seeded one and |s|, and only |s| changes: two threads may call at
// once. See docs/decisions/0002-random-streams.md.
uint64_t scope_call_key(gw_scope *s);

// Unless the program has seeded it: the numbers of worker |rank|, which other workers do not draw.
void scope_seed_worker(gw_scope *s, int rank);

// The checked mode. Between enter and leave no other thread may be in |s|.
void scope_check_enter(gw_scope *s);
void scope_check_leave(gw_scope *s);
static inline void scope_enter(gw_scope *s) {
    if (check_enabled) scope_check_enter(s);
}
static inline void scope_leave(gw_scope *s) {
    if (check_enabled) scope_check_leave(s);
}

// Calls |run|, which calls the program's function of |s|: a C++ exception fails |s|.
void scope_run(gw_scope *s, void (*run)(void *context), void *context);

int64_t scope_now_ns(const gw_scope *s);
void scope_set_slot(gw_scope *s, scope_slot slot, void *data,
                    void (*fini)(gw_scope *s, void *data));

#endif
