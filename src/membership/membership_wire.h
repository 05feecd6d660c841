// The messages of membership as bytes. docs/protocol/membership.md is the specification.
//
// Ownership: makers return one count, NULL without memory. Threads: plain values.
#ifndef MEMBERSHIP_MEMBERSHIP_WIRE_H
#define MEMBERSHIP_MEMBERSHIP_WIRE_H

#include "base/env.h"
#include "base/limits.h"
#include "wire/message.h"

enum { MEMBER_WHY_MAX = 256 };

typedef enum membership_kind {
    MEMBERSHIP_HEARTBEAT = 32,
    MEMBERSHIP_VIEW,
    MEMBERSHIP_VIEW_ACK,
    MEMBERSHIP_PROBE,
    MEMBERSHIP_PROBE_REPLY,
    MEMBERSHIP_CALL_BACK,
} membership_kind;

// The stage of a member. It only grows, so of two different ones the larger is right.
typedef enum member_stage {
    MEMBER_UNKNOWN,
    MEMBER_JOINING,  // present, and no voter until a quorum has it
    MEMBER_ACTIVE,   // present
    MEMBER_FAILED,   // gone for its silence; a voter until a quorum has this
    MEMBER_REMOVED,  // gone
    MEMBER_STAGE_COUNT
} member_stage;

typedef struct member_fact {
    int rank;
    uint64_t incarnation;
    member_stage stage;
    bool left;    // it is gone because it closed its session
    gw_loss how;  // once it is gone
    char name[GW_NAME_MAX + 1], addresses[LIMIT_ADDRESSES_BYTES + 1];
    char why[MEMBER_WHY_MAX];  // the error text once it is gone
} member_fact;

enum {
    MEMBERSHIP_HAS_QUORUM = 1,       // the sender is not coordinator, or has a quorum
    MEMBERSHIP_REQUESTS_ANSWER = 2,  // the sender requests the receiver's view or digest
    MEMBERSHIP_FULL = 4,             // a view of all members
};

typedef struct membership_message {
    uint8_t kind;
    uint8_t flags;    // heartbeat, view
    uint64_t digest;  // heartbeat, view, view ack: of the sender's view
    uint64_t number;  // probe and its reply
    int rank;         // probe and its reply: the subject; call back: the requester
    bool yes;         // probe reply
    uint32_t fact_count;
    reader facts;  // view: checked already, for membership_next_fact
} membership_message;

// The digest of a fact: the digest of a view is the exclusive or of those of
// its facts.
uint64_t member_digest(int rank, uint64_t incarnation, member_stage stage);

message *membership_encode(const membership_message *m);  // facts are added to a view:
void membership_add_fact(message *m, const member_fact *f);

gw_status membership_decode(const message *from, membership_message *out, gw_error *error);
void membership_next_fact(membership_message *m, member_fact *out);

#endif
