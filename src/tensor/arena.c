#include "tensor/arena.h"

#include "base/failpoint.h"
#include "base/mutation.h"
#include "base/process_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum {
    UNITS_MAX = 1 << 16,  // 128 GiB
    MOVED_MAX = 1024,     // blocks that are in the arena, but not at its address
};

// The second mapping of an extent: a child has to map it again.
typedef struct moved {
    uint8_t *bytes;
    size_t size;
    uint64_t offset;
} moved;

static void remap_in_child(void);

PROCESS_LOCK(lock, PROCESS_LOCK_LEAF, NULL);
PROCESS_LOCK(moving, PROCESS_LOCK_MOVING, remap_in_child);

static struct {
    bool tried, is_child;
    int descriptor;
    uint8_t *base;  // NULL: there is none
    size_t unit_count, taken_count;
    uint64_t taken[UNITS_MAX / 64];  // a bit for each unit
    moved moved[MOVED_MAX];
    size_t moved_count;
    _Atomic int users;
} arena;

// ---- Opening ------------------------------------------------------------------------------------

// Larger than memory, since extents leave gaps; no page exists before it is taken.
static size_t size_wanted(void) {
    size_t memory = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    size_t size = memory / ARENA_UNIT_BYTES * 4;
    if (size > UNITS_MAX) size = UNITS_MAX;
    struct rlimit files;  // to exceed it is a signal
    if (!getrlimit(RLIMIT_FSIZE, &files) && files.rlim_cur / ARENA_UNIT_BYTES < size)
        size = files.rlim_cur / ARENA_UNIT_BYTES;
    return size * ARENA_UNIT_BYTES;
}

static int open_sealed(size_t size) {
    int descriptor = memfd_create("gradwire", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (descriptor < 0) return -1;
    int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    if (!ftruncate(descriptor, (off_t)size) && !fcntl(descriptor, F_ADD_SEALS, seals))
        return descriptor;
    close(descriptor);
    return -1;
}

static bool is_free(size_t unit) {
    return !(arena.taken[unit / 64] >> (unit % 64) & 1);
}

static void mark(size_t first, size_t count, bool taken) {
    for (size_t i = first; i < first + count; i++) {
        uint64_t bit = UINT64_C(1) << (i % 64);
        arena.taken[i / 64] = taken ? arena.taken[i / 64] | bit : arena.taken[i / 64] & ~bit;
    }
    arena.taken_count = taken ? arena.taken_count + count : arena.taken_count - count;
}

static bool populate(uint64_t offset, size_t size) {
#ifdef MADV_POPULATE_WRITE
    if (!madvise(arena.base + offset, size, MADV_POPULATE_WRITE)) return true;
    if (errno != EINVAL) return false;
#endif
    return !fallocate(arena.descriptor, 0, (off_t)offset, (off_t)size);
}

static void punch(uint64_t offset, size_t size) {
    fallocate(arena.descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
              (off_t)size);
}

// The parent must not see writes of a child. The child sees writes of the parent to pages that
// it has not written itself.
static void remap_in_child(void) {
    if (!arena.base) return;
    arena.is_child = true;
    mmap(arena.base, arena.unit_count * ARENA_UNIT_BYTES, PROT_READ | PROT_WRITE,
         MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED, arena.descriptor, 0);
    for (size_t i = 0; i < arena.moved_count; i++) {
        const moved *m = &arena.moved[i];
        mmap(m->bytes, m->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED,
             arena.descriptor, (off_t)m->offset);
    }
}

static bool open_header(void) {
    arena_header *h = (arena_header *)(void *)arena.base;
    if (!populate(0, ARENA_HEADER_BYTES)) return false;
    memcpy(h->magic, ARENA_MAGIC, sizeof h->magic);
    mark(0, 1, true);
    return true;
}

static void open_arena(void) {
    arena.tried = true;
    size_t size = size_wanted();
    if (size < 4 * (size_t)ARENA_UNIT_BYTES || (arena.descriptor = open_sealed(size)) < 0) return;
    // Aligned, so that pages of shared memory may be huge.
    size_t room = size + ARENA_UNIT_BYTES;
    uint8_t *p = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) goto close_descriptor;
    size_t head = (ARENA_UNIT_BYTES - (uintptr_t)p % ARENA_UNIT_BYTES) % ARENA_UNIT_BYTES;
    arena.base = mmap(p + head, size, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_NORESERVE | MAP_FIXED, arena.descriptor, 0);
    if (arena.base == MAP_FAILED) goto unmap;
    if (head) munmap(p, head);
    munmap(p + head + size, ARENA_UNIT_BYTES - head);
    p = arena.base;
    room = size;
    madvise(arena.base, size, MADV_HUGEPAGE);
    madvise(arena.base, size, MADV_DONTDUMP);  // dumping its pages takes minutes
    arena.unit_count = size / ARENA_UNIT_BYTES;
    if (open_header()) return;
unmap:
    arena.base = NULL;
    munmap(p, room);
close_descriptor:
    close(arena.descriptor);
}

