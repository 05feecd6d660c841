// The memory of a connection. "Want of memory is an error and not a signal": its pages are allocated before they are
// used, and a memfd that could shrink is not mapped.
#include "net/shm/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory_kinds.h"
#include "base/status.h"
#include "base/system_error.h"

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

bool segment_allocate(const segment_map *m, size_t offset, size_t size) {
    int failed;
    do {
        failed = fallocate(m->fd, 0, (off_t)offset, (off_t)size);
    } while (failed && errno == EINTR);
    return !failed;
}

void segment_give_back(const segment_map *m, size_t offset, size_t size) {
    fallocate(m->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)size);
}

// A forked child does not share the connection.
static bool map(segment_map *m) {
    if (!segment_allocate(m, 0, SEGMENT_PAGE_BYTES + RING_SMALL_BYTES) ||
        !segment_allocate(m, SEGMENT_PAGE_BYTES + RING_BYTES, RING_SMALL_BYTES))
        return false;
    void *base = mmap(NULL, SEGMENT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, m->fd, 0);
    if (base == MAP_FAILED) return false;
    madvise(base, SEGMENT_BYTES, MADV_DONTFORK);
    m->base = base;
    memory_add(MEMORY_RINGS, SEGMENT_BYTES);
    return true;
}

// ftruncate above the limit of file sizes raises a signal, also for a memfd.
static bool put_size(int fd) {
    struct rlimit files;
    bool fits = getrlimit(RLIMIT_FSIZE, &files) || files.rlim_cur >= SEGMENT_BYTES;
    if (fits) return ftruncate(fd, SEGMENT_BYTES) == 0;
    errno = EFBIG;
    return false;
}

gw_status segment_make(segment_map *out, gw_error *error) {
    *out = (segment_map){ .fd = memfd_create("gradwire-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING) };
    if (out->fd >= 0 && put_size(out->fd) && fcntl(out->fd, F_ADD_SEALS, SEALS) == 0 && map(out))
        return GW_OK;
    gw_status status =
        error_set(error, GW_SYSTEM, "the shared memory of a connection cannot be made: %s",
                  system_error_text(errno).text);
    segment_close(out);
    return status;
}

gw_status segment_map_peers(int fd, segment_map *out, gw_error *error) {
    *out = (segment_map){ .fd = fd };
    struct stat s;
    gw_status status = GW_OK;
    if (fstat(fd, &s) || s.st_size != SEGMENT_BYTES || fcntl(fd, F_GET_SEALS) != SEALS)
        status =
            error_set(error, GW_PROTOCOL,
                      "it has sent shared memory that is not sealed, or does not have %d bytes",
                      SEGMENT_BYTES);
    else if (!map(out))
        status =
            error_set(error, GW_SYSTEM, "the shared memory of a connection cannot be mapped: %s",
                      system_error_text(errno).text);
    if (status) segment_close(out);
    return status;
}

void segment_close(segment_map *m) {
    if (m->base) {
        munmap(m->base, SEGMENT_BYTES);
        memory_add(MEMORY_RINGS, -(int64_t)SEGMENT_BYTES);
    }
    if (m->fd >= 0) close(m->fd);
    *m = (segment_map){ .fd = -1 };
}
