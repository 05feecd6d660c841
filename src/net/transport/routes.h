// The routes to a worker: its addresses in order of preference, as far as the transports of this env
// support their schemes.
//
// A caller that wants to connect makes a round: it begins with the address that has worked last, or the first, and
// tries the next address whenever an address fails, until one works or all have failed. The error text lists the
// failure of each address. A host name is resolved when a round begins, and stands for its addresses at that time.
//
//     routes_begin(&r);
//     do status = transport_connect(routes_at(&r), ...);
//     while (status && routes_failed(&r, &error, true));   // else: error_kept(r.why)
//
// Ownership: the routes own their texts. Threads: plain values.
#ifndef NET_TRANSPORT_ROUTES_H
#define NET_TRANSPORT_ROUTES_H

#include "net/transport/transport.h"

enum { SCHEME_MAX = 16 };

typedef struct route {
    const transport *transport;
    char *address;  // without the scheme
} route;

typedef struct routes {
    char *text;  // all addresses, as they were given
    route *given;
    int given_count;
    route *list;  // of this round: names are replaced by their addresses
    int count;
    int first, at;  // the address that has worked last; the current one of this round
    int failed_count;
    gw_error *why;     // of this round; kept
    gw_error *before;  // why the addresses before the one that works failed; kept
} routes;

// One address of a list such as "tcp://127.0.0.1:29500,[::1]:29500".
typedef struct address_text {
    char scheme[SCHEME_MAX];  // "tcp" by default; "" if it is too long
    char rest[ADDRESS_MAX];   // "" if it is too long
} address_text;

// Takes the first address off the list at |*at|; false at its end.
bool address_take(const char **at, address_text *out);

// The transport of |e| that has addresses of |scheme|, or NULL.
const transport *transport_find(const env *e, const char *scheme);

// Addresses of unknown schemes are skipped; if none is left a round fails with INVALID. False
// without memory.
bool routes_init(routes *r, const env *e, const char *addresses);
void routes_fini(routes *r);

// Begins a round; false, with the reason in |why|, if there is no usable address. May block on
// the resolver.
bool routes_begin(routes *r);
const route *routes_at(const routes *r);

// The current address has failed. True: try the next. False: the round is over, and
// |why| reports it: NOT_FOUND if no address had a listener, INVALID if none of them can be
// right, else the first other status. With several addresses, this one is put in front of |why|,
// unless |why| |names_address| itself.
bool routes_failed(routes *r, const gw_error *why, bool names_address);
void routes_worked(routes *r);  // the next round begins with it

// All the listeners of a worker: at each of |addresses|, and for each transport without one there,
// at its default.
// |out_addresses| is what others connect to, in the order of the transports. Fails as
// transport.listen if one of |addresses| cannot be listened on, UNSUPPORTED for an unknown scheme; a
// default listener may be missing.
typedef struct listeners {
    listener *list[TRANSPORTS_MAX];
    int count;
} listeners;

gw_status listeners_open(env *e, const char *addresses, void (*accepted)(void *user, stream *s),
                         void *user, listeners *out, char out_addresses[ADDRESSES_MAX],
                         gw_error *error);
// One more, at a single address. LIMIT, UNSUPPORTED, or as transport.listen.
gw_status listeners_add(env *e, const char *address, void (*accepted)(void *user, stream *s),
                        void *user, listeners *l, gw_error *error);
void listeners_close(listeners *l);

#endif
