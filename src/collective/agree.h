// Agreements: what the members of a group that are left decide together, also when it is broken.
// docs/protocol/groups.md, GRP-11 to GRP-18.
//
// Ownership: a group has its agreements from the first one on; a call has one count on its group.
// Threads: with the loop lock.
#ifndef COLLECTIVE_AGREE_H
#define COLLECTIVE_AGREE_H

#include "agent/awaits.h"
#include "collective/decision.h"

typedef enum agreement_kind { AGREE_NOT_CALLED, AGREE_FLAGS, AGREE_REFORM } agreement_kind;

// What a member has proposed.
typedef struct proposal {
    uint64_t number;  // 0: nothing
    uint8_t what;     // an agreement_kind
    uint64_t flags;
    uint32_t min;
    bool grow;
    gw_error *error;  // NULL: none
} proposal;

// A call of this member's program. The first one of a group is under way, the others wait.
typedef struct agreement_call {
    list_node link;
    gw_group *group;  // one count
    await await;      // of the other members
    proposal own;
    timer deadline;
    bool is_late;
    waiter *waiting;  // of its thread; NULL: that is gone, and the call with its end
    bool is_done;
    gw_error error;    // it has no decision
    decision *result;  // one count
} agreement_call;

struct agreements {
    gw_group *group;
    uint64_t released;  // the number of the last one that is over
    list_node calls;
    decision *stored;            // of the next number; NULL
    gw_error *missed;            // GRP-13: what the next call hears,
    bool missed_spares_reforms;  // unless it re-forms the group
    bool *is_out;                // by index: lost, or absent
    uint64_t polled;             // the number that the leader has asked for

    // the leader's
    bool leads;            // it has sent the decision that it has stored
    bool *has_stored;      // by index
    bool *joining_stored;  // by place among the decision's members
    proposal *proposals;   // by index, of the others
    timer poll;
    bool is_impatient, has_hurried;  // for those that have not come
};

static inline uint64_t agree_number(const agreements *x) {
    return x->released + 1;
}

// Those of |g|, which get memory if they have none. NULL without it.
agreements *agree_of_on_loop(gw_group *g);
int agree_leader_on_loop(const gw_group *g);
// What this member brings now; one that has not come without a call.
const proposal *agree_own_on_loop(const agreements *x);

agreement_call *agree_first_call(const agreements *x);  // the one under way; NULL
// To the leader; this member goes on itself if it is that.
void agree_propose_on_loop(gw_group *g);
// Member |index| takes no part any more.
void agree_is_out_on_loop(gw_group *g, int index);
void agree_no_memory_on_loop(gw_group *g);

// ---- Calls (agree_call.c) -----------------------------------------------------------------------

// With |d|, or with |error|.
void agree_finish_call_on_loop(agreement_call *c, decision *d, const gw_error *error);
void agree_fail_calls_on_loop(agreements *x, const gw_error *error);
// Calls, waits, and gives the decision with one count; NULL with |s| failed.
decision *agree_call(gw_scope *s, gw_group *g, const char *what, const proposal *own,
                     int64_t timeout_ms);
void agree_release(gw_group *g, decision *d);  // a count of that; without the loop lock

// ---- The leader and the end ---------------------------------------------------------------------

// agree_leader.c: goes on if this member leads; a newcomer has stored what was decided.
void agree_consider_on_loop(gw_group *g);
void agree_joining_stored_on_loop(gw_group *g, int rank, uint64_t number);
// The decision is released here.
void agree_released_on_loop(gw_group *g);
// This member is absent from here on: its calls fail with |error|.
void agree_give_up_on_loop(gw_group *g, const gw_error *error);

// ---- What the service tells ---------------------------------------------------------------------

bool agree_received_on_loop(gw_group *g, int from, uint8_t kind, const group_header *h, reader *in);
// Of a group that is not open here. *out_keeps: for when it is.
bool agree_unknown_received_on_loop(agent *a, int from, uint8_t kind, const group_header *h,
                                    reader in, bool *out_keeps);
bool agree_names_unknown(const agent *a, const message *m);
void agree_lost_on_loop(gw_group *g, int index);
void agree_leaving_on_loop(gw_group *g);  // its program will not agree, or closes |g|
void agree_stop_on_loop(gw_group *g, const gw_error *why);
void agree_free(gw_group *g);

// ---- Messages (agree_message.c) -----------------------------------------------------------------

void proposal_put(bytes *out, const proposal *p);
void proposal_clear(proposal *p);
// One with the header of |g|, or of |h|.
message *agree_message_on_loop(gw_group *g, uint8_t kind, uint64_t number);
void agree_answer_on_loop(agent *a, int to, uint8_t kind, const group_header *h);
// Takes |m|. False without memory.
bool agree_send_on_loop(agent *a, int to, message *m);

// ---- The next generation (reform.c) -------------------------------------------------------------

// Who is in it; NULL: it waits for more, or has no memory, which *out_failed says.
decision *reform_choose_on_loop(gw_group *g, uint32_t min, bool grow, bool *out_failed);
// This worker will not be in |d|'s generation: its members are told so.
void reform_break_next_on_loop(agent *a, const decision *d, const gw_error *error);

// ---- Newcomers (join_request.c) ------------------------------------------------------------------------

int join_request_count_on_loop(const gw_group *g);
// The lowest rank above |after| of a worker that knocks for |g|; -1.
int join_request_next_on_loop(const gw_group *g, int after);
bool join_request_received_on_loop(agent *a, int from, reader *in);
void join_request_joined_on_loop(agent *a, int rank);
void join_request_lost_on_loop(agent *a, int rank);
void join_request_stop_on_loop(agent *a, const gw_error *why);
// A decision about a group that is not open here; takes |d|.
void join_request_decided_on_loop(agent *a, const group_header *h, decision *d);
// A newcomer asks whether the generation of id h->key was released.
void join_request_polled_on_loop(agent *a, int from, const group_header *h);
bool join_request_released_on_loop(agent *a, const group_header *h);  // false: nobody waits for it

#endif
