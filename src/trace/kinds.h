// The kinds of records, and the levels that switch them on.
#ifndef TRACE_KINDS_H
#define TRACE_KINDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum trace_level {
    TRACE_JOB = 1,    // members, errors, groups, checkpoints
    TRACE_COLL = 2,   // collectives
    TRACE_PASS = 4,   // backward passes
    TRACE_STEP = 8,   // steps of optimizers and of elastic jobs
    TRACE_SLOW = 16,  // waits and bodies of more than TRACE_SLOW_NS, at their end
    TRACE_CALL = 32,  // each call
    TRACE_USER = 64,  // spans, marks and counters of the program
    TRACE_DEFAULT = TRACE_JOB | TRACE_COLL | TRACE_PASS | TRACE_STEP | TRACE_SLOW | TRACE_USER,
    TRACE_USUAL = TRACE_DEFAULT | TRACE_CALL,  // of a trace
    TRACE_REF = 128,                           // references
    TRACE_WIRE = 256,                          // messages, and connections
    TRACE_OPS = 512,                           // operators, and calls of modules
    TRACE_ALL = 1023
} trace_level;

#define TRACE_USUAL_LEVELS "job,coll,pass,step,slow,call,user"  // TRACE_USUAL

#define TRACE_SLOW_NS INT64_C(10000000)

typedef enum trace_phase { TRACE_INSTANT, TRACE_BEGIN, TRACE_END, TRACE_COUNT } trace_phase;

// A record's |id|, |value| and |name| by kind. Ranks are in the job. Kinds are only added at the end.
//      kind               level       phase          text                     id / value / name
#define TRACE_KINDS(X)                                                                             \
    X(THREAD_STARTED, TRACE_JOB, TRACE_INSTANT, "thread started") /* - / tid / thread */           \
    X(JOINED, TRACE_JOB, TRACE_INSTANT, "joined the job") /* incarnation / rank / its name */      \
    X(MEMBER_JOINED, TRACE_JOB, TRACE_INSTANT,                                                     \
      "member joined") /* incarnation / rank / its name */                                         \
    X(MEMBER_SUSPECTED, TRACE_JOB, TRACE_INSTANT, "member suspected")                              \
    X(MEMBER_RECOVERED, TRACE_JOB, TRACE_INSTANT, "member recovered")                              \
    X(MEMBER_LEFT, TRACE_JOB, TRACE_INSTANT, "member left")                                        \
    X(MEMBER_DIED, TRACE_JOB, TRACE_INSTANT, "member died")                                        \
    X(FENCED, TRACE_JOB, TRACE_INSTANT, "fenced") /* incarnation / status / the error */           \
    X(FAILED, TRACE_JOB, TRACE_INSTANT, "the program failed") /* scope / status / the error */     \
    X(SHUTDOWN, TRACE_JOB, TRACE_INSTANT, "leaves the job")   /* incarnation / - / function */     \
    X(GROUP_OPENED, TRACE_JOB, TRACE_INSTANT, "group opened") /* group / members / its name */     \
    X(GROUP_BROKEN, TRACE_JOB, TRACE_INSTANT, "group broken") /* group / status / its name */      \
    X(CHECKPOINT_BEGUN, TRACE_JOB, TRACE_BEGIN, "checkpoint") /* step / - / folder */              \
    X(CHECKPOINT_ENDED, TRACE_JOB, TRACE_END, "checkpoint")   /* step / status / path */           \
    X(COLLECTIVE_ENTERED, TRACE_COLL, TRACE_BEGIN,                                                 \
      "collective") /* trace_collective_id / bytes / operation */                                  \
    X(COLLECTIVE_ENDED, TRACE_COLL, TRACE_END, "collective") /* the same / status / group */       \
    X(PASS_BEGUN, TRACE_PASS, TRACE_BEGIN, "backward")       /* scope / - / - */                   \
    X(PASS_ENDED, TRACE_PASS, TRACE_END, "backward")         /* scope / status / - */              \
    X(PART_BEGUN, TRACE_PASS, TRACE_BEGIN,                                                         \
      "part of a backward") /* scope / initiator / its name */                                     \
    X(PART_ENDED, TRACE_PASS, TRACE_END, "part of a backward")                                     \
    X(STEP_BEGUN, TRACE_STEP, TRACE_BEGIN, "optimizer step")      /* scope / - / - */              \
    X(STEP_ENDED, TRACE_STEP, TRACE_END, "optimizer step")        /* scope / status / - */         \
    X(ELASTIC_STEP, TRACE_STEP, TRACE_INSTANT, "step of the job") /* step / members / - */         \
    X(SLOW_WAIT, TRACE_SLOW, TRACE_INSTANT, "waited long for")    /* - / ns / what */              \
    X(SLOW_BODY, TRACE_SLOW, TRACE_INSTANT, "ran long")           /* call / ns / function */       \
    X(CALL_MADE, TRACE_CALL, TRACE_BEGIN, "call")   /* trace_call_id / callee / function */        \
    X(CALL_ENDED, TRACE_CALL, TRACE_END, "call")    /* the same / status / function */             \
    X(BODY_BEGUN, TRACE_CALL, TRACE_BEGIN, "body")  /* trace_call_id / caller / function */        \
    X(BODY_ENDED, TRACE_CALL, TRACE_END, "body")    /* the same / status / function */             \
    X(SPAN_OPENED, TRACE_USER, TRACE_BEGIN, "span") /* its number / - / its name */                \
    X(SPAN_CLOSED, TRACE_USER, TRACE_END, "span")                                                  \
    X(MARK, TRACE_USER, TRACE_INSTANT, "mark")     /* - / - / text */                              \
    X(COUNTER, TRACE_USER, TRACE_COUNT, "counter") /* - / the bits of a double / its name */       \
    X(OVERTAKEN, TRACE_JOB, TRACE_INSTANT,                                                         \
      "records were overwritten before they were read") /* - / how many / -; made by a reader */   \
    X(REFERENCE_MADE, TRACE_REF, TRACE_INSTANT, "reference made") /* reference / owner / - */      \
    X(REFERENCE_FORKED, TRACE_REF, TRACE_INSTANT,                                                  \
      "reference forked") /* the same / new holder / -; of its owner */                            \
    X(REFERENCE_RELEASED, TRACE_REF, TRACE_INSTANT,                                                \
      "reference released")                         /* the same / holder / -; of its owner */      \
    X(FETCH_BEGUN, TRACE_REF, TRACE_BEGIN, "fetch") /* trace_unique_id / owner / - */              \
    X(FETCH_ENDED, TRACE_REF, TRACE_END, "fetch")   /* the same / status / - */                    \
    X(MESSAGE_SENT, TRACE_WIRE, TRACE_INSTANT,                                                     \
      "message sent") /* trace_message_id / bytes / transport */                                   \
    X(MESSAGE_RECEIVED, TRACE_WIRE, TRACE_INSTANT, "message received") /* the same */              \
    X(RECONNECTING, TRACE_WIRE, TRACE_INSTANT, "connection lost")      /* - / peer / its name */   \
    X(RESENT, TRACE_WIRE, TRACE_INSTANT, "messages resent") /* peer / how many / its name */       \
    X(QUEUE_FULL, TRACE_WIRE, TRACE_BEGIN, "full queue")    /* trace_unique_id / peer / - */       \
    X(QUEUE_HAS_ROOM, TRACE_WIRE, TRACE_END, "full queue")  /* the same / status / - */            \
    X(OP_BEGUN, TRACE_OPS, TRACE_BEGIN, "operator")         /* trace_unique_id / - / name */       \
    X(OP_ENDED, TRACE_OPS, TRACE_END, "operator")           /* the same / trace_op_value / name */ \
    X(MODULE_BEGUN, TRACE_OPS, TRACE_BEGIN, "module")       /* trace_unique_id / - / its name */   \
    X(MODULE_ENDED, TRACE_OPS, TRACE_END, "module")         /* the same / status / its name */

