// The addresses of this machine, and on which of them a worker listens beyond loopback.
//
//     char listen[ADDRESSES_MAX];
//     places_choose(&(places){ .toward = "10.0.0.1:29500" }, listen, &error);
//     // "tcp://10.0.0.7:0,tcp://[fd00::7]:0": first the address from which the rendezvous is reached
//
// Addresses that a user has chosen are taken as they are. By default there are at most four: of interfaces that are up,
// the first of each kind, IPv4 before IPv6, those of the interface toward the rendezvous first. Bridges to containers
// and virtual machines, which have the same address on every host, are left out.
//
// Ownership, threads: plain values; places_choose queries the kernel and may block on the resolver.
#ifndef NET_TRANSPORT_INTERFACES_H
#define NET_TRANSPORT_INTERFACES_H

#include "net/transport/address.h"
#include <net/if.h>

enum { INTERFACES_MAX = 256, PLACES_MAX = 4 };

typedef struct interface_address {
    char name[IF_NAMESIZE];
    address at;
} interface_address;

typedef struct places {
    // The values of GW_ADDRESS and GW_INTERFACE: "10.0.0.7" or "10.0.0.7:29501,[fd00::7]", "eth0" or "eth0,ib0". NULL:
    // not set.
    const char *addresses, *interfaces;
    const char *toward;  // the rendezvous, "host:port"; "": a file
    bool hosts;          // this worker hosts the rendezvous
} places;

// INVALID for a malformed address, NOT_FOUND for interfaces and addresses that this machine does not have.
gw_status places_choose(const places *p, char out[ADDRESSES_MAX], gw_error *error);

// Whether an address or interface that a user has chosen can be beyond loopback, by its text alone.
bool places_are_beyond(const char *addresses, const char *interfaces);

// ---- Internal, for tests ------------------------------------------------------------------------

// The same with these addresses instead of the machine's; |source| is the local address toward the rendezvous, NULL if
// it is unreachable.
gw_status places_choose_among(const places *p, const interface_address *all, int count,
                              const address *source, char out[ADDRESSES_MAX], gw_error *error);

#endif
