#include "tensor/device.h"

#include "base/limits.h"
#include "tensor/ops/op.h"

#include <assert.h>
#include <string.h>

// ---- The CPU ------------------------------------------------------------------------------------
static void cpu_copy_in(uint8_t *to, const void *from, size_t size) {
    memcpy(to, from, size);
}
static void cpu_copy_out(void *to, const uint8_t *from, size_t size) {
    memcpy(to, from, size);
}
static void cpu_copy_within(uint8_t *to, const uint8_t *from, size_t size) {
    memcpy(to, from, size);
}

// The number once, then twice as much each time.
static void cpu_fill(uint8_t *to, const void *number, size_t number_size, size_t count) {
    static const uint8_t zeros[8];
    size_t total = number_size * count;
    if (memcmp(number, zeros, number_size) == 0) {
        memset(to, 0, total);
        return;
    }
    const size_t most = 32 * 1024;  // a size that stays in the first cache
    for (size_t done = 0; done < total;) {
        size_t more = done ? (done < most ? done : most) : number_size;
        if (more > total - done) more = total - done;
        memcpy(to + done, done ? to : number, more);
        done += more;
    }
}

// Its memory is the pool's, with the block in one piece, and its kernels stand in the rows
// themselves.
static const device cpu = {
    .name = "cpu",
    .copy_in = cpu_copy_in,
    .copy_out = cpu_copy_out,
    .copy_within = cpu_copy_within,
    .fill = cpu_fill,
};

// ---- All of them --------------------------------------------------------------------------------
static const device *devices[LIMIT_DEVICES] = { &cpu };
static int device_count = 1;

gw_device device_register(const device *d) {
    assert(device_count < LIMIT_DEVICES);
    devices[device_count] = d;
    return (gw_device)device_count++;
}

const device *device_get(uint8_t number) {
    assert(number < device_count);
    return devices[number];
}

const char *device_name(uint8_t number) {
    return device_get(number)->name;
}

// A list is enough: searching it costs little compared with a launch on a device that is not the CPU.
device_compute *device_find_kernel(uint8_t number, const op *o) {
    if (number == GW_CPU) return o->compute;
    for (const device_kernel *k = device_get(number)->kernels; k && k->op; k++)
        if (k->op == o) return k->compute;
    return NULL;
}

update_loop *device_find_update(uint8_t number, const update_rule *rule, gw_dtype dtype) {
    bool is_f32 = dtype == GW_F32;
    if (number == GW_CPU) return is_f32 ? rule->f32 : rule->f64;
    for (const device_update *u = device_get(number)->updates; u && u->rule; u++)
        if (u->rule == rule) return is_f32 ? u->f32 : u->f64;
    return NULL;
}
