// The kinds of messages that the agent sends for itself; those about members are in members/members.h.
#ifndef AGENT_MESSAGES_KINDS_H
#define AGENT_MESSAGES_KINDS_H

#include "wire/message.h"

// About leaving: docs/protocol/shutdown.md.
typedef enum leaving_kind {
    KIND_ASK_LEAVE = 8,
    KIND_ALL_ASKED,
    KIND_WAVE,
    KIND_STATE,
    KIND_LEAVE,
    KIND_MISSING
} leaving_kind;

static inline bool leaving_is_kind(uint8_t kind) {
    return kind >= KIND_ASK_LEAVE && kind <= KIND_MISSING;
}

// About waits: docs/protocol/waits.md.
typedef enum await_kind { KIND_AWAIT = 24, KIND_IDLE } await_kind;

static inline bool await_is_kind(uint8_t kind) {
    return kind == KIND_AWAIT || kind == KIND_IDLE;
}

// Whether such messages count among the messages that leaving workers compare.
static inline bool kind_is_counted(uint8_t kind) {
    return !leaving_is_kind(kind) && !await_is_kind(kind);
}

#endif
