// What tests of this room have in common: a host without an agent.
#ifndef STORE_STORE_TEST_H
#define STORE_STORE_TEST_H

#include "session/peers.h"
#include "store/store_internal.h"

static inline void ignore_message(void *user, int rank, message *m) {
    (void)user, (void)rank;
    message_release(m);
}

static inline void ignore_loss(void *user, int rank, const gw_error *why) {
    (void)user, (void)rank, (void)why;
}

static inline peers_options quiet_peers(env *e) {
    return (peers_options){
        .env = e, .rank = 0, .incarnation = 1, .received = ignore_message, .lost = ignore_loss
    };
}

// As in an agent: the listener passes connections with a *store* handshake to the store.
static inline gw_status open_host_with(env *e, peers *p, store_host_options options, store **out,
                                       gw_error *error) {
    gw_status status = store_open_host(e, options, out, error);
    if (!status) peers_serve_store(p, store_host_take, *out);
    return status;
}

static inline gw_status open_host(env *e, peers *p, store **out, gw_error *error) {
    return open_host_with(e, p, (store_host_options){ 0 }, out, error);
}

static inline void close_host(peers *p, store *st) {
    if (p) peers_serve_store(p, NULL, NULL);
    store_close(st);
    peers_close(p);
}

#endif
