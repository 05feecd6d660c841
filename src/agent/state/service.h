// Services of an agent. Calls, references and passes each register one table of this kind; the agent opens them, passes
// them the messages of their kinds, notifies them when members join and are lost, and ends them. The agent names none of
// them.
//
//     const service call_service = { .name = "call", .data = &call_data, .kind_first = 1, .received = received, ... };
//
// A service of another room needs this table, and a line in src/runtime/runtime.c; it needs no change in this room.
//
// Ownership: tables are constant. A service's state, and its part of each member, live from open to
// free. Threads: with the loop lock held, unless stated otherwise. Every function may be NULL.
#ifndef AGENT_STATE_SERVICE_H
#define AGENT_STATE_SERVICE_H

#include "base/bytes.h"
#include "base/handle.h"
#include "base/list.h"
#include "wire/message.h"
#include <gradwire/rpc.h>

typedef struct agent agent;
typedef struct pending pending;

// A function to be called with the loop lock held when a value has resolved.
typedef struct continuation {
    list_node link;
    void (*run)(struct continuation *c);
} continuation;

static inline void continuation_cancel_on_loop(continuation *c) {
    list_remove(&c->link);
}

// An attachment of the values of a message: a reference, a promise, the graph of tracked tensors. Its bytes are in a
// table behind the values (docs/protocol/calls.md), which name it by its index there.
//
// In an outgoing message an attachment is a handle, held until the message is done, and the result of |prepare| for this
// message. In an incoming message it is a handle that |read| has made, which the message holds.
enum { ATTACHMENT_BYTES_MIN = 16 };

typedef struct attachment_class {
    uint8_t type;  // the first byte of its entry in the table, of at least ATTACHMENT_BYTES_MIN
    gw_kind kind;  // of the values that stand for it; GW_NONE: tensors are linked to it

    // ---- Outgoing -------------------------------------------------------------------------------

    const agent *(*agent_of)(const gw_handle *h);  // NULL: of none; without the loop lock
    // The value behind it as another attachment: what an operator is given. One count, NULL without
    // memory. Without the lock.
    gw_handle *(*value_behind)(gw_handle *h);
    // What this message needs of it; NULL without memory. Without the lock. |discard| if it is not
    // sent.
    void *(*prepare)(gw_handle *h);
    void (*discard)(void *prepared);
    // Writes its entry in a message to |to|. On failure nothing has changed.
    bool (*write)(gw_handle *h, void *prepared, int to, bytes *table, gw_error *error);
    void (*undo)(gw_handle *h, int to,
                 const uint8_t *written);  // the message was not sent after all
    void (*sent)(void *prepared);          // it was: takes |prepared|

    // Of an attachment that tensors are linked to: one for a message of calls in the scope of that
    // id, one count; |x| becomes its |*out_slot|. Without the lock.
    gw_handle *(*track)(agent *a, uint64_t scope);
    gw_status (*add)(gw_handle *h, gw_tensor *x, uint32_t *out_slot, gw_error *error);

    // ---- Incoming -------------------------------------------------------------------------------

    gw_status (*read)(agent *a, int from, reader *table, gw_handle **out, gw_error *error);
    // Whether an entry names a worker that this one does not have as a member: deferred_is_unknown. Reads to its end.
    bool (*names_unknown)(const agent *a, reader *table);
    bool (*await)(gw_handle *h,
                  continuation *c);  // runs |c| when its value has arrived; false if it has already
    const gw_error *(*error)(const gw_handle *h);  // its error, if it arrived as one; else NULL
    void (*abandon)(gw_handle *h);                 // the message will not be read
    gw_value (*give)(gw_handle *h, gw_scope *s);   // its value, in |s|; without the lock
    gw_status (*link)(gw_handle *h, uint32_t slot, gw_tensor *x,
                      gw_error *error);  // |x| may be NULL

    // ---- Of segments that need not travel -------------------------------------------------------
    // Of at most one class, whose kind is GW_KIND_COUNT (docs/protocol/lending.md).

    void (*prepare_segment)(block *b);  // which is pinned, before it is lent. Without the lock
    void (*sending)(agent *a, int to);  // before any message with values
    bool (*may_lend)(agent *a, int to, const segment *g);
    // The attachment that stands for |g|; one count. NULL: it travels.
    gw_handle *(*lend)(agent *a, int to, uint32_t index, const segment *g);
    // Fetches the segment of an entry from its sender: true if it is here, or cannot be fetched; else
    // deferred_retry_on_loop is called later. Reads to its end; adds the bytes that the segment takes here.
    bool (*fetch)(agent *a, int from, reader *table, uint64_t *bytes);
    // The segment that was fetched for it, with one count on its block.
    void (*take_in)(gw_handle *h, uint32_t *out_index, segment *out);
    // There is no memory for the message: an entry of it, of which nothing has been read.
    void (*drop)(agent *a, int from, reader *table);
} attachment_class;

