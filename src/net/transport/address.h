// Addresses in text: "127.0.0.1:29500", "[::1]:29500", "localhost:29500".
#ifndef NET_TRANSPORT_ADDRESS_H
#define NET_TRANSPORT_ADDRESS_H

#include "net/transport/transport.h"

#include <sys/socket.h>

typedef struct address {
    struct sockaddr_storage bytes;
    socklen_t size;
} address;

// Whether |text| has the form of an address, without looking a name up. INVALID.
gw_status address_check(const char *text, gw_error *error);

// Parses |text| and resolves a name, which may block on the resolver. Writes
// at most |limit| addresses, those of this machine first, the others in the order of the
// resolver. INVALID if it is no address, NOT_FOUND if the name does not resolve.
gw_status address_resolve(const char *text, address *out, int limit, int *out_count,
                          gw_error *error);
gw_status address_parse(const char *text, address *out, gw_error *error);  // the first of them

// Of this machine alone: 127.0.0.0/8, ::1.
bool address_is_loopback(const address *a);
bool address_is_any(const address *a);         // 0.0.0.0, ::
bool address_is_link_local(const address *a);  // which mean something on one link alone

// The same of a host in text, by its form alone: a name is none, but for "localhost".
bool host_is_loopback(const char *host);

// NOT_FOUND for a name that no address is found for: "|what| is ..., a name without an address".
// Calls the system's resolver, which may take seconds.
gw_status host_check(const char *what, const char *host, gw_error *error);

// The inverse of address_parse; numbers, never names.
void address_format(const address *a, char out[ADDRESS_MAX]);

// Its 16 bytes as an IPv6 address, an IPv4 one as ::ffff:a.b.c.d. False: it is neither.
bool address_bytes(const address *a, uint8_t out[16]);

int address_port(const address *a);
void address_set_port(address *a, int port);
bool address_equal(const address *a, const address *b);

#endif
