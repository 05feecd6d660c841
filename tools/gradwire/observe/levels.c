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

// Whether a process has taken the memory, and has noted what is to be on after a request.
static bool is_open(int fd) {
    char magic = 0;
    return pread(fd, &magic, 1, offsetof(trace_header, magic)) == 1 && magic;
}

static bool write_levels(int fd, uint32_t levels) {
    uint32_t now = 0, before = 0;
    bool was_open = is_open(fd);
    read_word(fd, &now, offsetof(trace_header, levels));
    if (!was_open)
        return (now & levels) == levels || write_word(fd, levels, offsetof(trace_header, levels));
    // Of a request, or of a tool that was killed.
    read_word(fd, &before, offsetof(trace_header, levels_before));
    if (!(before & TRACE_ALL)) before = now;
    return write_word(fd, before, offsetof(trace_header, levels_before)) &&
           write_word(fd, (before | levels) & TRACE_ALL, offsetof(trace_header, levels));
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
    uint32_t before = 0;
    if (!read_word(fd, &before, offsetof(trace_header, levels_before))) return;
    write_word(fd, before & TRACE_ALL, offsetof(trace_header, levels));
    write_word(fd, 0, offsetof(trace_header, tracer));
    write_word(fd, 0, offsetof(trace_header, levels_before));
    flock(fd, LOCK_UN);
}
