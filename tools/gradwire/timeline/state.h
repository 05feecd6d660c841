// What is known while a timeline is made.
#ifndef GRADWIRE_TIMELINE_STATE_H
#define GRADWIRE_TIMELINE_STATE_H

#include "timeline/clocks.h"
#include "timeline/gaps.h"
#include "timeline/names.h"
#include "timeline/pairs.h"
#include "timeline/tracks.h"

enum { TIMELINE_TEXT_SIZE = 640 };

// The first and the last record of an image.
typedef struct span {
    int64_t first_ns, last_ns;
    bool is_seen;  // its orphans are visited
} span;

// Of the collectives with one upper half of their ids.
typedef struct group {
    const char *text;
    uint32_t name;
} group;

typedef struct timeline {
    const image *images;
    int count;
    const clocks *clocks;
    const visitor *to;
    pairs pairs;
    gaps gaps;
    names names;
    tracks tracks;
    span *spans;                   // by image
    const image_record **records;  // by thread, one image after the other: its first record
    uint32_t *numbers;             // the same: the number of that
    int thread_count;
    table groups_by_id;  // by the upper half of the ids of collectives: an index of |groups|
    group *groups;
    uint32_t group_count;
    visit_flow *flows;
    int flow_capacity;
    bool failed;
} timeline;

#endif
