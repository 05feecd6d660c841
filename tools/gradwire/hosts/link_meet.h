// How links find each other, and agree on the job that their launchers start (LAUN-4).
#ifndef GRADWIRE_LINK_MEET_H
#define GRADWIRE_LINK_MEET_H

#include <gradwire.h>
#include <gradwire/membership.h>

#include "hosts/link.h"

// Set by host 0.
typedef struct link_plan {
    int port;
    const char *job_id;  // of |root|
} link_plan;

// For one thread that looks what becomes of the other hosts.
typedef struct link_watch {
    gw_scope *scope;
    gw_watch *watch;
} link_watch;

// Joins the job of links on |root|. Fails if a host does not join, or if the hosts were started with different options.
// |watch| has the events of all hosts from then on.
void link_meet(gw_scope *root, const link_options *o, link_plan *out, link_watch *watch);

#endif
