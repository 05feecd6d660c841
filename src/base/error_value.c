#include "base/error_value.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/process_lock.h"

#include <string.h>

// Few errors carry a value, so that the lock is taken rarely.
PROCESS_LOCK(lock, PROCESS_LOCK_LEAF, NULL);
static map values;
static uint64_t last_number;

// Values without a count, the latest ones: an error may be passed on when the scope that had it has closed. Memory of the
// process, as that of the pool.
static error_value *recent[ERROR_VALUES_RECENT];
static unsigned next_recent;

static error_value *copy(const void *data, size_t size) {
    error_value *v =
        mem_must_fail(sizeof *v + size) ? NULL : mem_reserve(sizeof(void *), sizeof *v + size);
    if (!v) return NULL;
    *v = (error_value){ .size = size, .data = (uint8_t *)(v + 1), .count = 1 };
    if (size) memcpy(v->data, data, size);
    return v;
}

// With the lock. Without memory |v| is not added.
static bool add(error_value *v) {
    bool is_added = map_put(&values, v->number, v);
    if (is_added) mem_count(1);
    return is_added;
}

// With the lock. Returns the value that |v| replaces among the recent ones.
static error_value *make_recent(error_value *v) {
    error_value **at = &recent[next_recent++ % ERROR_VALUES_RECENT], *oldest = *at;
    map_take(&values, v->number);
    if (!values.count) map_fini(&values);
    mem_count(-1);
    *at = v;
    return oldest;
}

// With the lock.
static error_value *take_recent(uint64_t number) {
    for (int i = 0; i < ERROR_VALUES_RECENT; i++) {
        error_value *v = recent[i];
        if (!v || v->number != number || !add(v)) continue;
        recent[i] = NULL;
        return v;
    }
    return NULL;
}

uint64_t error_value_make(const void *data, size_t size) {
    error_value *v = copy(data, size);
    if (!v) return 0;
    process_lock_take(&lock);
    uint64_t number = v->number = ++last_number;
    bool is_added = add(v);
    process_lock_release(&lock);
    if (is_added) return number;
    mem_unreserve(v);
    return 0;
}

const error_value *error_value_get(uint64_t number) {
    if (!number) return NULL;
    process_lock_take(&lock);
    error_value *v = map_find(&values, number);
    if (!v) v = take_recent(number);
    if (v) v->count++;
    process_lock_release(&lock);
    return v;
}

uint64_t error_value_retain(uint64_t number) {
    return error_value_get(number) ? number : 0;
}

void error_value_release(uint64_t number) {
    if (!number) return;
    process_lock_take(&lock);
    error_value *v = map_find(&values, number);
    error_value *oldest = v && --v->count == 0 ? make_recent(v) : NULL;
    process_lock_release(&lock);
    mem_unreserve(oldest);
}
