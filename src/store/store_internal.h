// The internals of the store: the functions of each kind of store, its table, and the records of
// docs/protocol/joining.md.
//
// Threads: with the loop lock held.
#ifndef STORE_STORE_INTERNAL_H
#define STORE_STORE_INTERNAL_H

#include "base/limits.h"
#include "base/map.h"
#include "store/store.h"

typedef struct store_class {
    // |registers|: see store_register; for clients of another worker's store.
    gw_status (*set)(store *st, const char *key, const void *value, size_t size, int64_t until_ns,
                     bool registers, bool *out_set, bytes *out_found, gw_error *error);
    gw_status (*wait)(store *st, const char *key, int64_t until_ns, bytes *out, gw_error *error);
    gw_status (*watch)(store *st,
                       gw_error *error);  // the table calls store_notify; NULL: unsupported
    void (*attend)(store *st);            // NULL: it ends with its host
    bool (*is_attended)(store *st);
    void (*expect_move)(store *st, int64_t ms);  // NULL: it stays where it is
    void (*close)(store *st);
} store_class;

struct store {
    const store_class *class;
    env *env;
    // what store_watch was given
    void (*found)(void *user, const char *key, const void *value, size_t size);
    void *found_user;
};

// Each kind of store calls it for each value that is set.
void store_notify(store *st, const char *key, const void *value, size_t size);

// ---- The table: keys and values, and the waits for them -----------------------------------------
typedef struct store_entry {
    bytes value;
    bool is_set;
    uint64_t token;   // of the request that has set it
    list_node waits;  // of type store_wait_entry; empty once it is set, and only then
    char key[];
} store_entry;

// A wait for an entry's value, on the stack of its thread or in a client's request.
typedef struct store_wait_entry {
    list_node link;  // in the entry's
    store_entry *entry;
    void (*found)(struct store_wait_entry *w, const bytes *value);  // taken out of the list before
} store_wait_entry;

typedef struct store_table {
    map entries;
    size_t size_bytes;
} store_table;

void store_table_init(store_table *t);
void store_table_fini(store_table *t);
const store_entry *store_table_find(const store_table *t,
                                    const char *key);  // NULL unless it is set

// Sets what is not set and ends the waits for it. NO_MEMORY, LIMIT.
gw_status store_table_set(store_table *t, const char *key, const void *value, size_t size,
                          uint64_t token, gw_error *error);
// Adds a wait for what is not set. False without memory.
bool store_table_wait(store_table *t, const char *key, store_wait_entry *w);
// Ends a wait, unless it has been found; with the last one of a key its entry goes.
void store_table_unwait(store_table *t, store_wait_entry *w);
size_t store_entry_cost(const char *key, size_t value_size);  // what a value counts for

// ---- Records ------------------------------------------------------------------------------------
typedef enum store_record_kind { STORE_SET = 1, STORE_WAIT, STORE_REPLY } store_record_kind;
typedef enum store_outcome {
    STORE_WAS_SET,
    STORE_FOUND,
    STORE_REFUSED,
    STORE_OUTCOME_COUNT
} store_outcome;

typedef struct store_record {
    store_record_kind kind;
    uint64_t request;
    uint64_t token;                       // set
    char key[LIMIT_STORE_KEY_BYTES + 1];  // set, wait
    store_outcome outcome;                // reply
    const uint8_t *value;                 // set, reply; borrowed
    size_t size;
} store_record;

enum { STORE_RECORD_MAX = LIMIT_STORE_VALUE_BYTES + 1024 };  // without its size

void store_record_encode(bytes *out, const store_record *r);
// Returns how many bytes the first record in |in| takes, 0 if it is not there whole. PROTOCOL.
gw_status store_record_decode(const uint8_t *in, size_t size, store_record *out, size_t *out_taken,
                              gw_error *error);

// Puts the value of |entry| behind what |out| holds. NO_MEMORY.
gw_status store_give_value(const store_entry *entry, bytes *out, gw_error *error);

// A store without events waits |delay_ms| before it looks again. False if |until_ns| has passed, or a signal has
// interrupted the wait.
bool store_pause(const store *st, const char *what, int64_t until_ns, int64_t delay_ms);

#endif
