#include "tensor/pool.h"

#include "base/mem.h"
#include "base/memory_limit.h"
#include "base/mutation.h"
#include "base/process_lock.h"
#include "tensor/arena.h"

#include <stdbool.h>

// Note [The pool of blocks]
//
// A page that is touched for the first time costs ten times the copy that goes into it, so memory
// that was used once is kept for the next block of its size:
//   - below 1 MiB in size classes, four to a doubling, header and bytes in one piece. Each thread keeps some of the
//     classes up to 8 KiB for itself, without a lock; the rest waits in lists of the process;
//   - from 1 MiB on in mappings of whole huge pages, of which the process keeps as many as the cap allows. While peers
//     can map the arena, they are extents of it. A block that has waited for some seconds while others were given back
//     is no longer needed, as blocks that a program needs in each step are taken again: it goes back to the system, one
//     at a time, so that no thread waits for long.
// Under sanitizers every block is an allocation of its own.

enum { HEADER_BYTES = 64, ALIGNMENT = 64 };

_Static_assert(sizeof(block) <= HEADER_BYTES, "the header of a block is stored before its bytes");

enum { LARGE = 255 };  // the class of large blocks

// Memory of the system, which waits until it is taken.
static block *counted(block *b) {
    memory_add(MEMORY_IDLE, (int64_t)b->capacity);
    return b;
}

static void uncount(const block *b) {
    memory_add(MEMORY_IDLE, -(int64_t)b->capacity);
}

// An extent that another process may still read is given back by the end of this one.
static void give_extent(block *b) {
    if (b->bytes != arena_at(b->arena_offset)) arena_unmove(b->bytes, b->capacity);
    if (!block_has(b, BLOCK_ORPHANED)) arena_give(b->arena_offset, b->capacity);
}

static block *fresh_in_arena(size_t size) {
    size_t unit = ARENA_UNIT_BYTES, capacity = (size + unit - 1) & ~(unit - 1);
    block *b = mem_reserve(ALIGNMENT, sizeof *b);
    if (!b) return NULL;
    uint64_t place = arena_take(capacity);
    if (!place) {
        mem_unreserve(b);
        return NULL;
    }
    *b = (block){ .bytes = arena_at(place), .capacity = capacity, .class = LARGE };
    atomic_init(&b->arena_offset, place);
    return counted(b);
}

#if MEM_CACHED

#include <pthread.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

enum {
    CLASS_COUNT = 52,         // up to 1 MiB
    THREAD_CLASS_COUNT = 24,  // up to 8 KiB
    LARGE_IDLE_MAX = 256,     // large blocks that wait for reuse
};

static const size_t classes_idle_max = 128 * MIB;
static const size_t huge_page = 2 * MIB;

// Blocks that wait are linked through |context|.
typedef struct idle_list {
    block *first;
    size_t count;
} idle_list;

typedef struct idle_large {
    block *block;
    int64_t since_ms;
} idle_large;

PROCESS_LOCK(pool_lock, PROCESS_LOCK_LEAF, NULL);  // of |pool|
static struct {
    idle_list classes[CLASS_COUNT];
    size_t classes_bytes;
    idle_large large[LARGE_IDLE_MAX];  // oldest first
    size_t large_count, large_bytes, large_bytes_max;
    int64_t large_ms_max;
} pool = { .large_ms_max = 4000 };

typedef struct thread_cache {
    idle_list classes[THREAD_CLASS_COUNT];
    bool registered;  // for the drain at thread exit
} thread_cache;

static _Thread_local thread_cache cache;

static void push(idle_list *l, block *b) {
    b->context = l->first;
    l->first = b;
    l->count++;
}

static block *pop(idle_list *l) {
    block *b = l->first;
    if (!b) return NULL;
    l->first = b->context;
    l->count--;
    return b;
}

static unsigned class_of(size_t size) {
    size_t last = (size ? size - 1 : 0) / ALIGNMENT;  // the last line it reaches
    if (last < 4) return (unsigned)last;
    unsigned shift = 61 - (unsigned)__builtin_clzll(last);
    return 4 * shift + (unsigned)(last >> shift);
}

static size_t class_size(unsigned class) {
    if (class < 4) return (class + 1) * ALIGNMENT;
    unsigned shift = class / 4 - 1;
    return ((size_t)(class % 4 + 5) << shift) * ALIGNMENT;
}

// ---- Size classes -------------------------------------------------------------------------------
static size_t thread_keeps(unsigned class) {
    size_t count = 128 * 1024 / class_size(class);
    return count < 512 ? count : 512;
}

static void free_all(block *b) {
    while (b) {
        block *next = b->context;
        uncount(b);
        mem_unreserve(b);
        b = next;
    }
}

// Moves |count| blocks from the thread to the process, or to the system when the process has
// enough.
static void give_to_process(unsigned class, size_t count) {
    block *surplus = NULL;
    process_lock_take(&pool_lock);
    while (count--) {
        block *b = pop(&cache.classes[class]);
        if (pool.classes_bytes + b->capacity <= classes_idle_max) {
            pool.classes_bytes += b->capacity;
            push(&pool.classes[class], b);
        } else {
            b->context = surplus;
            surplus = b;
        }
    }
    process_lock_release(&pool_lock);
    free_all(surplus);
}

