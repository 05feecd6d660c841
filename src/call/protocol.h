// Messages between agents: kinds of messages and their fixed headers. docs/PROTOCOL.md, from
// calls on, is the specification.
#ifndef CALL_PROTOCOL_H
#define CALL_PROTOCOL_H

#include "agent/messages/message_io.h"
#include "future/future.h"

typedef enum call_kind {
    KIND_REQUEST = 1,
    KIND_REPLY,
    KIND_FORWARD,
    KIND_PROMISE_VALUE,
    KIND_CANCEL,
    KIND_WITHDRAWN,
    CALL_KIND_LAST = KIND_WITHDRAWN
} call_kind;

// The first bytes of a request, in the order of the wire.
typedef struct request_fixed {
    uint64_t call;
    uint64_t key;
    uint64_t scope;
    uint64_t order;
    uint64_t time_left_ns;  // 0: no deadline
    uint64_t target, target_fork;
    uint64_t result, result_fork;
    uint32_t attachments_at;
    uint8_t depth;
    uint8_t one_way;    // there is no reply
    uint8_t untracked;  // the caller records nothing: no tensor of the reply is tracked
    uint8_t
        has_pass;  // a backward pass was made in the caller's scope, as far as the caller can see
} request_fixed;

_Static_assert(sizeof(request_fixed) == 80, "as on the wire");

typedef struct request_header {
    request_fixed fixed;
    uint32_t arg_count;
    size_t args_at;
    char function[LIMIT_NAME_BYTES + 1];
    const uint8_t *origin;  // in the message; no text that ends
    uint32_t origin_size;
} request_header;

// Appends the header; arguments follow. |fixed| may be written again later by request_amend.
// |origin|: where the reference to the result was made, cut to the part behind the last "/";
// NULL: nowhere.
void request_write(bytes *head, const request_fixed *fixed, const char *function,
                   const char *origin, uint32_t arg_count);
const char *origin_base(const char *origin);  // the part behind its last "/", "" for NULL
void request_amend(bytes *head, const request_fixed *fixed);
gw_status request_read(const message *m, request_header *out, gw_error *error);

// The first bytes of a reply or promise value.
typedef struct reply_fixed {
    uint64_t id;  // of the call or promise
    uint32_t attachments_at;
    uint8_t outcome;  // REPLY_VALUE or REPLY_ERROR
    uint8_t zero[3];
    uint32_t forwarded;
    uint32_t trailer_size;
} reply_fixed;

_Static_assert(sizeof(reply_fixed) == 24, "as on the wire");

enum { REPLY_VALUE, REPLY_ERROR };

void reply_write(bytes *head, const reply_fixed *fixed);
gw_status reply_read(const message *m, reply_fixed *out, size_t *out_value_at, gw_error *error);

// Where |attachments_at| stands in the head.
enum {
    REQUEST_ATTACHMENTS_FIELD = offsetof(request_fixed, attachments_at),
    REPLY_ATTACHMENTS_FIELD = offsetof(reply_fixed, attachments_at)
};

// ---- Replies and promise values, which differ in their kind alone -------------------------------

// The scope in which tensors of a value are tracked as sent.
enum { SCOPE_NOT_TRACKED = 0 };
#define SCOPE_UNKNOWN UINT64_MAX

// Begins a message of |kind| with |v|, or with |error| if that is not NULL; if |v| cannot be sent,
// that is the error of |function|, which returned it. Without the loop lock. Fails only without
// memory.
gw_status reply_fill(outgoing *s, agent *a, uint8_t kind, uint64_t id, uint64_t scope,
                     const char *function, gw_value v, const gw_error *error);

// Sends the filled reply, or an error if there was no memory for it.
void reply_send_on_loop(outgoing *s, agent *a, int to, uint8_t kind, uint64_t id, bool filled,
                        bool flush);

// Sends |r|. Without the loop lock.
void reply_result(agent *a, int to, uint8_t kind, uint64_t id, result *r);

// Resolves with the received result, once the promises in it have resolved; takes |m|. |pins| as for
// result_of_incoming. Fails, when it has resolved with the same error, if the table of attachments is
// invalid: the sender is to be lost.
typedef void reply_resolve(void *user, result *r);  // takes |r|
gw_status reply_resolve_on_loop(agent *a, int from, message *m, const reply_fixed *fixed,
                                size_t value_at, bool pins, reply_resolve *resolve, void *user,
                                gw_error *error);

// |from| is lost: incomplete messages from it end with |why|.
void reply_lost_on_loop(agent *a, int from, const gw_error *why);

// It is not wanted: releases the references in it. Takes |m|. Fails as reply_resolve_on_loop does.
gw_status reply_drop_on_loop(agent *a, int from, message *m, uint32_t attachments_at,
                             gw_error *error);

#endif
