// Memory: the only access to the allocator, so that tests can make any allocation fail and count
// live ones.
//
// Small objects of fixed size (handles, tape nodes, calls) are taken from a per-thread cache of size
// classes: mem_take and mem_give. Under sanitizers the cache is disabled, so that every object is a
// real allocation.
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Whether caches keep freed memory for reuse. Not under sanitizers, which detect errors only in real
// allocations.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MEM_CACHED 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define MEM_CACHED 0
#endif
#endif
#ifndef MEM_CACHED
#define MEM_CACHED 1
#endif

void *mem_alloc(size_t size);   // NULL without memory; the others too
void *mem_calloc(size_t size);  // zeroed
void *mem_realloc(void *p, size_t size);
void mem_free(void *p);
char *mem_strdup(const char *text);

// Makes room for |count| items of |size| bytes in an array. |items| points to the pointer to it, |*capacity| is how many
// have room, and at least doubles. False without memory; the array is then as before.
bool mem_grow_array(void *items, uint32_t *capacity, uint32_t count, size_t size);
static inline bool mem_grow(void *items, uint32_t *capacity, uint32_t count, size_t size) {
    return count <= *capacity || mem_grow_array(items, capacity, count, size);
}

void *mem_take(size_t size);        // not zeroed; returned with mem_give and the same size
void *mem_take_zeros(size_t size);  // zeroed
void mem_give(void *p, size_t size);

// For other caches (the blocks of tensors): raw memory, neither counted nor made to fail.
// The cache calls mem_must_fail before it returns memory and mem_count with the amount in use.
void *mem_reserve(size_t alignment, size_t size);
void mem_unreserve(void *p);
bool mem_must_fail(size_t size);
void mem_count(int change);

// Tests: makes an allocation of |size| fail by returning nonzero; NULL normally.
extern int (*mem_fail_hook)(size_t size);

// Tests: counts live allocations from now on (call before the first allocation).
void mem_account(void);
size_t mem_live_count(void);

#endif
