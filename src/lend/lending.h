// Shared by the files of this room: the leases that an agent has given and holds.
//
// Threads: with the loop lock; the lists of held leases have a lock of their own, a leaf,
// since blocks end on any thread.
#ifndef LEND_LENDING_H
#define LEND_LENDING_H

#include "agent/state/agent.h"
#include "lend/lend.h"
#include "lend/mapping.h"
#include "lend/source.h"
#include "lend/ways.h"

enum {
    LEND_KIND_OFFER = 56,
    LEND_KIND_ANSWER,
    LEND_KIND_RETURNS,
    LEND_KIND_RECALL,
    LEND_ATTACHMENT = 4,
};

typedef enum lent_kind {
    LENT_MAPPED = 1,
    LENT_OWN,
    LENT_READ,
} lent_kind;

typedef enum offer_state {
    OFFER_NONE,
    OFFER_MADE,
    OFFER_ANSWERED,
} offer_state;

enum { LEND_REASON_BYTES = 128 };

typedef struct lend_reasons {
    char map[LEND_REASON_BYTES], read[LEND_REASON_BYTES];
} lend_reasons;

// The state shared with one member; the second half is guarded by lending.lock.
typedef struct lend_peer {
    // as its lender
    offer_state state;
    unsigned ways;           // that it has accepted, a bit for each
    lend_reasons reasons;    // why it has not accepted the others
    process_watch *process;  // NULL: unknown
    uint64_t last_lease;
    map leases;  // by number

    // as its receiver
    bool was_offered;
    mapping *mapping;   // NULL: not accepted
    bool has_kept;      // some of its pages are copies: nothing new is read through it (LEND-17)
    source *source;     // NULL: not accepted, or
    bool source_ended;  // accepted once, and not readable any more
    map reads;          // of remote_read, by lease: for messages that are not opened yet
    uint64_t reads_bytes;
    uint32_t held_count;
    list_node held;      // of held_lease, by |link|
    list_node returned;  // of held_lease, by |returned_link|: to be sent
} lend_peer;

typedef struct lending {
    agent *agent;
    const char *off;    // the variable that disables it; NULL: none
    bool only_reads;    // by the environment
    uint64_t tag;       // for remote reads; 0: none
    bool is_leaving;    // lends and maps no more
    bool stopped;       // written with both locks
    bool is_owner;      // recorded as one of the arena's
    int users;          // of the arena, because of this agent
    list_node orphans;  // of lease: lent to a lost member, whose process may still read
    lend_counts counts;
    timer orphans_timer;
    int orphans_wait_s;
    timer returns_timer;
    _Atomic bool returns_awaited;
    task keeping;  // copies memory of lost members that is in use
    bool keeps;

    pthread_mutex_t lock;
    int env_users;  // threads of any agent that use the env to return a lease: it is not closed meanwhile
} lending;

extern const service_data lend_data;

static inline lending *lending_of(const agent *a) {
    return agent_state(a, &lend_data);
}
static inline lend_peer *lend_peer_of(const agent *a, int rank) {
    return agent_member_part(a, rank, &lend_data);
}

extern const attachment_class lend_attachment;

// ---- As lender ----------------------------------------------------------------------------------

// Memory that this worker does not reuse until the lease is returned.
typedef struct lease {
    gw_handle handle;
    agent *agent;  // not counted: it outlives the lease
    lent_kind kind;
    uint32_t index;   // of the segment
    uint64_t number;  // of an OWN, the held lease's
    block *block;     // pinned; of an OWN, retained
    size_t offset, size;
    uint64_t at;
    list_node link;          // among the orphans
    process_watch *process;  // of an orphan: one count
} lease;

void lender_prepare(block *b);
bool lender_may_lend(agent *a, int to, const segment *g);
gw_handle *lender_lend(agent *a, int to, uint32_t index, const segment *g);
bool lender_write(gw_handle *h, void *prepared, int to, bytes *table, gw_error *error);
void lender_undo(gw_handle *h, int to, const uint8_t *written);

gw_status lender_answered_on_loop(agent *a, int from, reader *r, gw_error *error);
gw_status lender_returned_on_loop(agent *a, int from, reader *r, gw_error *error);
void lender_recall_on_loop(agent *a, int rank);
void lender_lost_on_loop(agent *a, int rank);
void lender_stop_on_loop(lending *l);
void lender_free(lending *l);

// ---- As receiver --------------------------------------------------------------------------------

// A lease that a peer has given: until its block is gone and the return has been sent.
typedef struct held_lease {
    agent *agent;  // one count
    int from;
    uint64_t lease;
    mapping *mapping;  // one count; NULL: by a remote read
    const uint8_t *at;
    size_t size;
    uint8_t holders;  // the block, the list |returned|
    _Atomic bool is_returned;
    list_node link, returned_link;
} held_lease;

// The held lease of |b|, if it is from the worker of rank |from|; else NULL.
const held_lease *receiver_find(const agent *a, int from, const block *b);

void receiver_answer_on_loop(agent *a, int to, const lend_reasons *why);
gw_status receiver_offered_on_loop(agent *a, int from, reader *r, gw_error *error);
// An entry in the table of attachments.
typedef struct lent_entry {
    uint32_t index;
    uint8_t kind;
    uint64_t lease, at, size;
} lent_entry;

bool lent_entry_take(reader *r, lent_entry *out);

gw_status receiver_no_memory(gw_error *error);  // for a tensor that was lent
held_lease *receiver_note(agent *a, int from, const lent_entry *e, mapping *m);  // NULL: no memory
void receiver_forget(held_lease *x);  // after a failure: as if it had not been received
void receiver_end(
    held_lease *x);  // it is not used any more. Any thread, with no other agent's lock

gw_status receiver_read(agent *a, int from, reader *table, gw_handle **out, gw_error *error);
void receiver_take_in(gw_handle *h, uint32_t *out_index, segment *out);
void receiver_drop(agent *a, int from, reader *table);
bool receiver_skip(const agent *a, reader *table);

// Copies the memory in use of the leases up to |last|, and returns them.
void receiver_keep_on_loop(agent *a, int rank, uint64_t last);
void receiver_give_back_on_loop(agent *a, int rank);
void receiver_lost_on_loop(agent *a, int rank);
void receiver_stop_on_loop(lending *l);
void receiver_close(lending *l);  // returns when no thread uses the env any more
void receiver_free(lending *l);

// ---- Remote read --------------------------------------------------------------------------------

// Starts to read the memory of an entry. False: it continues, and deferred_retry_on_loop is called
// at its end. Adds the bytes that it allocates here.
bool remote_read_fetch(agent *a, int from, reader *table, uint64_t *bytes);
// The block with the bytes, with its count. Reads now if remote_read_fetch was not called before. On failure
// |remote_read_drop| follows.
gw_status remote_read_take(agent *a, int from, const lent_entry *e, block **out, gw_error *error);
bool remote_read_drop(agent *a, int from, uint64_t lease);  // false: there was no such read
void remote_read_forget_on_loop(agent *a, int rank);        // drops all reads from |rank|

#endif