typedef enum trace_kind {
    TRACE_NONE,
#define TRACE_KIND(kind, level, phase, text) TRACE_##kind,
    TRACE_KINDS(TRACE_KIND)
#undef TRACE_KIND
        TRACE_KIND_COUNT
} trace_kind;

typedef struct trace_kind_info {
    const char *text;
    uint32_t level;
    trace_phase phase;
} trace_kind_info;

extern const trace_kind_info trace_kinds[TRACE_KIND_COUNT];

// The level of that name, which ends at |size| bytes; 0: there is none.
uint32_t trace_level_of(const char *name, size_t size);
// "job, coll, pass, step, slow, call, user".
const char *trace_level_names(void);
// A list such as "call,pass", or "all". False: |*out_wrong|, of |*out_size| bytes, is no level.
bool trace_levels_parse(const char *text, uint32_t *out, const char **out_wrong, size_t *out_size);

// Ids of calls and collectives, the same on all workers.
static inline uint64_t trace_call_id(int caller, uint64_t call) {
    return (uint64_t)(uint32_t)caller << 40 | (call & ((UINT64_C(1) << 40) - 1));
}
static inline uint64_t trace_collective_id(uint64_t group, uint64_t key, uint64_t number) {
    uint64_t mixed = (group ^ key * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xff51afd7ed558ccd);
    return mixed >> 32 << 32 | (uint32_t)number;
}

// Of a message: the other worker, and the kind (agent/messages/kinds.h).
static inline uint64_t trace_message_id(int rank, uint8_t kind) {
    return (uint64_t)(uint32_t)rank << 8 | kind;
}
static inline int trace_message_rank(uint64_t id) {
    return (int)(id >> 8);
}

// What an operator has made: bytes on a device, where 0 is the CPU.
static inline uint64_t trace_op_value(uint8_t device, uint64_t bytes) {
    return (uint64_t)device << 56 | (bytes & ((UINT64_C(1) << 56) - 1));
}
static inline uint64_t trace_op_bytes(uint64_t value) {
    return value & ((UINT64_C(1) << 56) - 1);
}
static inline unsigned trace_op_device(uint64_t value) {
    return (unsigned)(value >> 56);
}

#endif
