#include "observe/memory.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool memory_refuse(const memory_reader *m, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(m->why, m->why_size, format, args);
    va_end(args);
    return false;
}

bool memory_copy(const memory_reader *m, void *out, size_t size, uint64_t offset) {
    for (size_t done = 0; done < size;) {
        ssize_t n = pread(m->fd, (char *)out + done, size - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return memory_refuse(m, "it cannot be read: %s", strerror(errno));
        if (n == 0)
            return memory_refuse(m, "it ends at byte %llu", (unsigned long long)(offset + done));
        done += (size_t)n;
    }
    return true;
}
