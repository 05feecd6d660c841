// Opening groups: by the program, by the library, as the next generation; and groups that are led before they are
// opened.
//
// Ownership: a group that is made has one count. Threads: as stated by the names.
#ifndef COLLECTIVE_OPENING_OPENING_H
#define COLLECTIVE_OPENING_OPENING_H

#include "collective/group/group.h"

// ---- For other rooms (opening.c) ----------------------------------------------------------------
// Groups of the library's own, so that their collectives never match those of the program.

typedef struct opening {
    const char *function;  // the function that the program has called
    const char *of;        // the object that is opened, for error texts; NULL: not given
    gw_list *options;      // a list of texts that must be equal on all members; NULL: none
    gw_value own;          // this member's input

    gw_list *inputs;  // the inputs of all members, by rank; owned by the scope of the call
} opening;

// A group with the members, the backend and the deadlines of |of|, held by |owner|; |of| NULL: of all workers that
// are present. Opened by a collective of |of|: fails |s| on all members if one does not enter, or opens something
// else (MISMATCH).
gw_group *group_open_own(gw_scope *s, gw_scope *owner, gw_group *of, opening *o);
// This member has failed with |s| before it could open the group: the other members receive that error.
void group_open_own_failed(gw_scope *s, gw_group *of);
// The group of all workers that the library has itself, with one count, for functions that take no group; also in a scope
// that has failed. The poison without one, with |s| failed.
gw_group *group_take_world(gw_scope *s);
// Members without input in a join answer the collectives of |g|, one of the library's own, as those of a program's.
void group_allow_shadows(gw_group *g);
void openings_close(agent *a);

// ---- Making and opening (group_make.c, group_open.c) --------------------------------------------

// group_make.c: a group of these workers that is not open yet. Its name is that of |o|, or |title|, or made of the
// members. NULL if allocation fails.
gw_group *group_make(agent *a, const gw_worker *workers, int count, gw_group_open_options o,
                     const char *title);
// A group that exists only for the aborts of its leader. NULL if allocation fails.
gw_group *group_make_pending(agent *a, const gw_worker *workers, int count, uint64_t id,
                             const char *title);

// The child of that number, opened by the function |what|; and the parent of groups that have no other
// parent.
gw_group *group_open_child(gw_scope *s, gw_group *of, uint64_t number, const char *what);
gw_group *group_open_world(gw_scope *s, agent *a, const gw_worker *workers, int count);
// The generation that |d| names, of which this worker is a member: broken if another member is lost.
gw_group *group_open_next(gw_scope *s, agent *a, const decision *d, bool has_name,
                          int64_t timeout_ms);

// ---- Pending groups: led by this worker before its program opens them (pending_groups.c) --------

bool pending_group_names_unknown(const agent *a, const message *m);
// The pending group of |h|, if |from| is a member; NULL.
gw_group *pending_group_find_on_loop(const agent *a, int from, const group_header *h);
// The same for a report, which creates the group. NULL: the message waits until the group is opened.
gw_group *pending_group_lead_on_loop(agent *a, int from, const group_header *h, const message *m);
// Whether an enter or part is void, by an abort or break; |from| is notified if needed.
bool pending_group_is_over_on_loop(const agent *a, int from, uint8_t kind, const group_header *h);
// |g| has just been opened: it takes over the state of the pending group.
void pending_group_hand_over_on_loop(gw_group *g);
void pending_group_lost_on_loop(agent *a, int rank);
void pending_groups_close(agent *a);

// hand_over.c: |g| has just been opened: it receives the messages that arrived before, or ends by them.
void unexpected_hand_over_on_loop(gw_group *g);

#endif
