// The store: the small key-value service where workers find each other.
//
// One worker hosts the store and gets the connections with a *store* handshake (tcp://, env://), or the store is in a
// file (file://), or in a Redis server (redis://). Keys are texts of 1 to LIMIT_STORE_KEY_BYTES bytes, values bytes, at
// most LIMIT_STORE_VALUE_BYTES; a value is set once, never changes, and is read by waiting for it.
//
// Ownership: the caller of store_open_* closes the store, while no thread waits in the store. Threads: with the loop
// lock held; the calls that take a time wait by env_wait, so that several threads may be in them at once.
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include "base/bytes.h"
#include "base/env.h"
#include "net/connection.h"

typedef struct store store;

// What clients may do with a key (STORE-7).
typedef enum store_use {
    STORE_READ_ONLY,   // no client sets it
    STORE_BY_WORKERS,  // registered clients set it
    STORE_REGISTERS,   // the client that sets it is registered from then on
} store_use;

typedef struct store_host_options {
    // NULL: any first key registers a client, which may set all others.
    store_use (*use_of)(void *user, const char *key);
    void *user;
    int64_t registered_max;  // clients; 0: LIMIT_WORKERS
} store_host_options;

// The store inside this agent. Others use it through connections that store_host_take gets.
gw_status store_open_host(env *e, store_host_options options, store **out, gw_error *error);

// Takes a connection with a *store* handshake; |host| is the store that store_open_host has opened.
// Not after store_close.
void store_host_take(void *host, connection *c);

// The store at the first of |addresses| that works: connects, again and again until |until_ns|,
// since the host may start later. TIMEOUT with the last error, MISMATCH for a host of another version, PROTOCOL if another
// service listens there.
gw_status store_open_client(env *e, const char *addresses, int64_t until_ns, store **out,
                            gw_error *error);

// The store in a file, shared by processes of one machine, locked by fcntl; it is created if
// absent. SYSTEM, or INVALID if the file is something else.
gw_status store_open_file(env *e, const char *path, store **out, gw_error *error);

// The store in a Redis server, "redis://host:port/database", of the job whose id is in the env's protection; values are
// sealed with its key, if there is one. |password| may be NULL. DISCONNECTED if the server does not answer for 5 s,
// INVALID with the server's error, UNSUPPORTED in a build without hiredis.
gw_status store_open_redis(env *e, const char *url, const char *password, store **out,
                           gw_error *error);
// The store of a group moves: for |ms| after the loss of its host the client tries all addresses, where another member may
// host it next. Requests without an answer are repeated; values that the last host has stored are not in the next store.
// No effect for a file, and for this worker's own store.
void store_expect_move(store *st, int64_t ms);

void store_close(store *st);  // NULL is fine

// Sets |key| if it is absent; *out_set is whether it was. Otherwise |out_found| (may be NULL) gets its value. INVALID,
// LIMIT, TIMEOUT at |until_ns|, DISCONNECTED when the host is gone.
gw_status store_set_if_absent(store *st, const char *key, const void *value, size_t size,
                              int64_t until_ns, bool *out_set, bytes *out_found, gw_error *error);

// As store_set_if_absent, of the key that registers this worker with the host of the store (STORE-7):
// it is set again over each connection that follows, and in the store of the next host.
gw_status store_register(store *st, const char *key, const void *value, size_t size,
                         int64_t until_ns, bool *out_set, bytes *out_found, gw_error *error);

// Calls |found| for each value of this worker's own store or file: for those that are set first,
// and then as they are set, in that order, until the store closes. UNSUPPORTED for a store of
// another worker. |found| runs in callbacks of the loop, and inside functions of the store, which
// it must not call.
gw_status store_watch(store *st,
                      void (*found)(void *user, const char *key, const void *value, size_t size),
                      void *user, gw_error *error);

// A worker of the job attends its store, until it closes the store or ends. store_is_attended: whether another worker
// does; none attends the store of a job that is over.
void store_attend(store *st);
bool store_is_attended(store *st);

// Waits for |key|, and puts its value behind what |out| holds. TIMEOUT at |until_ns|, DISCONNECTED
// when the host is gone.
gw_status store_wait(store *st, const char *key, int64_t until_ns, bytes *out, gw_error *error);

#endif
