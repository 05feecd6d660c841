// A free port for MASTER_PORT.
#ifndef GRADWIRE_PORT_H
#define GRADWIRE_PORT_H

// Picks a port of |host|, an address or name of this machine, that nobody uses and keeps it from others while |out_fd| is open: the
// socket stays bound, never listens, and allows its address to be shared (SO_REUSEADDR), so that
// rank 0 can listen there if it allows the same, as servers do. Nobody else is given the port in
// between. Returns 0 if there is none, with errno.
int port_reserve(const char *host, int *out_fd);

#endif
