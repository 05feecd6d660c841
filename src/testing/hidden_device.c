#include "testing/hidden_device.h"

#include "base/value.h"
#include "tensor/ops/ops.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096, MAPPINGS_MAX = 1024 };

typedef struct mapping {
    uint8_t *bytes;
    size_t size;
    int openings;
} mapping;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static mapping mappings[MAPPINGS_MAX];
static int mapping_count, kernel_runs;

// ---- Memory -------------------------------------------------------------------------------------
static uint8_t *allocate(size_t size) {
    size = (size + PAGE) / PAGE * PAGE;
    void *bytes = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (bytes == MAP_FAILED) return NULL;
    pthread_mutex_lock(&lock);
    assert(mapping_count < MAPPINGS_MAX);
    mappings[mapping_count++] = (mapping){ bytes, size, 0 };
    pthread_mutex_unlock(&lock);
    return bytes;
}

static mapping *mapping_of(const uint8_t *at) {
    for (int i = 0; i < mapping_count; i++)
        if (at >= mappings[i].bytes && at < mappings[i].bytes + mappings[i].size)
            return &mappings[i];
    assert(!"an address of the device");
    return NULL;
}

static void give(uint8_t *bytes, size_t size) {
    (void)size;
    pthread_mutex_lock(&lock);
    mapping *m = mapping_of(bytes);
    munmap(m->bytes, m->size);
    *m = mappings[--mapping_count];
    pthread_mutex_unlock(&lock);
}

static void turn(const void *at, int step) {
    if (!at) return;
    pthread_mutex_lock(&lock);
    mapping *m = mapping_of(at);
    m->openings += step;
    mprotect(m->bytes, m->size, m->openings ? PROT_READ | PROT_WRITE : PROT_NONE);
    pthread_mutex_unlock(&lock);
}

static void copy_in(uint8_t *to, const void *from, size_t size) {
    turn(to, 1);
    memcpy(to, from, size);
    turn(to, -1);
}

static void copy_out(void *to, const uint8_t *from, size_t size) {
    turn(from, 1);
    memcpy(to, from, size);
    turn(from, -1);
}

static void copy_within(uint8_t *to, const uint8_t *from, size_t size) {
    turn(from, 1);
    copy_in(to, from, size);
    turn(from, -1);
}

static void fill(uint8_t *to, const void *number, size_t number_size, size_t count) {
    turn(to, 1);
    device_get(GW_CPU)->fill(to, number, number_size, count);
    turn(to, -1);
}

// ---- Kernels ------------------------------------------------------------------------------------
static void turn_tensor(const gw_tensor *x, int step) {
    assert(x->device == hidden_device());
    turn(x->storage->block->bytes, step);
}

static void turn_value(gw_value v, int step) {
    if (v.kind == GW_TENSOR) turn_tensor(v.as.tensor, step);
    for (int i = 0; v.kind == GW_LIST && i < v.as.list->count; i++)
        turn_value(v.as.list->items[i], step);
}

static void turn_all(op_call *c, int step) {
    for (int i = 0; i < c->arg_count; i++) turn_value(c->args[i], step);
    for (int i = 0; i < c->output_count; i++) turn_tensor(c->outputs[i], step);
}

static void run(op_call *c) {
    turn_all(c, 1);
    c->op->compute(c);
    turn_all(c, -1);
    kernel_runs++;
}

static const device_kernel kernels[] = {
    { &op_add, run },     { &op_sub, run },        { &op_mul, run },   { &op_div, run },
    { &op_neg, run },     { &op_exp, run },        { &op_log, run },   { &op_tanh, run },
    { &op_sigmoid, run }, { &op_relu, run },       { &op_gt, run },    { &op_where, run },
    { &op_matmul, run },  { &op_linear, run },     { &op_sum, run },   { &op_mean, run },
    { &op_cat, run },     { &op_contiguous, run }, { &op_clone, run }, { &op_to_dtype, run },
    { &op_reshape, run }, { &op_sum_to, run },     { &op_slope, run }, { NULL, NULL },
};

static void turn_update(const update *u, int step) {
    turn(u->x, step);
    turn(u->grad, step);
    turn(u->new_x, step);
    for (int k = 0; k < UPDATE_STATES_MAX; k++) {
        turn(u->state[k], step);
        turn(u->new_state[k], step);
    }
}

#define UPDATE(rule, dtype)                                                                        \
    static void rule##_##dtype(const void *options, const update *u) {                             \
        turn_update(u, 1);                                                                         \
        update_##rule.dtype(options, u);                                                           \
        turn_update(u, -1);                                                                        \
        kernel_runs++;                                                                             \
    }
UPDATE(sgd, f32)
UPDATE(sgd, f64)
UPDATE(adam, f32)
UPDATE(adam, f64)
#undef UPDATE

static const device_update updates[] = {
    { &update_sgd, sgd_f32, sgd_f64 },
    { &update_adam, adam_f32, adam_f64 },
    { NULL, NULL, NULL },
};

// ---- The table ----------------------------------------------------------------------------------
static const device hidden = {
    .name = "hidden",
    .allocate = allocate,
    .free = give,
    .copy_in = copy_in,
    .copy_out = copy_out,
    .copy_within = copy_within,
    .fill = fill,
    .kernels = kernels,
    .updates = updates,
};

static gw_device number;
static void register_it(void) {
    number = device_register(&hidden);
}

gw_device hidden_device(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, register_it);
    return number;
}

int hidden_device_blocks(void) {
    return mapping_count;
}
int hidden_device_kernel_runs(void) {
    return kernel_runs;
}
