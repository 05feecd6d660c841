// Internals of the membership machine.
//
// member_list.c has the members, failure_detector.c suspects, indirect_probe.c queries other members, view.c merges,
// coordinator.c commits, finish.c notifies, admission.c admits, membership.c decides. Each uses those before it.
#ifndef MEMBERSHIP_MEMBERSHIP_INTERNAL_H
#define MEMBERSHIP_MEMBERSHIP_INTERNAL_H

#include "membership/membership.h"

// The state of a member, as this worker sees it.
typedef enum member_state {
    MEMBER_UNMONITORED,  // others monitor it
    MEMBER_ALIVE,
    MEMBER_SUSPECTED,  // silent, and no probe has refuted it yet
    MEMBER_GONE,
} member_state;

typedef enum member_event {
    MEMBER_MONITOR,
    MEMBER_UNMONITOR,
    MEMBER_RECEIVED,
    MEMBER_SILENT,
    MEMBER_END,
} member_event;

typedef enum probe_outcome { NOT_PROBED, UNREFUTED_BY_SOME, UNREFUTED_BY_ALL } probe_outcome;

typedef struct member {
    // the view
    member_fact fact;
    bool is_queued;  // admitted here, and not yet sent to any other

    // failure detection
    member_state state;
    int64_t known_ns;       // since when it is a member here
    int64_t direct_ns;      // when bytes were last received from it; 0: never
    int64_t alive_ns;       // the same, or when another member reported it alive
    int64_t monitored_ns;   // since when it is monitored
    int64_t answered_ns;    // when it last sent an answer
    bool heartbeat_is_out;  // a heartbeat was sent since bytes were last received
    bool is_link_logged;    // since bytes were last received, the log has that its link is bad
    int awaits;

    // the indirect probe
    uint64_t probe;  // number of the round; 0: none
    int64_t probe_ns;
    int queried, answered;
    bool queried_all;
    probe_outcome outcome;
    int next_witness;  // rank at which the next round begins

    // the view that it has
    uint64_t reported;  // its last digest
    bool agrees;        // it has had our view since this worker is coordinator
    int64_t view_requested_ns;
    uint64_t full_sent, full_for;  // the last full view sent to it, and its digest then
    int64_t full_ns;

    // to be done at the end of the event
    bool is_dirty;    // to be sent to others
    bool wants_full;  // has joined: a full view is to be sent to it
    bool must_notify_joined, must_notify_gone;
    bool was_present;  // when this worker first received it in a view
    bool is_notified_suspected;
    gw_status why;          // of its end; the fact has the text
    bool is_declared_here;  // dead, by this worker
    bool has_left;  // it has closed its session with this worker, which it took for a member
} member;

// A probe of another member that this worker has not answered yet.
typedef struct pending_probe {
    list_node link;
    int from, rank;
    uint64_t number;
    int64_t received_ns;
} pending_probe;

struct membership {
    membership_options options;
    member **by_rank;
    int limit, capacity;
    uint64_t digest, epoch;
    int lowest;       // rank that is present: the coordinator
    int coordinator;  // of the last notification
    int admitted_by;  // the first

    bool is_started, is_complete, is_fenced;
    bool in_finish;
    int64_t coordinator_since_ns;  // 0: from the start
    bool coordinator_has_quorum;   // as the coordinator reports
    bool has_quorum;               // as this worker has reported, being coordinator
    bool had_quorum;               // ever
    int changed_by;                // the member whose message changed the view; -1: none
    bool spreads;                  // a change was decided here: it is to be sent to all
    gw_error fenced_why;
    bool must_notify_fenced;

    int64_t due_ns;               // of the next tick
    int64_t contact_ns;           // when this worker last was in contact
    int64_t contact_evidence_ns;  // the evidence for that contact is no later than this
    int64_t doubt_ns;             // since when it may have been declared dead; 0: it has not
    int64_t no_coordinator_ns;    // since when it monitors all, without a coordinator; 0: not
    uint64_t last_probe;          // number
    list_node pending_probes;
};

member *member_find(const membership *ms, int rank);  // NULL if unknown
member *member_make(membership *ms, const member_fact *f, int64_t now_ns);
member *member_self(const membership *ms);
void member_apply(membership *ms, member *x, member_event event, int64_t now_ns);
bool member_is_present(const member *x);  // joining or active
bool member_receives_from(const membership *ms, const member *x, int64_t within_ns, int64_t now_ns);
typedef bool member_test(const membership *ms, const member *x, int64_t within_ns, int64_t now_ns);
bool membership_is_quorum(const membership *ms, bool voters, member_test *test, int64_t within_ns,
                          int64_t now_ns);
bool membership_receives_from_quorum(const membership *ms, int64_t within_ns, int64_t now_ns);
void membership_fence(membership *ms, const gw_error *why);
// |why| is the loss of this worker itself.
void membership_set_lost_self(const membership *ms, gw_loss how, gw_error *why);
void membership_send_heartbeat(membership *ms, member *x);
void membership_request_answer(membership *ms, member *x);  // by a heartbeat with that flag

// The member after |x|, by rank; after NULL the first; NULL at the end.
member *member_next(const membership *ms, const member *x);

static inline bool member_is_self(const membership *ms, const member *x) {
    return x->fact.rank == ms->options.rank;
}
static inline bool membership_is_coordinator(const membership *ms) {
    return ms->lowest == ms->options.rank;
}

// ---- failure_detector.c -------------------------------------------------------------------------
int64_t member_silence(const member *x, int64_t since_ns, int64_t now_ns);
// MEM-14: whether this worker decides in the coordinator's place.
bool membership_is_candidate(const membership *ms, int64_t now_ns);
bool member_is_monitored(const membership *ms, const member *x);
void membership_detect_failures(membership *ms, int64_t now_ns);

// ---- coordinator.c ------------------------------------------------------------------------------
void membership_commit_view(membership *ms, int64_t now_ns);
void membership_announce(membership *ms, int64_t now_ns);
void membership_request_views(membership *ms, int64_t now_ns);

// ---- view.c -------------------------------------------------------------------------------------
// Advances |x| to |stage|; false if it is there already.
bool member_advance(membership *ms, member *x, member_stage stage, bool left, const gw_error *why,
                    int64_t now_ns);                // |why| of one that is gone
bool membership_has_pending(const membership *ms);  // members that wait for a quorum
void membership_send_view(membership *ms, const member *to, bool full);
gw_status membership_merge(membership *ms, member *from, membership_message *m, int64_t now_ns,
                           gw_error *error);
void membership_note_digest(membership *ms, member *from, const membership_message *m,
                            int64_t now_ns);

// ---- finish.c -----------------------------------------------------------------------------------
void membership_finish(membership *ms, int64_t now_ns);  // notifies others, then the user

// ---- indirect_probe.c ---------------------------------------------------------------------------
void membership_probe(membership *ms, int64_t now_ns);  // about suspected members
bool member_is_unrefuted(const membership *ms, const member *x, bool by_all);
void membership_answer_probe(membership *ms, member *from, const membership_message *m,
                             int64_t now_ns);
void membership_probe_reply(membership *ms, const member *from, const membership_message *m,
                            int64_t now_ns);
void membership_call_back(membership *ms, const membership_message *m);
void membership_answer_due_probes(membership *ms, int64_t now_ns);
void membership_drop_probes(membership *ms);

#endif