struct function;
struct observation;

// The data of a service at an agent: its state, made by |open|, and its part of each member. Its address identifies it.
// It is apart from the functions of the service: so the files of a room find their data, and the table of functions, which
// refers to all of these files, is above them.
typedef struct service_data {
    size_t member_size;               // of its part of each member, zeros at first
    void (*member_init)(void *part);  // any thread
} service_data;

typedef struct service {
    const char *name;
    const service_data *data;       // NULL: none
    uint8_t kind_first, kind_last;  // of its messages; 0: none
    // What it serves by itself, tables that end with a function without name, the last table is
    // NULL. Read by calls.
    const struct function *const *functions;
    const attachment_class *attachment;

    // Before other members are known, without the lock; |*state| is NULL. After a failure |free| is called.
    gw_status (*open)(agent *a, const gw_rpc_options *options, void **state, gw_error *error);
    // Takes |m|. PROTOCOL for a malformed message: its sender is lost.
    gw_status (*received)(agent *a, int from, message *m, gw_error *error);
    // Where the table of attachments of |m|, of one of its kinds, is in its head; 0: it has none.
    size_t (*find_table)(const message *m);
    // Whether |m|, of one of its kinds, names a worker that this one does not have as a member.
    bool (*names_unknown)(const agent *a, const message *m);
    // Whether it accepts a message of that kind before its segments have arrived. Other messages are kept until then, and
    // so are those for it that arrive from the same worker meanwhile.
    bool (*takes_incomplete)(uint8_t kind);
    void (*swept)(agent *a);               // after each message to oneself
    void (*joined)(agent *a, int rank);    // it may be sent to from now on
    void (*lost)(agent *a, int rank);      // operations that wait for it fail with member.why
    void (*writable)(agent *a, int rank);  // less is queued for it, after peers_await_writable
    void (*begins_to_leave)(agent *a);     // its program has called gw_rpc_shutdown or gw_rpc_leave
    void (*release)(agent *a);  // this worker is leaving: releases what it holds of others
    void (*pending)(const agent *a, pending *out);  // the work that keeps this worker from leaving
    // It leaves while the others continue, and no work keeps it: sends its last messages.
    void (*depart)(agent *a);
    // Adds its activities and counts, for tools (agent/bodies/observe.h).
    void (*observe)(const agent *a, struct observation *out);
    // docs/protocol/waits.md.
    bool (*acts)(const agent *a);       // code runs here that may do what others wait for
    int (*serves_for)(const agent *a);  // the rank of a worker for which a function runs here; -1
    // A function runs, or is to run, at |rank| that this worker has called.
    bool (*has_called)(const agent *a, int rank);
    bool (*has_unread)(const agent *a, int rank);  // some of its messages are not handled yet
    // No operation is under way any more: the first error that no call of the program has returned.
    bool (*missed_error)(const agent *a, gw_error *out);
    void (*report)(agent *a);  // it leaves; logs what others still hold
    void (*stop)(agent *a,
                 const gw_error *why);  // it has left, or is fenced: all operations end
    void (*close)(agent *a);            // nothing runs any more. Without the lock
    void (*free)(void *state);          // the last handle is released. Any thread
} service;

enum { SERVICES_MAX = 16 };

// ---- What is pending ----------------------------------------------------------------------------

// "awaits 1 reply, serves 2 calls".
struct pending {
    size_t count;
    char text[96];
};

// "awaits", 2, "reply", "replies".
void pending_add(pending *p, const char *verb, size_t count, const char *one, const char *many);

#endif
