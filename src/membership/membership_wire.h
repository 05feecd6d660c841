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

// How far a member has come. It only grows, so that of two that differ the larger one is right.
typedef enum member_stage {
    MEMBER_UNKNOWN,
    MEMBER_JOINING,  // present, and no voter until a quorum knows it
    MEMBER_ACTIVE,   // there
    MEMBER_FAILED,   // gone for its silence; a voter until a quorum knows it
    MEMBER_REMOVED,  // gone
    MEMBER_STAGE_COUNT
} member_stage;

typedef struct member_fact {
    int rank;
    uint64_t incarnation;
    member_stage stage;
    bool left;    // how it went: it closed its session
    gw_loss how;  // once it is gone
    char name[GW_NAME_MAX + 1], addresses[LIMIT_ADDRESSES_BYTES + 1];
    char why[MEMBER_WHY_MAX];  // a sentence once it is gone
} member_fact;

enum {
    MEMBERSHIP_HAS_QUORUM = 1,  // the sender is not coordinator, or has a quorum
    MEMBERSHIP_ASKS = 2,        // the sender wants to know what the receiver knows
    MEMBERSHIP_FULL = 4,        // a view of all members
};

typedef struct membership_message {
    uint8_t kind;
    uint8_t flags;    // heartbeat, view
    uint64_t digest;  // heartbeat, view, view ack: of the sender's view
    uint64_t number;  // probe and its reply
    int rank;         // probe and its reply: of whom; call back: who asks for it
    bool yes;         // probe reply
    uint32_t fact_count;
    reader facts;  // view: checked already, for membership_next_fact
} membership_message;

// What a fact adds to the digest of a view: the digest of a view is the exclusive or of those of
// its facts.
uint64_t member_digest(int rank, uint64_t incarnation, member_stage stage);

message *membership_encode(const membership_message *m);  // a view gets facts behind it:
void membership_add_fact(message *m, const member_fact *f);

gw_status membership_decode(const message *from, membership_message *out, gw_error *error);
void membership_next_fact(membership_message *m, member_fact *out);

#endif
