// Where the collectives of each group are: the last that all members have ended, the first that some have not.
//
// The collectives of one sequence have numbers in order, and a member ends them in this order. So one that a member has
// ended is known from the last one that it has ended, also where older records are lost.
#ifndef GRADWIRE_STOPS_H
#define GRADWIRE_STOPS_H

#include "timeline/table.h"
#include "timeline/visit.h"

typedef struct stops_member {
    int image;
    int64_t last_entered, last_ended, last_failed;  // -1: none
} stops_member;

typedef struct stops_sequence {
    uint32_t id;                      // the upper half of the ids of its collectives
    uint32_t group;                   // a name; 0: not known
    int64_t first_begun, last_begun;  // by any member
    int member_count;
    stops_member *members;
    // filled by stops_finish
    bool has_ended;     // there is one that all have ended without an error
    int64_t all_ended;  // the last one, or the number before the first
} stops_sequence;

// All zero: empty.
typedef struct stops {
    stops_sequence *sequences;
    int count;
    table by_id, members;
} stops;

// |e| is a collective. Returns false without memory.
bool stops_add(stops *s, const visit_event *e);
void stops_finish(stops_sequence *s);
void stops_fini(stops *s);

#endif
