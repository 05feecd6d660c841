// Addresses in text: "127.0.0.1:29500", "[::1]:29500", "localhost:29500".
#ifndef NET_ADDRESS_H
#define NET_ADDRESS_H

#include "net/transport.h"

#include <sys/socket.h>

typedef struct address {
    struct sockaddr_storage bytes;
    socklen_t size;
} address;

// Whether |text| has the form of an address, without looking a name up. INVALID.
gw_status address_check(const char *text, gw_error *error);

// Understands |text| and looks a name up, which may take the time that names take. Fails with
// INVALID if it is no address or beyond this machine, NOT_FOUND if nothing has this name.
gw_status address_parse(const char *text, address *out, gw_error *error);

// The other way round; numbers, never names.
void address_format(const address *a, char out[ADDRESS_MAX]);

int address_port(const address *a);
bool address_equal(const address *a, const address *b);

#endif