static void drain(void *unused) {
    (void)unused;
    for (unsigned i = 0; i < THREAD_CLASS_COUNT; i++) give_to_process(i, cache.classes[i].count);
    cache.registered = false;
}

static pthread_key_t drain_key;
static pthread_once_t drain_once = PTHREAD_ONCE_INIT;
static void make_drain_key(void) {
    pthread_key_create(&drain_key, drain);
}

static void register_thread(void) {
    pthread_once(&drain_once, make_drain_key);
    pthread_setspecific(drain_key, &cache);
    cache.registered = true;
}

static block *fresh(unsigned class) {
    size_t capacity = class_size(class);
    block *b = mem_reserve(ALIGNMENT, HEADER_BYTES + capacity);
    if (!b) return NULL;
    *b = (block){ .bytes = (uint8_t *)b + HEADER_BYTES,
                  .capacity = capacity,
                  .class = (uint8_t) class };
    return counted(b);
}

static block *take_from_process(unsigned class) {
    bool cached = class < THREAD_CLASS_COUNT;
    process_lock_take(&pool_lock);
    block *b = pop(&pool.classes[class]);
    if (b) pool.classes_bytes -= b->capacity;
    // A thread that frees elsewhere the blocks that it takes here takes often: it gets several at
    // once.
    for (size_t i = thread_keeps(class) / 2; cached && b && i-- > 1;) {
        block *more = pop(&pool.classes[class]);
        if (!more) break;
        pool.classes_bytes -= more->capacity;
        push(&cache.classes[class], more);
    }
    process_lock_release(&pool_lock);
    return b;
}

static block *take_class(unsigned class) {
    if (class < THREAD_CLASS_COUNT) {
        block *b = pop(&cache.classes[class]);
        if (b) return b;
    }
    block *b = take_from_process(class);
    return b ? b : fresh(class);
}

static void give_class(block *b) {
    unsigned class = b->class;
    if (class < THREAD_CLASS_COUNT) {
        if (!cache.registered) register_thread();
        push(&cache.classes[class], b);
        size_t most = thread_keeps(class);
        if (cache.classes[class].count > most) give_to_process(class, most / 2);
        return;
    }
    process_lock_take(&pool_lock);
    bool keeps = pool.classes_bytes + b->capacity <= classes_idle_max;
    if (keeps) {
        pool.classes_bytes += b->capacity;
        push(&pool.classes[class], b);
    }
    process_lock_release(&pool_lock);
    if (keeps) return;
    uncount(b);
    mem_unreserve(b);
}

// ---- Large blocks -------------------------------------------------------------------------------
static size_t idle_bytes_max(void) {
    uint64_t most = memory_limit() / 4;
    return most < 2048 * MIB ? (size_t)most : 2048 * MIB;
}

static int64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static block *remove_large(size_t i) {
    block *b = pool.large[i].block;
    pool.large_bytes -= b->capacity;
    for (size_t k = i + 1; k < pool.large_count; k++) pool.large[k - 1] = pool.large[k];
    pool.large_count--;
    return b;
}

// The smallest that waits and fits without wasting over a quarter.
static block *reuse_large(size_t capacity, bool in_arena) {
    block *best = NULL;
    process_lock_take(&pool_lock);
    size_t at = 0;
    for (size_t i = pool.large_count; i-- > 0;) {
        block *b = pool.large[i].block;
        if (b->capacity < capacity || b->capacity - capacity > capacity / 4) continue;
        if (in_arena && !b->arena_offset) continue;
        if (best && best->capacity <= b->capacity) continue;
        best = b;
        at = i;
    }
    if (best) remove_large(at);
    process_lock_release(&pool_lock);
    return best;
}

static void free_large(block *b) {
    uncount(b);
    if (b->arena_offset)
        give_extent(b);
    else
        munmap(b->bytes, b->capacity);
    mem_unreserve(b);
}

