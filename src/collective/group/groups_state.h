// All groups of an agent: the state of their service.
//
// Threads: with the loop lock.
#ifndef COLLECTIVE_GROUP_GROUPS_STATE_H
#define COLLECTIVE_GROUP_GROUPS_STATE_H

#include "collective/group/group.h"
#include "trace/sums.h"

enum { CLOSED_GROUPS = 4096, DROPPED_GROUPS = 16 };

// The state for each worker.
typedef struct groups_part {
    uint64_t unexpected_bytes;  // size of its unexpected messages here (unexpected.c)
    bool shares_group;          // has been in a group with this worker
    bool has_departed;          // GRP-7
} groups_part;

// The record of a group that was open here: closed by its program, or re-formed.
typedef struct closed_group {
    uint64_t id, list;
    uint64_t released;         // the last of its agreements that was over
    uint32_t next_generation;  // 0: it was closed
    gw_error *broken;          // the error that had broken it; NULL
    int leader;                // the rank of its first member; -1: this worker was never in it
} closed_group;

typedef struct groups {
    map groups;            // by id
    map named;             // by hash of the name: the first of those in |groups| that have a name
    map opened;            // by name and list: how many were opened
    map worlds;            // opening.c: by list, with one count
    map pending_groups;    // pending_groups.c: by id, with one count
    list_node unexpected;  // of groups that are not open here
    // Ids of groups that are not open here, of which a message was dropped because allocation failed: a ring of the
    // last ones.
    uint64_t dropped[DROPPED_GROUPS];
    uint32_t dropped_count;                  // of all
    list_node join_requests, join_attempts;  // join_request.c: of other workers, and of this one
    list_node inquiries;                     // stall_report.c
    uint64_t last_inquiry;
    uint64_t ended_count;    // of collectives
    trace_sums ended;        // the same by operation and group
    closed_group *closed;    // a ring of the last ones; NULL before the first
    uint32_t closed_count;   // of all
    gw_error *missed_error;  // GRP-24: of a group that the program has closed; NULL
    bool departs;            // GRP-7: this worker has sent its last message
} groups;

extern const service group_service;
extern const service_data group_data;
groups *groups_of(const agent *a);
groups_part *groups_part_of(const agent *a, int rank);
// GRP-7: the worker is lost after it has left in order.
bool groups_has_left_on_loop(const agent *a, int rank);
// |what|: the function that opens it. Sets its id, too.
void group_name_child(gw_group *g, const gw_group *of, uint64_t number, const char *what);
// Later messages of it are answered as by a member that has closed it, or whose generation has ended.
void groups_remember_closed_on_loop(const agent *a, closed_group was);
// The closed group of the header; NULL.
const closed_group *groups_find_closed_on_loop(const agent *a, const group_header *h);
// Whether this worker is, or was, in the generation of that id.
bool groups_has_met_on_loop(const agent *a, uint64_t id);

// Adds |g| under its id. |*out_lost| is set if it has to break, since a member is lost. DUPLICATE, LIMIT, NO_MEMORY,
// DISCONNECTED, WRONG_STATE.
gw_status groups_add_on_loop(gw_group *g, gw_error *out_lost, gw_error *error);
// The same for a parent of groups that have no other parent.
gw_status groups_add_world_on_loop(gw_group *g, gw_error *out_lost, gw_error *error);
// Adds |g|, whose opening is refused here: it counts, and the caller breaks it on the other members. False if they need
// not be notified, or allocation fails.
bool groups_refuse_on_loop(gw_group *g);
void groups_remove_on_loop(gw_group *g, uint64_t released);  // see closed_group
// Its final keys, history and queries.
void group_free_records(gw_group *g);
// As map_next; NULL at the end.
gw_group *groups_next_on_loop(const agent *a, map_cursor *at);

#endif
