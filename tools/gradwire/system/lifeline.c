#include "system/lifeline.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

pid_t lifeline_fork(int *out_fd) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return -1;
    pid_t pid = fork();
    int error = errno;
    *out_fd = ends[pid != 0];
    close(ends[pid == 0]);
    if (pid < 0) close(*out_fd);
    errno = error;
    return pid;
}