static void *map_huge(size_t capacity) {
    uint8_t *p = mmap(NULL, capacity + huge_page, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return NULL;
    size_t head = (huge_page - (uintptr_t)p % huge_page) % huge_page;
    if (head) munmap(p, head);
    munmap(p + head + capacity, huge_page - head);
    madvise(p + head, capacity, MADV_HUGEPAGE);  // without it, it is only slower
    return p + head;
}

static block *take_large(size_t size, bool populated) {
    size_t capacity = (size + huge_page - 1) & ~(huge_page - 1);
    if (capacity > memory_limit()) return NULL;  // else it would be killed where it touches it
    bool in_arena = populated && arena_is_used();
    block *b = reuse_large(capacity, in_arena);
    if (!b && in_arena) b = fresh_in_arena(size);
    if (!b && in_arena) b = reuse_large(capacity, false);
    if (b) return b;
    b = mem_reserve(ALIGNMENT, sizeof *b);
    if (!b) return NULL;
    *b = (block){ .bytes = map_huge(capacity), .capacity = capacity, .class = LARGE };
    if (b->bytes) return counted(b);
    mem_unreserve(b);
    return NULL;
}

// LEND-16. A mark cannot be added while it moves: a block with a pin is not handed out, and one that
// stays is marked before its first pin.
static bool may_move(const block *b) {
    if (has_mutation(MUTATION_WRITTEN_BLOCK_MOVES) || has_mutation(MUTATION_WRITE_LOST))
        return true;
    return !block_has(b, BLOCK_STAYS) && !block_has(b, BLOCK_HANDED_OUT);
}

PROCESS_LOCK(one_at_a_time, PROCESS_LOCK_MOVE, NULL);

bool pool_move_to_arena(block *b) {
    assert(atomic_load_explicit(&b->pins, memory_order_relaxed));
    if (b->class != LARGE || b->external || b->device) return false;
    if (!b->arena_offset && !may_move(b)) return false;
    process_lock_take(&one_at_a_time);
    if (!b->arena_offset) atomic_store(&b->arena_offset, arena_move(b->bytes, b->capacity));
    process_lock_release(&one_at_a_time);
    return b->arena_offset != 0;
}

static void give_large(block *b) {
    block *surplus[LARGE_IDLE_MAX + 1];
    size_t surplus_count = 0;
    int64_t now = now_ms();
    process_lock_take(&pool_lock);
    if (!pool.large_bytes_max) pool.large_bytes_max = idle_bytes_max();
    if (pool.large_count && now - pool.large[0].since_ms >= pool.large_ms_max)
        surplus[surplus_count++] = remove_large(0);
    if (b->capacity > pool.large_bytes_max || block_has(b, BLOCK_ORPHANED)) {
        surplus[surplus_count++] = b;
    } else {
        while (pool.large_count == LARGE_IDLE_MAX ||
               pool.large_bytes + b->capacity > pool.large_bytes_max)
            surplus[surplus_count++] = remove_large(0);
        pool.large[pool.large_count++] = (idle_large){ b, now };
        pool.large_bytes += b->capacity;
    }
    process_lock_release(&pool_lock);
    while (surplus_count) free_large(surplus[--surplus_count]);
}

void pool_keep_for(int64_t ms) {
    process_lock_take(&pool_lock);
    pool.large_ms_max = ms;
    process_lock_release(&pool_lock);
}

// ---- All ----------------------------------------------------------------------------------------
void pool_trim(void) {
    drain(NULL);
    block *blocks = NULL, *large[LARGE_IDLE_MAX];
    process_lock_take(&pool_lock);
    for (unsigned i = 0; i < CLASS_COUNT; i++) {
        for (block *b; (b = pop(&pool.classes[i]));) {
            b->context = blocks;
            blocks = b;
        }
    }
    pool.classes_bytes = 0;
    size_t large_count = pool.large_count;
    for (size_t i = 0; i < large_count; i++) large[i] = pool.large[i].block;
    pool.large_count = pool.large_bytes = 0;
    process_lock_release(&pool_lock);
    free_all(blocks);
    while (large_count) free_large(large[--large_count]);
}

size_t pool_idle_bytes(void) {
    process_lock_take(&pool_lock);
    size_t bytes = pool.classes_bytes + pool.large_bytes;
    process_lock_release(&pool_lock);
    return bytes;
}

static block *take(size_t size, bool populated) {
    if (size > SIZE_MAX / 2) return NULL;
    for (int attempt = 0; attempt < 2; attempt++) {
        block *b =
            size < POOL_LARGE_BYTES ? take_class(class_of(size)) : take_large(size, populated);
        if (b) return b;
        pool_trim();  // blocks that wait for reuse in another size may be missing here
    }
    return NULL;
}

block *pool_take(size_t size) {
    return take(size, true);
}

block *pool_take_unpopulated(size_t size) {
    return take(size, false);
}

void pool_give(block *b) {
    if (b->class == LARGE) {
        give_large(b);
    } else {
        give_class(b);
    }
}

#else

block *pool_take_unpopulated(size_t size) {
    if (size > (size_t)1 << 39) return NULL;  // where sanitizers stop the program
    block *b = mem_reserve(ALIGNMENT, HEADER_BYTES + size);
    if (!b) return NULL;
    *b = (block){ .bytes = (uint8_t *)b + HEADER_BYTES, .capacity = size };
    return counted(b);
}

block *pool_take(size_t size) {
    block *b = size >= POOL_LARGE_BYTES && arena_is_used() ? fresh_in_arena(size) : NULL;
    return b ? b : pool_take_unpopulated(size);
}

void pool_give(block *b) {
    uncount(b);
    if (b->arena_offset) give_extent(b);
    mem_unreserve(b);
}
void pool_trim(void) {}
void pool_keep_for(int64_t ms) {
    (void)ms;
}
bool pool_move_to_arena(block *b) {
    return b->arena_offset != 0;
}
size_t pool_idle_bytes(void) {
    return 0;
}

#endif
