// The members of a group in a report: a leader whose program has not opened the group leads it by this list.
//
// Ownership: a roster refers to the bytes of its message. Threads: any.
#ifndef COLLECTIVE_GROUP_ROSTER_H
#define COLLECTIVE_GROUP_ROSTER_H

#include "collective/group/group.h"

typedef struct roster {
    char title[sizeof((gw_group *)0)->title];
    uint32_t count;
    const uint8_t *members;
} roster;

void roster_put(bytes *out, const gw_group *g);
void roster_put_none(bytes *out);           // of a member that has closed the group
bool roster_read(reader *in, roster *out);  // false if malformed
group_peer roster_member(const roster *x, uint32_t i);

#endif
