#include "observe/levels.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "trace/kinds.h"
#include "trace/layout.h"

static bool read_word(int fd, uint32_t *out, size_t at) {
    return pread(fd, out, sizeof *out, (off_t)at) == sizeof *out;
}

static bool write_word(int fd, uint32_t x, size_t at) {
    return pwrite(fd, &x, sizeof x, (off_t)at) == sizeof x;
}

static bool refuse_locked(int fd, char *why, size_t why_size) {
    uint32_t tracer = 0;
    if (errno != EWOULDBLOCK)
        snprintf(why, why_size, "it cannot be locked: %s", strerror(errno));
    else if (read_word(fd, &tracer, offsetof(trace_header, tracer)) && tracer)
        snprintf(why, why_size, "process %u traces it at the moment", tracer);
    else
        snprintf(why, why_size, "another process traces it at the moment");
    return false;
}

void levels_request(int fd, uint32_t levels) {
    write_word(fd, levels & TRACE_ALL, offsetof(trace_header, levels));
}

// Whether a process has taken the memory, and has noted its own levels.
static bool is_open(int fd) {
    char magic = 0;
    return pread(fd, &magic, 1, offsetof(trace_header, magic)) == 1 && magic;
}

static bool write_levels(int fd, uint32_t levels) {
    uint32_t now = 0, own = 0;
    if (!is_open(fd)) {
        read_word(fd, &now, offsetof(trace_header, levels));
        if ((now & levels) != levels && !write_word(fd, levels, offsetof(trace_header, levels)))
            return false;
    }
    // Also if the process has taken it meanwhile, and this has replaced its levels.
    if (!is_open(fd)) return true;
    return read_word(fd, &own, offsetof(trace_header, own_levels)) &&
           write_word(fd, (own | levels) & TRACE_ALL, offsetof(trace_header, levels));
}

bool levels_switch_on(int fd, uint32_t levels, char *why, size_t why_size) {
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) return refuse_locked(fd, why, why_size);
    if (write_word(fd, (uint32_t)getpid(), offsetof(trace_header, tracer)) &&
        write_levels(fd, levels))
        return true;
    snprintf(why, why_size, "its levels cannot be written: %s", strerror(errno));
    return false;
}

void levels_switch_back(int fd) {
    uint32_t own = 0;  // also if no process has taken it
    if (!read_word(fd, &own, offsetof(trace_header, own_levels))) return;
    write_word(fd, own & TRACE_ALL, offsetof(trace_header, levels));
    write_word(fd, 0, offsetof(trace_header, tracer));
    flock(fd, LOCK_UN);
}
