#include "base/error_value.h"

#include "base/map.h"
#include "base/mem.h"

#include <pthread.h>
#include <string.h>

// A leaf. Few errors carry a value, so that the lock is taken rarely.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static map values;
static uint64_t last_number;

static void free_value(error_value *v) {
    if (!v) return;
    mem_free(v->data);
    mem_free(v);
}

static error_value *copy(const void *data, size_t size) {
    error_value *v = mem_calloc(sizeof *v);
    if (!v) return NULL;
    *v = (error_value){ .size = size, .data = mem_alloc(size + 1), .count = 1 };
    if (!v->data) {
        mem_free(v);
        return NULL;
    }
    if (size) memcpy(v->data, data, size);
    return v;
}

uint64_t error_value_make(const void *data, size_t size) {
    error_value *v = copy(data, size);
    if (!v) return 0;
    pthread_mutex_lock(&lock);
    uint64_t number = v->number = ++last_number;
    bool has_put = map_put(&values, number, v);
    pthread_mutex_unlock(&lock);
    if (has_put) return number;
    free_value(v);
    return 0;
}

const error_value *error_value_get(uint64_t number) {
    if (!number) return NULL;
    pthread_mutex_lock(&lock);
    error_value *v = map_find(&values, number);
    if (v) v->count++;
    pthread_mutex_unlock(&lock);
    return v;
}

uint64_t error_value_retain(uint64_t number) {
    return error_value_get(number) ? number : 0;
}

void error_value_release(uint64_t number) {
    if (!number) return;
    pthread_mutex_lock(&lock);
    error_value *v = map_find(&values, number);
    bool is_last = v && --v->count == 0;
    if (is_last) map_take(&values, number);
    if (!values.count) map_fini(&values);
    pthread_mutex_unlock(&lock);
    if (is_last) free_value(v);
}
