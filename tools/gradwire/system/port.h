// Free ports of this machine.
#ifndef GRADWIRE_PORT_H
#define GRADWIRE_PORT_H

#include <stdbool.h>

// Picks a free port of |host|, an address or name of this machine, and reserves it while |out_fd| is open: the socket
// stays bound, never listens, and allows its address to be shared (SO_REUSEADDR), so that rank 0 can listen there if it
// sets SO_REUSEADDR as well, as servers do. The kernel gives the port to no other process in between. Returns 0 if there
// is none, with errno.
int port_reserve(const char *host, int *out_fd);

// Whether a process of this machine could listen at |endpoint|, "host:port": the address is of this machine, and none does.
bool port_is_free(const char *endpoint);

#endif
