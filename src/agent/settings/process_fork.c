#include "agent/settings/process_fork.h"

#include "base/log.h"

#include <sys/mman.h>
#include <unistd.h>

static size_t page_size(void) {
    return (size_t)sysconf(_SC_PAGESIZE);
}

process_fork_mark process_fork_mark_open(void) {
    uint8_t *m =
        mmap(NULL, page_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (m == MAP_FAILED) return NULL;
    if (madvise(m, page_size(), MADV_WIPEONFORK)) {
        munmap(m, page_size());
        return NULL;
    }
    *m = 1;
    return m;
}

void process_fork_mark_close(process_fork_mark m) {
    if (m) munmap((void *)(uintptr_t)m, page_size());
}

_Noreturn void process_fork_end(const char *function) {
    log_line(
        "%s has returned in a process that it has forked: a forked process must call exec or _exit",
        function);
    _exit(1);
}
