#include "base/memory_kinds.h"

#include "base/process_lock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

const char *const memory_kind_names[MEMORY_KINDS] = {
    [MEMORY_TENSORS] = "tensors",          [MEMORY_PARAMETERS] = "parameters",
    [MEMORY_SAVED] = "saved for backward", [MEMORY_GRADIENTS] = "gradients",
    [MEMORY_OPTIMIZERS] = "optimizers",    [MEMORY_KEPT] = "old values kept",
    [MEMORY_IDLE] = "waiting for reuse",   [MEMORY_EXTERNAL] = "of the program",
    [MEMORY_MAPPED] = "of other workers",  [MEMORY_RINGS] = "rings",
    [MEMORY_RECORDS] = "records",
};

// The first is shared by all threads for which there is no other one.
enum { ROWS = 64 };

typedef struct counters {
    _Alignas(64) _Atomic int64_t bytes[MEMORY_KINDS];
    bool is_taken;
} counters;

static counters rows[ROWS];
PROCESS_LOCK(lock, PROCESS_LOCK_COUNTERS, NULL);  // of |is_taken|
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool has_key;
static _Thread_local counters *own;  // NULL: not chosen yet

// What the thread has counted stays: the next one with the row continues.
static void give_back(void *row) {
    process_lock_take(&lock);
    ((counters *)row)->is_taken = false;
    process_lock_release(&lock);
    own = &rows[0];
}

static void make_key(void) {
    has_key = pthread_key_create(&key, give_back) == 0;
}

static counters *take_row(void) {
    pthread_once(&once, make_key);
    process_lock_take(&lock);
    int i = has_key ? 1 : ROWS;
    while (i < ROWS && rows[i].is_taken) i++;
    bool is_free = i < ROWS && pthread_setspecific(key, &rows[i]) == 0;
    own = is_free ? &rows[i] : &rows[0];
    own->is_taken = true;
    process_lock_release(&lock);
    return own;
}

static void add(counters *row, memory_kind kind, int64_t bytes) {
    _Atomic int64_t *at = &row->bytes[kind];
    if (row == &rows[0])
        atomic_fetch_add_explicit(at, bytes, memory_order_relaxed);
    else  // no other thread writes to it
        atomic_store_explicit(at, atomic_load_explicit(at, memory_order_relaxed) + bytes,
                              memory_order_relaxed);
}

void memory_add(memory_kind kind, int64_t bytes) {
    add(own ? own : take_row(), kind, bytes);
}

void memory_move(memory_kind from, memory_kind to, uint64_t bytes) {
    counters *row = own ? own : take_row();
    if (from == to) return;
    add(row, from, -(int64_t)bytes);
    add(row, to, (int64_t)bytes);
}

void memory_read(uint64_t out[MEMORY_KINDS]) {
    for (int kind = 0; kind < MEMORY_KINDS; kind++) {
        int64_t sum = 0;
        for (int i = 0; i < ROWS; i++)
            sum += atomic_load_explicit(&rows[i].bytes[kind], memory_order_relaxed);
        out[kind] = sum > 0 ? (uint64_t)sum : 0;
    }
}
