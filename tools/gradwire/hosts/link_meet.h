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
    bool has_started;    // a dynamic job whose ranks run
} link_plan;

// For one thread that looks what becomes of the other hosts.
typedef struct link_watch {
    gw_scope *scope;
    gw_watch *watch;
} link_watch;

// Joins the job of links on |root|. Fails if a host does not join. |watch| has the events of all hosts from then on.
void link_meet_join(gw_scope *root, const link_options *o, link_watch *watch);

// Fails if the hosts were started with different options. In a dynamic job this host may be a spare after this.
void link_meet_agree(gw_scope *root, const link_options *o, link_plan *out);

// For the function "launcher_join", by which a link asks host 0 to take part in a dynamic job: returns the plan of this host,
// which is host 0. Fails if |plan| differs from it.
gw_map *link_meet_compare(gw_scope *s, const link_options *o, const gw_map *plan);

#endif
