// Capabilities: what each end of a connection says in its handshake that it can do, as a map from
// texts to texts.
//
// Either side may not know what the other says: what nobody here looks for is skipped. What both
// have said is agreed.
//
//     capabilities can = { 0 };
//     capabilities_add(&can, "lend", "arena 7");
//     ...
//     char theirs[LIMIT_CAPABILITY_BYTES + 1];
//     if (capabilities_agree(&can, &heard, "lend", theirs)) ...
//
// Ownership, threads: plain values.
#ifndef NET_CAPABILITIES_H
#define NET_CAPABILITIES_H

#include "base/bytes.h"
#include "base/limits.h"
#include <gradwire/status.h>

// As docs/protocol/connection.md has it: pairs of texts, one behind the other. The map without any
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

// Whether both have |key|; what |theirs| says of it.
bool capabilities_agree(const capabilities *ours, const capabilities *theirs, const char *key,
                        char out_value[LIMIT_CAPABILITY_BYTES + 1]);

// Reads the rest of |r|. PROTOCOL: not a map, a key twice, or more than the limits.
gw_status capabilities_read(reader *r, capabilities *out, gw_error *error);

#endif
