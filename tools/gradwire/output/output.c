#include "output/output.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { READ_MAX = 8 * 1024, DRAIN_READS_MAX = 512 };

void output_init(output *o, int rank) {
    o->size = 0;
    o->left_out = 0;
    snprintf(o->prefix, sizeof o->prefix, "[%d] ", rank);
}

static void keep(output *o, const char *line, size_t size) {
    for (int i = 0; i < OUTPUT_LOGS; i++) {
        log_file *log = o->logs[i];
        if (!log || log->fd < 0) continue;
        log_put(log, line, size);
        if (log->error)
            sink_print(o->to, "the log of %.*s ends here: %s", (int)strcspn(o->prefix, "]") + 1,
                       o->prefix, strerror(log->error));
    }
}

static void print_line(const output *o, const char *line, size_t size) {
    sink_put(o->to, o->prefix, strlen(o->prefix));
    sink_put(o->to, line, size);
    if (o->left_out) {
        char mark[64];
        int n = snprintf(mark, sizeof mark, " [line cut, %" PRIu64 " bytes left out]", o->left_out);
        sink_put(o->to, mark, (size_t)n);
    }
    sink_put(o->to, "\n", 1);
}

static void put_line(output *o, const char *line, size_t size) {
    if (!o->is_hidden) print_line(o, line, size);
    last_lines_add(o->last, line, size);
    keep(o, line, size);
    o->size = 0;
    o->left_out = 0;
}

static void keep_beginning(output *o, const char *data, size_t size) {
    size_t room = LINE_MAX_BYTES - o->size;
    size_t kept = size < room ? size : room;
    memcpy(o->line + o->size, data, kept);
    o->size += kept;
    o->left_out += size - kept;
}

static void feed(output *o, const char *data, size_t size) {
    while (size > 0) {
        const char *end = memchr(data, '\n', size);
        if (!end) {
            keep_beginning(o, data, size);
            return;
        }
        size_t part = (size_t)(end - data);
        if (o->size == 0) {
            put_line(o, data, part);
        } else {
            keep_beginning(o, data, part);
            put_line(o, o->line, o->size);
        }
        data += part + 1;
        size -= part + 1;
    }
}

bool output_read(output *o) {
    char data[READ_MAX];
    if (o->fd < 0) return false;
    ssize_t n = read(o->fd, data, sizeof data);
    if (n > 0) {
        feed(o, data, (size_t)n);
        return true;
    }
    bool is_waiting = n < 0 && (errno == EAGAIN || errno == EINTR);
    if (!is_waiting) output_finish(o);
    return false;
}

bool output_has_more(const output *o) {
    int size = 0;
    return o->fd >= 0 && ioctl(o->fd, FIONREAD, &size) == 0 && size > 0;
}

void output_drain(output *o) {
    for (int i = 0; i < DRAIN_READS_MAX && sink_has_room(o->to); i++) {
        if (!output_read(o)) return;
    }
}

void output_finish(output *o) {
    if (o->fd < 0) return;
    close(o->fd);
    o->fd = -1;
    if (o->size > 0) put_line(o, o->line, o->size);
}
