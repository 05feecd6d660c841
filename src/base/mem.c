#include "base/mem.h"

#include "base/check.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
    CLASS_SIZE = 32,
    CLASS_COUNT = 32,       // objects up to 1 KiB
    CLASS_KEEP_MAX = 1024,  // kept per class and thread; more are returned to the allocator
};

typedef struct spare {
    struct spare *next;
} spare;

typedef struct cache {
    spare *first[CLASS_COUNT];
    int count[CLASS_COUNT];
    bool registered;  // for the drain at thread exit
} cache;

int (*mem_fail_hook)(size_t size);

static bool accounting;
static _Atomic size_t live_count;

void mem_account(void) {
    accounting = true;
}
size_t mem_live_count(void) {
    return atomic_load_explicit(&live_count, memory_order_relaxed);
}

static void *counted(void *p) {
    if (accounting && p) atomic_fetch_add_explicit(&live_count, 1, memory_order_relaxed);
    return p;
}

static bool must_fail(size_t size) {
    return mem_fail_hook && mem_fail_hook(size);
}

bool mem_must_fail(size_t size) {
    return must_fail(size);
}

void mem_count(int change) {
    if (accounting) atomic_fetch_add_explicit(&live_count, (size_t)change, memory_order_relaxed);
}

void *mem_reserve(size_t alignment, size_t size) {
    void *p;
    return posix_memalign(&p, alignment, size) ? NULL : p;
}

void mem_unreserve(void *p) {
    free(p);
}

void *mem_alloc(size_t size) {
    return must_fail(size) ? NULL : counted(malloc(size ? size : 1));
}

// The allocator's per-thread caches do not return zeroed memory.
void *mem_calloc(size_t size) {
    enum { AT_HAND_MAX = 1024 };
    if (size > AT_HAND_MAX) return must_fail(size) ? NULL : counted(calloc(1, size));
    void *p = mem_alloc(size);
    if (p) memset(p, 0, size);
    return p;
}

void *mem_realloc(void *p, size_t size) {
    if (!p) return mem_alloc(size);
    return must_fail(size) ? NULL : realloc(p, size ? size : 1);
}

bool mem_grow_array(void *items, uint32_t *capacity, uint32_t count, size_t size) {
    enum { FEWEST = 8 };
    if (count > INT32_MAX) return false;
    uint32_t more = 2 * *capacity > count ? 2 * *capacity : count;
    if (more < FEWEST) more = FEWEST;
    void *array;
    memcpy(&array, items, sizeof array);
    array = mem_realloc(array, more * size);
    if (!array) return false;
    memcpy(items, &array, sizeof array);
    *capacity = more;
    return true;
}

void mem_free(void *p) {
    if (!p) return;
    if (accounting) atomic_fetch_sub_explicit(&live_count, 1, memory_order_relaxed);
    free(p);
}

char *mem_strdup(const char *text) {
    size_t size = strlen(text) + 1;
    char *copy = mem_alloc(size);
    if (copy) memcpy(copy, text, size);
    return copy;
}

static bool lay_aside(void *p, size_t size) {
    if (!check_enabled || size < sizeof(void *)) return false;
    if (accounting) atomic_fetch_sub_explicit(&live_count, 1, memory_order_relaxed);
    check_lay_aside(p, free);
    return true;
}

#if MEM_CACHED
#include <pthread.h>

static _Thread_local cache spares;
static pthread_key_t drain_key;
static pthread_once_t drain_once = PTHREAD_ONCE_INIT;

static void drain(void *unused) {
    (void)unused;
    for (int i = 0; i < CLASS_COUNT; i++) {
        while (spares.first[i]) {
            spare *s = spares.first[i];
            spares.first[i] = s->next;
            free(s);
        }
        spares.count[i] = 0;
    }
    spares.registered = false;
}

static void make_drain_key(void) {
    pthread_key_create(&drain_key, drain);
}

void *mem_take(size_t size) {
    size_t class = (size + CLASS_SIZE - 1) / CLASS_SIZE;
    if (class >= CLASS_COUNT) return mem_alloc(size);
    if (must_fail(size)) return NULL;
    spare *s = spares.first[class];
    if (!s) return counted(malloc(class * CLASS_SIZE + !class));
    spares.first[class] = s->next;
    spares.count[class]--;
    return counted(s);
}

void mem_give(void *p, size_t size) {
    if (!p) return;
    if (lay_aside(p, size)) return;
    size_t class = (size + CLASS_SIZE - 1) / CLASS_SIZE;
    if (class == 0 || class >= CLASS_COUNT || spares.count[class] >= CLASS_KEEP_MAX) {
        mem_free(p);
        return;
    }
    if (accounting) atomic_fetch_sub_explicit(&live_count, 1, memory_order_relaxed);
    if (!spares.registered) {
        pthread_once(&drain_once, make_drain_key);
        pthread_setspecific(drain_key, &spares);
        spares.registered = true;
    }
    spare *s = p;
    s->next = spares.first[class];
    spares.first[class] = s;
    spares.count[class]++;
}
#else
void *mem_take(size_t size) {
    return mem_alloc(size);
}
void mem_give(void *p, size_t size) {
    if (p && !lay_aside(p, size)) mem_free(p);
}
#endif

void *mem_take_zeros(size_t size) {
    void *p = mem_take(size);
    if (p) memset(p, 0, size);
    return p;
}
