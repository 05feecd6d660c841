// What a hang report is made of.
#ifndef GRADWIRE_HANG_PARTS_H
#define GRADWIRE_HANG_PARTS_H

#include "observe/describe.h"
#include "observe/hang.h"

enum { HANG_CYCLE_MAX = 64 };

// A root, or a cycle, and what waits for it.
typedef struct hang_part {
    bool is_cycle;
    int nodes[HANG_CYCLE_MAX];   // a root; or the nodes of a cycle, in order
    int node_count, cycle_size;  // |cycle_size|: also of those beyond |nodes|
    int waiter_count;
    waiter_step *waiters;
} hang_part;

typedef struct hang_parts {
    graph graph;
    int count;
    hang_part *parts;  // roots first
} hang_parts;

// Returns false without memory.
bool hang_parts_find(const image *images, int count, int64_t min_ns, pid_t pid, hang_parts *out);
void hang_parts_free(hang_parts *p);

void hang_write_json(const hang_parts *p, const hang_options *o, FILE *out);

#endif
