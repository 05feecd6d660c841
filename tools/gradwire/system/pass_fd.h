// Messages that pass a descriptor to another process of this host, over a socket that keeps their boundaries.
#ifndef GRADWIRE_PASS_FD_H
#define GRADWIRE_PASS_FD_H

#include <stdbool.h>
#include <sys/types.h>

// Both do not wait. False with errno: the message is not sent.
bool pass_fd(int socket, const void *message, size_t size, int fd);

// As recv. |*out_fd|: the descriptor, which the caller closes; -1: there is none.
ssize_t receive_fd(int socket, void *message, size_t size, int *out_fd);

#endif
