#include "net/capabilities.h"

#include <string.h>

#include "base/status.h"

typedef struct pair {
    char key[LIMIT_CAPABILITY_BYTES + 1], value[LIMIT_CAPABILITY_BYTES + 1];
} pair;

static bool take_pair(reader *r, pair *out) {
    return reader_text(r, out->key, sizeof out->key) && out->key[0] &&
           reader_text(r, out->value, sizeof out->value);
}

bool capabilities_find(const capabilities *c, const char *key,
                       char out_value[LIMIT_CAPABILITY_BYTES + 1]) {
    reader r = reader_of(c->bytes, c->size);
    pair p;
    while (reader_left(&r) > 0 && take_pair(&r, &p)) {
        if (strcmp(p.key, key) != 0) continue;
        memcpy(out_value, p.value, sizeof p.value);
        return true;
    }
    return false;
}

bool capabilities_agree(const capabilities *ours, const capabilities *theirs, const char *key,
                        char out_value[LIMIT_CAPABILITY_BYTES + 1]) {
    char mine[LIMIT_CAPABILITY_BYTES + 1];
    return capabilities_find(ours, key, mine) && capabilities_find(theirs, key, out_value);
}

// ---- Adding -------------------------------------------------------------------------------------

static void put(capabilities *c, const void *data, size_t size) {
    memcpy(c->bytes + c->size, data, size);
    c->size += (uint32_t)size;
}

static void put_text(capabilities *c, const char *text, size_t length) {
    uint32_t size = (uint32_t)length;
    put(c, &size, sizeof size);
    put(c, text, length);
}

bool capabilities_add(capabilities *c, const char *key, const char *value) {
    char known[LIMIT_CAPABILITY_BYTES + 1];
    size_t key_size = strlen(key), value_size = strlen(value);
    if (key_size == 0 || key_size > LIMIT_CAPABILITY_BYTES || value_size > LIMIT_CAPABILITY_BYTES)
        return false;
    size_t size = 2 * sizeof(uint32_t) + key_size + value_size;
    if (c->count >= LIMIT_CAPABILITIES || size > sizeof c->bytes - c->size) return false;
    if (capabilities_find(c, key, known)) return false;
    put_text(c, key, key_size);
    put_text(c, value, value_size);
    c->count++;
    return true;
}

// ---- Reading ------------------------------------------------------------------------------------

gw_status capabilities_read(reader *r, capabilities *out, gw_error *error) {
    *out = (capabilities){ 0 };
    uint32_t count = reader_u32(r);
    if (r->failed || count > LIMIT_CAPABILITIES || reader_left(r) > sizeof out->bytes)
        return error_set(error, GW_PROTOCOL,
                         "malformed first message: %u capabilities in %zu bytes", count,
                         reader_left(r));
    pair p;
    for (uint32_t i = 0; i < count; i++)
        if (!take_pair(r, &p) || !capabilities_add(out, p.key, p.value))
            return error_set(error, GW_PROTOCOL, "malformed first message: capability %u", i);
    if (reader_left(r) == 0) return GW_OK;
    return error_set(error, GW_PROTOCOL, "malformed first message: %zu trailing bytes",
                     reader_left(r));
}
