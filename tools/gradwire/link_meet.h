// How links find each other, and agree on the job that their launchers start (LAUN-4).
#ifndef GRADWIRE_LINK_MEET_H
#define GRADWIRE_LINK_MEET_H

#include <gradwire.h>

#include "link.h"

// What only host 0 knows.
typedef struct link_plan {
    int port;
    const char *job_id;  // of |root|
} link_plan;

// Joins the job of links on |root|. Fails if not all come, or if they were started differently.
void link_meet(gw_scope *root, const link_options *o, link_plan *out);

#endif
