// Capabilities: what each end of a connection supports, sent in its handshake as a map from
// texts to texts.
//
// Unknown capabilities are skipped. A capability that both ends have sent is agreed.
//
//     capabilities can = { 0 };
//     capabilities_add(&can, "lend", "arena 7");
//     ...
//     char theirs[LIMIT_CAPABILITY_BYTES + 1];
//     if (capabilities_agree(&can, &received, "lend", theirs)) ...
//
// Ownership, threads: plain values.
#ifndef NET_CAPABILITIES_H
#define NET_CAPABILITIES_H

#include "base/bytes.h"
#include "base/limits.h"
#include <gradwire/status.h>

// Encoded as in docs/protocol/connection.md: pairs of texts, one after the other. The empty map
// is all zero.
typedef struct capabilities {
    uint32_t count, size;
    uint8_t bytes[LIMIT_CAPABILITIES_BYTES];
} capabilities;

// False if |c| has |key| already, if |key| is empty, if a text is too long, or if there is no more
// room.
bool capabilities_add(capabilities *c, const char *key, const char *value);

// False if |c| has no |key|.
bool capabilities_find(const capabilities *c, const char *key,
                       char out_value[LIMIT_CAPABILITY_BYTES + 1]);

// Whether both have |key|; writes the other end's value.
bool capabilities_agree(const capabilities *ours, const capabilities *theirs, const char *key,
                        char out_value[LIMIT_CAPABILITY_BYTES + 1]);

// Reads the rest of |r|. PROTOCOL: not a map, a key twice, or more than the limits.
gw_status capabilities_read(reader *r, capabilities *out, gw_error *error);

#endif
