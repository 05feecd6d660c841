// The launchers of this user on this host, found by the sockets at which they listen to workers (channels.h).
//
// Threads: any.
#ifndef GRADWIRE_LAUNCHERS_H
#define GRADWIRE_LAUNCHERS_H

#include <sys/types.h>

enum { LAUNCHER_MARK_SIZE = 33 };

typedef struct launcher {
    pid_t pid;
    char mark[LAUNCHER_MARK_SIZE];  // of its processes
} launcher;

// Returns how many there are, -1 with errno; |out_all| is to be freed.
int launchers_find(launcher **out_all);

// Connects to a launcher as its workers do. Returns the descriptor, and its process in |out_pid|; -1: no launcher of this
// user has this mark, or it is too busy.
int launcher_connect(const char *mark, pid_t *out_pid);

#endif
