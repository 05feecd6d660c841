#include "timeline/names.h"

#include <stdlib.h>
#include <string.h>

#include "observe/clean.h"
#include "trace/kinds.h"

bool names_open(const image *images, int count, const visitor *to, names *out) {
    *out = (names){ .to = to, .images = images, .image_count = count };
    out->by_offset = calloc((size_t)count + 1, sizeof *out->by_offset);
    return out->by_offset;
}

void names_close(names *n) {
    for (int i = 0; n->by_offset && i < n->image_count; i++) free(n->by_offset[i]);
    free(n->by_offset);
    table_fini(&n->by_hash);
}

// Two hashes of 64 bits: texts of a job that have both in common do not occur.
static void hash(const char *text, uint64_t out[2]) {
    out[0] = UINT64_C(0xcbf29ce484222325);
    out[1] = UINT64_C(0x9e3779b97f4a7c15);
    for (; *text; text++) {
        out[0] = (out[0] ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
        out[1] = (out[1] + (unsigned char)*text) * UINT64_C(0xff51afd7ed558ccd);
        out[1] ^= out[1] >> 32;
    }
}

uint32_t names_of_text(names *n, const char *text) {
    uint64_t h[2];
    char cut[NAMES_SIZE];
    if (strlen(text) >= sizeof cut) {
        memcpy(cut, text, sizeof cut - 1);
        clean_array(cut, sizeof cut);
        text = cut;
    }
    hash(text, h);
    uint32_t *number = table_put(&n->by_hash, h[0], h[1], 0);
    if (!number) {
        n->failed = true;
        return 0;
    }
    if (!*number) {
        *number = ++n->count;
        n->to->name(n->to->state, *number, text);
    }
    return *number;
}

uint32_t names_of_record(names *n, int image_index, const image_record *r) {
    const image *x = &n->images[image_index];
    if (!*image_name(x, r)) return names_of_text(n, trace_kinds[r->kind].text);
    uint32_t **offsets = &n->by_offset[image_index];
    if (!*offsets) *offsets = calloc(x->string_bytes, sizeof **offsets);
    if (!*offsets) {
        n->failed = true;
        return 0;
    }
    if (!(*offsets)[r->name]) (*offsets)[r->name] = names_of_text(n, image_name(x, r));
    return (*offsets)[r->name];
}
