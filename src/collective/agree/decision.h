// Decisions: the result of an agreement of the members of a group. docs/protocol/groups.md is the specification.
//
// Ownership: counted. Threads: made and counted with the loop lock, else constant.
#ifndef COLLECTIVE_AGREE_DECISION_H
#define COLLECTIVE_AGREE_DECISION_H

#include "base/bytes.h"
#include "collective/group/group.h"

typedef struct decision {
    uint32_t count;
    gw_error *error;      // NULL: no error
    bool spares_reforms;  // GRP-12: |error| is not for members that re-form the group
    uint64_t flags;
    int size;    // of the group
    bool *here;  // by index: has proposed

    // the next generation of a group that was re-formed; else 0 members
    uint64_t id;
    uint32_t generation;
    char name[LIMIT_NAME_BYTES + 1];
    int member_count;
    group_peer *members;
} decision;

// With one count, and only the sizes set. NULL if allocation fails.
decision *decision_open(int size, int member_count);
decision *decision_retain(decision *d);
void decision_release(decision *d);  // NULL is fine

void decision_encode(bytes *out, const decision *d);
// False if malformed; else |*out| has one count, or is NULL if allocation fails.
bool decision_decode(reader *in, decision **out);

bool decision_has_member(const decision *d, int rank, uint64_t incarnation);

#endif
