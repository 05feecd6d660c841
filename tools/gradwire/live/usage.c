#include "live/usage.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool read_file(pid_t pid, const char *name, char *out, size_t size) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, out, size - 1) : -1;
    if (fd >= 0) close(fd);
    out[n > 0 ? n : 0] = '\0';
    return n > 0;
}

bool process_usage_read(pid_t pid, process_usage *out) {
    char text[1024];
    uint64_t pages, user, system;
    *out = (process_usage){ 0 };
    if (!read_file(pid, "statm", text, sizeof text) || sscanf(text, "%*u %" SCNu64, &pages) != 1)
        return false;
    if (!read_file(pid, "stat", text, sizeof text)) return false;
    // The second field is the program's name in parentheses, and may hold anything.
    const char *after_name = strrchr(text, ')');
    if (!after_name ||
        sscanf(after_name + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %" SCNu64 " %" SCNu64,
               &user, &system) != 2)
        return false;
    out->resident_bytes = pages * (uint64_t)sysconf(_SC_PAGESIZE);
    out->processor_ns =
        (int64_t)((user + system) * (UINT64_C(1000000000) / (uint64_t)sysconf(_SC_CLK_TCK)));
    return true;
}