bool arena_find(int *out_descriptor, uint64_t *out_size) {
    process_lock_take(&lock);
    if (!arena.tried) open_arena();
    bool found = arena.base && !arena.is_child;
    *out_descriptor = arena.descriptor;
    *out_size = arena.unit_count * (uint64_t)ARENA_UNIT_BYTES;
    process_lock_release(&lock);
    return found;
}

// ---- Whose it is --------------------------------------------------------------------------------

static bool replace_owner(uint64_t from, uint64_t to) {
    if (!arena.base || arena.is_child) return false;
    arena_header *h = (arena_header *)(void *)arena.base;
    for (int i = 0; i < ARENA_OWNERS_MAX; i++) {
        uint64_t expected = from;
        if (atomic_compare_exchange_strong(&h->owners[i], &expected, to)) return true;
    }
    return false;
}

bool arena_admit(uint64_t incarnation) {
    return replace_owner(0, incarnation);
}

void arena_dismiss(uint64_t incarnation) {
    replace_owner(incarnation, 0);
}

void arena_use(int change) {
    atomic_fetch_add(&arena.users, change);
}

bool arena_is_used(void) {
    return atomic_load_explicit(&arena.users, memory_order_relaxed) > 0 && !arena.is_child;
}

// ---- Extents ------------------------------------------------------------------------------------

// The first gap of |count| units; 0: none.
static size_t find_gap(size_t count) {
    size_t length = 0;
    for (size_t i = 1; i < arena.unit_count; i++) {
        if (i % 64 == 0 && arena.taken[i / 64] == UINT64_MAX) {
            length = 0;
            i += 63;
            continue;
        }
        length = is_free(i) ? length + 1 : 0;
        if (length == count) return i + 1 - count;
    }
    return 0;
}

uint64_t arena_take(size_t size) {
    size_t count = size / ARENA_UNIT_BYTES;
    if (!arena.base || arena.is_child) return 0;
    process_lock_take(&lock);
    size_t first = find_gap(count);
    if (first) mark(first, count, true);
    process_lock_release(&lock);
    if (!first) return 0;
    uint64_t offset = (uint64_t)first * ARENA_UNIT_BYTES;
    if (populate(offset, size)) return offset;
    arena_give(offset, size);
    return 0;
}

void arena_give(uint64_t offset, size_t size) {
    if (arena.is_child) return;
    punch(offset, size);
    process_lock_take(&lock);
    mark(offset / ARENA_UNIT_BYTES, size / ARENA_UNIT_BYTES, false);
    process_lock_release(&lock);
}

uint8_t *arena_at(uint64_t offset) {
    return arena.base + offset;
}

size_t arena_taken_bytes(void) {
    process_lock_take(&lock);
    size_t bytes = arena.taken_count * ARENA_UNIT_BYTES;
    process_lock_release(&lock);
    return bytes;
}

// ---- Moving blocks into the arena -------------------------------------------------------------------

static bool note_moved(moved m) {
    process_lock_take(&lock);
    bool has_room = arena.moved_count < MOVED_MAX;
    if (has_room) arena.moved[arena.moved_count++] = m;
    process_lock_release(&lock);
    return has_room;
}

static void forget_moved(const uint8_t *bytes) {
    process_lock_take(&lock);
    for (size_t i = 0; i < arena.moved_count; i++)
        if (arena.moved[i].bytes == bytes) arena.moved[i--] = arena.moved[--arena.moved_count];
    process_lock_release(&lock);
}

// A write behind the copy would be lost when the copy replaces the pages.
static bool protect(uint8_t *bytes, size_t size) {
    return has_mutation(MUTATION_WRITE_LOST) || !mprotect(bytes, size, PROT_READ);
}

#ifdef GW_MUTATIONS

static int64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

// Holds the window open until a write is lost in it; a moment if there is no bug, and so no write.
static void hold_open(const moved *m) {
    if (!failpoint_is_chosen("arena_moving")) return;
    int64_t end_ms = now_ms() + (mutation_now ? 30000 : 300);
    while (now_ms() < end_ms && !memcmp(m->bytes, arena.base + m->offset, m->size))
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

#else
#define hold_open(m) ((void)0)
#endif

// The same address shows the copy afterwards, or it is as it was.
static bool exchange(const moved *m) {
    if (!protect(m->bytes, m->size)) return false;
    memcpy(arena.base + m->offset, m->bytes, m->size);
    hold_open(m);
    if (note_moved(*m)) {
        void *p = mmap(m->bytes, m->size, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_NORESERVE | MAP_FIXED, arena.descriptor, (off_t)m->offset);
        if (p != MAP_FAILED) return true;
        forget_moved(m->bytes);
    }
    mprotect(m->bytes, m->size, PROT_READ | PROT_WRITE);
    return false;
}

uint64_t arena_move(uint8_t *bytes, size_t size) {
    uint64_t offset = arena_take(size);
    if (!offset) return 0;
    // Together, so that a child is made before or after all of it.
    process_lock_take(&moving);
    bool done = exchange(&(moved){ bytes, size, offset });
    process_lock_release(&moving);
    if (done) {
        madvise(bytes, size, MADV_HUGEPAGE);
        return offset;
    }
    arena_give(offset, size);
    return 0;
}

void arena_unmove(uint8_t *bytes, size_t size) {
    forget_moved(bytes);
    munmap(bytes, size);
}
