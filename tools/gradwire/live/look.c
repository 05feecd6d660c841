#include "live/look.h"

#include <stdio.h>
#include <stdlib.h>

#include "observe/dump.h"

static void put_usage(bytes *out, const image *x) {
    process_usage u = { 0 };
    if (x->life == IMAGE_RUNS || x->life == IMAGE_STOPPED) process_usage_read(x->pid, &u);
    bytes_put_u64(out, u.resident_bytes);
    bytes_put_u64(out, (uint64_t)u.processor_ns);
}

void look_encode(const live *l, bytes *out) {
    bytes dump = { 0 };
    bytes_put_u32(out, (uint32_t)l->now.count);
    for (int i = 0; i < l->now.count; i++) put_usage(out, &l->now.images[i]);
    dump_encode(l->now.images, l->now.count, DUMP_BYTES, &dump);
    bytes_put(out, dump.data, dump.size);
    out->failed |= dump.failed;
    bytes_fini(&dump);
}

static bool read_usages(reader *in, uint32_t count, process_usage *out) {
    for (uint32_t i = 0; i < count; i++) {
        out[i].resident_bytes = reader_u64(in);
        out[i].processor_ns = (int64_t)reader_u64(in);
        if (out[i].processor_ns < 0) return false;
    }
    return !in->failed;
}

static bool refuse(look *x, char *why, size_t why_size, const char *text) {
    snprintf(why, why_size, "%s", text);
    look_free(x);
    return false;
}

bool look_decode(const void *data, size_t size, look *out, char *why, size_t why_size) {
    reader in = reader_of(data, size);
    uint32_t count = reader_u32(&in);
    *out = (look){ 0 };
    if (in.failed || count > DUMP_IMAGES_MAX) return refuse(out, why, why_size, "a wrong count");
    out->usages = calloc(count + 1, sizeof *out->usages);
    if (!out->usages) return refuse(out, why, why_size, "no memory");
    if (!read_usages(&in, count, out->usages)) return refuse(out, why, why_size, "a wrong usage");
    size_t used = size - reader_left(&in);
    if (!dump_decode((const char *)data + used, size - used, &out->now.images, &out->now.count, why,
                     why_size)) {
        out->now = (found){ 0 };
        look_free(out);
        return false;
    }
    return out->now.count == (int)count || refuse(out, why, why_size, "another count of images");
}

void look_free(look *x) {
    find_free(&x->now);
    free(x->usages);
    *x = (look){ 0 };
}

// Times of hostile bytes may be any.
static void add(int64_t *at, int64_t by_ns) {
    if (__builtin_add_overflow(*at, by_ns, at)) *at = 0;
}

static void shift_table(trace_table *t, int64_t by_ns) {
    add(&t->now_ns, by_ns);
    for (int i = 0; i < t->activity_count; i++) add(&t->activities[i].since_ns, by_ns);
}

void look_shift(look *x, int64_t by_ns) {
    for (int i = 0; i < x->now.count; i++) {
        image *one = &x->now.images[i];
        add(&one->opened.monotonic_ns, by_ns);
        add(&one->taken.monotonic_ns, by_ns);
        for (int k = 0; k < one->agent_count; k++)
            if (one->agents[k].table) shift_table(one->agents[k].table, by_ns);
    }
}
