// The hosts of a job as host 0 counts them: which number each has, and which wait for a place.
//
// A host is identified by its link, a *peer*: the rank of the link in the job of links, which no other link ever has. In a
// job whose hosts are given (--node-rank) the number of a host is that of its peer.
//
// Ownership: coordinator.c opens and closes it. Threads: one at a time.
#ifndef GRADWIRE_ROSTER_H
#define GRADWIRE_ROSTER_H

#include <stdbool.h>

#include "hosts/message.h"

typedef enum roster_flag {
    HOST_HAS_REPLIED,
    HOST_HAS_ENDED_ROUND,
    HOST_IS_DONE,
    HOST_FLAGS
} roster_flag;

typedef struct roster_host {
    bool is_in;  // the job
    int peer;
    bool is_leaving;
    bool was_used;  // the number: ranks of this round have had it
    bool flags[HOST_FLAGS];
} roster_host;

typedef struct roster {
    int max;
    roster_host *hosts;  // by number
    int count;           // of hosts that are in the job
    int *spares;         // peers in the order of their arrival
    int spare_count;
} roster;

enum { SPARES_MAX = 512 };

// For |max| hosts, which are all in the job unless |is_dynamic|. False: no memory.
bool roster_open(roster *r, int max, bool is_dynamic);
void roster_close(roster *r);

int roster_find(const roster *r, int peer);  // its number; NO_NODE: it is not in the job

// False: it is a spare or in the job already, or there are too many.
bool roster_add_spare(roster *r, int peer);
void roster_remove_spare(roster *r, int peer);

// The host |node| is not in the job any more.
void roster_remove(roster *r, int node);

// Gives the lowest free number to the first spare and returns it. NO_NODE: no spare, or no free number.
int roster_admit(roster *r);
bool roster_can_admit(const roster *r);

// For ranks that all start together: numbers the hosts that are in the job from 0, in their order, without those that leave, and admits
// spares.
void roster_renumber(roster *r);

int roster_staying_count(const roster *r);  // of hosts in the job that do not leave

// Of all hosts in the job.
bool roster_all(const roster *r, roster_flag flag);
void roster_clear(roster *r, roster_flag flag);

#endif
