// Addresses in text: "127.0.0.1:29500", "[::1]:29500", "localhost:29500".
#ifndef NET_ADDRESS_H
#define NET_ADDRESS_H

#include "base/env.h"

#include <sys/socket.h>

typedef struct address {
    struct sockaddr_storage bytes;
    socklen_t size;
} address;

// Understands |text| and looks a name up, which may take the time that names take. Fails with INVALID if it is no
// address or beyond this machine, NOT_FOUND if nothing has this name.
gw_status address_parse(const char *text, address *out, gw_error *error);

// The other way round; numbers, never names.
void address_format(const address *a, char out[ENV_ADDRESS_MAX]);

int address_port(const address *a);
bool address_equal(const address *a, const address *b);

#endif
