// Between the files of this room: what an agent lends and borrows.
//
// Threads: with the loop lock; the lists of what is borrowed have a lock of their own, a leaf,
// since blocks end on any thread.
#ifndef LEND_LENDING_H
#define LEND_LENDING_H

#include "agent/agent.h"
#include "lend/lend.h"
#include "lend/place.h"
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
    LENT_PLACE = 1,
    LENT_HOME,
    LENT_PULLED,
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

// What this worker has with one member; the second half is guarded by lending.lock.
typedef struct lend_peer {
    // as its lender
    offer_state state;
    unsigned ways;           // that it has accepted, a bit for each
    lend_reasons reasons;    // why it has not accepted the others
    process_watch *process;  // NULL: nothing is known of it
    uint64_t last_lease;
    map leases;  // by number
    uint64_t lent_bytes;

    // as its borrower
    bool was_offered;
    mapping *mapping;   // NULL: not accepted
    bool has_kept;      // some of its pages are copies: nothing new is read through it (LEND-17)
    source *source;     // NULL: not accepted, or
    bool source_ended;  // accepted once, and nothing is read of it any more
    map pulls;  // of pull, by lease: what is read of it for messages that are not opened yet
    uint64_t pulls_bytes;
    uint32_t borrowed_count;
    list_node borrowed;  // of borrowed, by |link|
    list_node returned;  // of borrowed, by |returned_link|: to be told
} lend_peer;

typedef struct lending {
    agent *agent;
    const char *off;   // what turns it off, in the environment; NULL: nothing does
    bool only_pulls;   // by the environment
    uint64_t badge;    // for those who read; 0: none
    bool is_leaving;   // lends and borrows no more
    bool stopped;      // written with both locks
    bool is_owner;     // said to be one of the arena's
    int users;         // of the arena, because of this agent
    list_node strays;  // of lease: lent to a member that is lost, whose process may still read
    lend_counts counts;
    timer strays_timer;
    int strays_wait_s;
    timer returns_timer;
    _Atomic bool returns_awaited;
    task keeping;  // copies what was borrowed from lost members
    bool keeps;

    pthread_mutex_t lock;
    int inside;  // threads that enter the env to tell of an end, of any agent: it is not closed meanwhile
} lending;

static inline lending *lending_of(const agent *a) {
    return agent_state(a, &lend_service);
}
static inline lend_peer *lend_peer_of(const agent *a, int rank) {
    return agent_member_part(a, rank, &lend_service);
}

extern const attachment_class lend_attachment;

// ---- As lender ----------------------------------------------------------------------------------

// Numbers that this worker leaves as they are until they come back.
typedef struct lease {
    gw_handle handle;
    agent *agent;  // not counted: outlived by it
    lent_kind kind;
    uint32_t index;   // of the segment
    uint64_t number;  // of a HOME, the borrowed lease's
    block *block;     // pinned; of a HOME, retained
    size_t offset, size;
    uint64_t at;
    list_node link;          // among the strays
    process_watch *process;  // of a stray: one count
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

// ---- As borrower --------------------------------------------------------------------------------

// Something that a peer has lent: until its block is gone and the peer has been told.
typedef struct borrowed {
    agent *agent;  // one count
    int from;
    uint64_t lease;
    mapping *mapping;  // one count; NULL: it is read
    const uint8_t *at;
    size_t size;
    uint8_t holders;  // the block, the list |returned|
    _Atomic bool is_returned;
    list_node link, returned_link;
} borrowed;

// The lease that |b| is, if it is borrowed from the worker of rank |from|; else NULL.
const borrowed *borrower_find(const agent *a, int from, const block *b);

void borrower_answer_on_loop(agent *a, int to, const lend_reasons *why);
gw_status borrower_offered_on_loop(agent *a, int from, reader *r, gw_error *error);
// What stands in the table of attachments.
typedef struct lent_entry {
    uint32_t index;
    uint8_t kind;
    uint64_t lease, at, size;
} lent_entry;

bool lent_entry_take(reader *r, lent_entry *out);

borrowed *borrower_note(agent *a, int from, const lent_entry *e, mapping *m);  // NULL: no memory
void borrower_forget(borrowed *x);  // it was not borrowed after all
void borrower_end(
    borrowed *x);  // nothing of it is used any more. Any thread, with no other agent's lock

gw_status borrower_read(agent *a, int from, reader *table, gw_handle **out, gw_error *error);
void borrower_take_in(gw_handle *h, uint32_t *out_index, segment *out);
void borrower_drop(agent *a, int from, reader *table);
bool borrower_skip(const agent *a, reader *table);

// Copies what is in use of the leases up to |last|, and gives them back.
void borrower_keep_on_loop(agent *a, int rank, uint64_t last);
void borrower_give_back_on_loop(agent *a, int rank);
void borrower_lost_on_loop(agent *a, int rank);
void borrower_stop_on_loop(lending *l);
void borrower_close(lending *l);  // returns when nobody uses the env any more
void borrower_free(lending *l);

// ---- Pulling ------------------------------------------------------------------------------------

// Reads what an entry says is to be read. False: it is under way, and deferred_retry_on_loop is called
// at its end. Adds the bytes that it takes here.
bool puller_fetch(agent *a, int from, reader *table, uint64_t *bytes);
// The block of what was read, with its count. Reads now what nobody has asked for before. On failure
// |puller_drop| follows.
gw_status puller_take(agent *a, int from, const lent_entry *e, block **out, gw_error *error);
bool puller_drop(agent *a, int from, uint64_t lease);  // false: nothing was read of it
void puller_forget_on_loop(agent *a, int rank);        // nothing of it is read any more

#endif
