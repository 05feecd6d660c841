// The addresses of this machine, and at which of them a worker listens once it goes beyond loopback.
//
//     char listen[ADDRESSES_MAX];
//     places_choose(&(places){ .toward = "10.0.0.1:29500" }, listen, &error);
//     // "tcp://10.0.0.7:0,tcp://[fd00::7]:0": the one from which the others' meeting place is reached comes first
//
// What a user has chosen is taken as it is; otherwise at most four addresses are: of interfaces that are up, the first of each
// kind, IPv4 before IPv6, those of the interface that leads to the meeting place before others. Bridges to containers and
// virtual machines, which have the same address on every host, are left out.
//
// Ownership, threads: plain values; places_choose asks the kernel, and may take the time that names take.
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
    // As GW_ADDRESS and GW_INTERFACE say: "10.0.0.7" or "10.0.0.7:29501,[fd00::7]", "eth0" or "eth0,ib0". NULL: not chosen.
    const char *addresses, *interfaces;
    const char *toward;  // where the others meet, "host:port"; "": in a file
    bool hosts;          // this worker is the one that is met there
} places;

// INVALID for what is no address, NOT_FOUND for interfaces and addresses that this machine does not have.
gw_status places_choose(const places *p, char out[ADDRESSES_MAX], gw_error *error);

// Whether what a user has chosen can be beyond loopback, by its text alone.
bool places_are_beyond(const char *addresses, const char *interfaces);

// ---- Inside, for tests --------------------------------------------------------------------------

// The same with these addresses in place of the machine's, and |source|, from which it would talk to the meeting place; NULL:
// it cannot.
gw_status places_choose_among(const places *p, const interface_address *all, int count,
                              const address *source, char out[ADDRESSES_MAX], gw_error *error);

#endif
