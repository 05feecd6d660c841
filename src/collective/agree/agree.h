// Agreements: decisions of the members that remain in a group, which may be broken. docs/protocol/groups.md, GRP-11
// to GRP-18.
//
// Ownership: a group owns its agreements from the first one on; a call has one count on its group.
// Threads: with the loop lock.
#ifndef COLLECTIVE_AGREE_AGREE_H
#define COLLECTIVE_AGREE_AGREE_H

#include "agent/leaving/awaits.h"
#include "collective/agree/decision.h"

typedef enum agreement_kind { AGREE_NOT_CALLED, AGREE_FLAGS, AGREE_REFORM } agreement_kind;

// The proposal of a member.
typedef struct proposal {
    uint64_t number;  // 0: nothing
    uint8_t what;     // an agreement_kind
    uint64_t flags;
    uint32_t min;
    bool grow;
    gw_error *error;  // NULL: none
} proposal;

// A call of this member's program. The first call of a group is under way, the others wait.
typedef struct agreement_call {
    list_node link;
    gw_group *group;  // one count
    await await;      // of the other members
    proposal own;
    timer deadline;
    bool is_late;
    waiter *
        waiting;  // of its thread; NULL: the thread has stopped waiting, and the call ends by itself
    bool is_done;
    gw_error error;    // set if it ends without a decision
    decision *result;  // one count
} agreement_call;

struct agreements {
    gw_group *group;
    uint64_t released;  // the number of the last agreement that is over
    list_node calls;
    decision *stored;            // of the next number; NULL
    gw_error *missed;            // GRP-13: the error of the next call,
    bool missed_spares_reforms;  // unless that call re-forms the group
    bool *is_out;                // by index: lost, or absent
    uint64_t polled;             // the number that the leader has polled for

    // the leader's
    bool leads;            // it has sent the decision that it has stored
    bool *has_stored;      // by index
    bool *joining_stored;  // by index among the members of the decision
    proposal *proposals;   // by index, of the other members
    timer poll;
    bool is_impatient, has_hurried;  // about members that have not proposed
};

// The number of the last agreement of |g| that is over; 0.
static inline uint64_t agree_released(const gw_group *g) {
    return g->agreements ? g->agreements->released : 0;
}

static inline uint64_t agree_number(const agreements *x) {
    return x->released + 1;
}

// The agreements of |g|, created if it has none. NULL if allocation fails.
agreements *agree_of_on_loop(gw_group *g);
int agree_leader_on_loop(const gw_group *g);
// This member's current proposal; AGREE_NOT_CALLED without a call.
const proposal *agree_own_on_loop(const agreements *x);

agreement_call *agree_first_call(const agreements *x);  // the one under way; NULL
// Sends the proposal to the leader; decides if this member leads.
void agree_propose_on_loop(gw_group *g);
// Member |index| no longer participates.
void agree_is_out_on_loop(gw_group *g, int index);
void agree_no_memory_on_loop(gw_group *g);
// Ends the call with |d| or with |error|.
void agree_finish_call_on_loop(agreement_call *c, decision *d, const gw_error *error);
void agree_fail_calls_on_loop(agreements *x, const gw_error *error);
void agree_free_call(agreement_call *c);

// ---- Calls (agree_call.c) -----------------------------------------------------------------------

// Calls, waits, and returns the decision with one count; NULL with |s| failed.
decision *agree_call(gw_scope *s, gw_group *g, const char *what, const proposal *own,
                     int64_t timeout_ms);
void agree_release(gw_group *g, decision *d);  // releases one count of |d|; without the loop lock

// ---- The leader and the end ---------------------------------------------------------------------

// agree_leader.c: continues if this member leads. agree_joining_stored_on_loop: a joining member has stored the
// decision.
void agree_consider_on_loop(gw_group *g);
// Whether the leader waits for that member: for its proposal, or until it has stored the decision.
bool agree_is_silent_on_loop(const gw_group *g, int index);
void agree_joining_stored_on_loop(gw_group *g, int rank, uint64_t number);
// The decision is released here.
void agree_released_on_loop(gw_group *g);
// This member is absent from now on: its calls fail with |error|.
void agree_give_up_on_loop(gw_group *g, const gw_error *error);

// ---- Events from the service --------------------------------------------------------------------

bool agree_received_on_loop(gw_group *g, int from, uint8_t kind, const group_header *h, reader *in);
bool agree_names_unknown(const agent *a, const message *m);
void agree_lost_on_loop(gw_group *g, int index);
void agree_leaving_on_loop(gw_group *g);  // its program will not agree, or closes |g|
void agree_stop_on_loop(gw_group *g, const gw_error *why);
void agree_free(gw_group *g);
// |g| was re-formed. It leaves the table and frees its memory, but not the handle, once none of its runs continues in
// a backend.
void group_end_on_loop(gw_group *g);

// ---- Messages (agree_message.c) -----------------------------------------------------------------

void proposal_put(bytes *out, const proposal *p);
bool proposal_read(reader *in, proposal *out);  // |*out| is the caller's, also on failure
void proposal_clear(proposal *p);
void agree_answer_on_loop(agent *a, int to, uint8_t kind, const group_header *h);

// ---- The next generation (next_generation.c) ----------------------------------------------------

// The members of the next generation; NULL: it waits for more, or, with *out_failed, allocation failed.
decision *reform_choose_on_loop(gw_group *g, uint32_t min, bool grow, bool *out_failed);
// This worker will not be in |d|'s generation: sends that to its members.
void reform_break_next_on_loop(agent *a, const decision *d, const gw_error *error);

// ---- Requests to join (join_request.c) ----------------------------------------------------------

// Keeps the request of that worker. False if it has too many.
bool join_request_keep_on_loop(const agent *a, int from, const char *name, bool *out_is_new);
void join_request_drop_on_loop(const agent *a, int rank,
                               const char *name);  // NULL: all of that worker
int join_request_count_on_loop(const gw_group *g);
// The lowest rank above |after| of a worker that requests to join |g|; -1.
int join_request_next_on_loop(const gw_group *g, int after);
void join_request_free(list_node *requests);

#endif
