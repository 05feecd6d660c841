// The ways to a worker: its addresses in order of preference, as far as the transports of this env
// know their schemes.
//
// Somebody who wants to connect makes a round: it begins with the address that has worked last, or
// the first, and goes on to the next whenever one fails, until one works or all have failed. What
// each has answered makes one sentence. A name is looked up when a round begins, and is as many
// addresses as it has then.
//
//     routes_begin(&r);
//     do status = transport_connect(routes_at(&r), ...);
//     while (status && routes_failed(&r, &error, true));   // else: error_kept(r.why)
//
// Ownership: of its texts. Threads: plain values.
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
    route *list;  // of this round: those, and in place of names what they stand for
    int count;
    int first, at;  // the one that has worked last; the one this round is at
    int failed_count;
    gw_error *why;     // of this round; kept
    gw_error *before;  // why those in front of the one that works did not; kept
} routes;

// One address of a list such as "tcp://127.0.0.1:29500,[::1]:29500".
typedef struct address_text {
    char scheme[SCHEME_MAX];  // "tcp" if it says none; "" if it is too long to be one
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

// Begins a round; false, and |why| says so, if there is no way at all. May take the time that
// looking up names takes.
bool routes_begin(routes *r);
const route *routes_at(const routes *r);

// The address of this moment has failed; true: another is to be tried. Else the round is over, and
// |why| tells: NOT_FOUND if each of them said that nobody is there, INVALID if none of them can be
// right, else the first that says something else. Of several addresses, this one is put in front of |why|,
// unless |why| |names_address| itself.
bool routes_failed(routes *r, const gw_error *why, bool names_address);
void routes_worked(routes *r);  // the next round begins with it

// All the listeners of a worker: at each of |addresses|, and of a transport of which there is none,
// where it likes.
// |out_addresses| is what others connect to, in the order of the transports. Fails as
// transport.listen if one of |addresses| cannot be had, UNSUPPORTED for an unknown scheme; what
// nobody has chosen may be missing.
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
