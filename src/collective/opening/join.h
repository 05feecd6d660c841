// Joining a group: the events of the service of groups, and decisions about groups that are not open here.
//
// Threads: with the loop lock.
#ifndef COLLECTIVE_OPENING_JOIN_H
#define COLLECTIVE_OPENING_JOIN_H

#include "collective/agree/decision.h"
#include <gradwire/group.h>

bool join_request_received_on_loop(agent *a, int from, reader *in);
void join_request_joined_on_loop(agent *a, int rank);
void join_request_lost_on_loop(agent *a, int rank);
void join_request_stop_on_loop(agent *a, const gw_error *why);

// Ends a gw_group_join that is under way or follows, with |why|, unless it has succeeded. All zeros at first.
typedef struct join_stop {
    gw_error why;                  // GW_OK: it continues
    struct join_attempt *attempt;  // under way; NULL
} join_stop;

void join_stop_on_loop(const agent *a, join_stop *stop, const gw_error *why);
// gw_group_join, without the loop lock. |stop| may be NULL.
gw_group *join_until(gw_scope *s, const char *name, gw_group_join_options options, join_stop *stop);

// A decision about a group that is not open here; takes |d|.
void join_request_decided_on_loop(agent *a, const group_header *h, decision *d);
// A joining member requests whether the generation of id h->key was released.
void join_request_polled_on_loop(agent *a, int from, const group_header *h);
bool join_request_released_on_loop(agent *a, const group_header *h);  // false: no call waits for it

// agree_unknown.c
// For a group that is not open here. Sets *out_keeps if the message has to be kept until it is.
bool agree_unknown_received_on_loop(agent *a, int from, uint8_t kind, const group_header *h,
                                    reader in, bool *out_keeps);

#endif
