#include "net/handshake.h"

#include "base/bytes.h"
#include "base/limits.h"
#include "base/status.h"

#include <stdio.h>
#include <string.h>

_Static_assert((int)HANDSHAKE_MAX <= (int)LIMIT_HANDSHAKE_BYTES,
               "an unauthenticated peer costs no more than that");

static const char magic[8] = HANDSHAKE_MAGIC;

// Without capabilities.
enum { SESSION_BYTES = 40, STORE_BYTES = 0, WELCOME_BYTES = 16, REFUSAL_BYTES_MIN = 16 };

_Static_assert(HANDSHAKE_PREFACE_BYTES + SESSION_BYTES + 4 + LIMIT_CAPABILITIES_BYTES <=
                   HANDSHAKE_MAX,
               "a hello with all capabilities fits");

// ---- Encoding -----------------------------------------------------------------------------------
typedef struct writer {
    uint8_t *at;
} writer;

static void put(writer *w, const void *data, size_t size) {
    memcpy(w->at, data, size);
    w->at += size;
}

static void put_u32(writer *w, uint32_t x) {
    put(w, &x, sizeof x);
}

static void put_u64(writer *w, uint64_t x) {
    put(w, &x, sizeof x);
}

// CONN-14: version 1 defines no key.
static void put_no_capabilities(writer *w) {
    put_u32(w, 0);
}

static void put_body(writer *w, const handshake *h) {
    uint32_t text_size;
    switch (h->kind) {
    case HANDSHAKE_SESSION:
        put_u32(w, h->from_rank);
        put_u32(w, h->to_rank);
        put_u64(w, h->from_incarnation);
        put_u64(w, h->to_incarnation);
        put_u64(w, h->connection_number);
        put_u64(w, h->received);
        put_no_capabilities(w);
        break;
    case HANDSHAKE_STORE: put_no_capabilities(w); break;
    case HANDSHAKE_WELCOME:
        put_u64(w, h->connection_number);
        put_u64(w, h->received);
        put_no_capabilities(w);
        break;
    case HANDSHAKE_REFUSAL:
        text_size = (uint32_t)strnlen(h->text, HANDSHAKE_TEXT_MAX - 1);
        put_u32(w, (uint32_t)h->reason);  // the reason and three bytes of zero
        put_u64(w, h->connection_number);
        put_u32(w, text_size);
        put(w, h->text, text_size);
        break;
    }
}

size_t handshake_encode(uint8_t out[HANDSHAKE_MAX], const handshake *h) {
    writer w = { out + HANDSHAKE_PREFACE_BYTES };
    put_body(&w, h);
    size_t size = (size_t)(w.at - out);
    uint16_t version = HANDSHAKE_VERSION;
    uint8_t kind_and_zero[2] = { (uint8_t)h->kind, 0 };
    writer preface = { out };
    put(&preface, magic, sizeof magic);
    put(&preface, &version, sizeof version);
    put(&preface, kind_and_zero, sizeof kind_and_zero);
    put_u32(&preface, (uint32_t)(size - HANDSHAKE_PREFACE_BYTES));
    return size;
}

// ---- Decoding -----------------------------------------------------------------------------------
// The beginning of what an unauthenticated peer sent, in printable form.
static const char *quoted(const uint8_t *in, size_t size, char out[64]) {
    size_t n = size < HANDSHAKE_PREFACE_BYTES ? size : HANDSHAKE_PREFACE_BYTES, at = 0;
    for (size_t i = 0; i < n; i++) {
        bool plain = in[i] >= ' ' && in[i] < 127 && in[i] != '"' && in[i] != '\\';
        int wrote = snprintf(out + at, 64 - at, plain ? "%c" : "\\x%02x", in[i]);
        if (wrote < 0 || (size_t)wrote >= 64 - at) break;
        at += (size_t)wrote;
    }
    out[at] = '\0';
    return out;
}

// The rest after |size| bytes is a map of capabilities.
static bool has_map_behind(uint32_t body_size, uint32_t size) {
    return body_size >= size + 4 && body_size <= size + 4 + LIMIT_CAPABILITIES_BYTES;
}

static bool is_size_of(uint8_t kind, uint32_t size) {
    switch (kind) {
    case HANDSHAKE_SESSION: return has_map_behind(size, SESSION_BYTES);
    case HANDSHAKE_STORE: return has_map_behind(size, STORE_BYTES);
    case HANDSHAKE_WELCOME: return has_map_behind(size, WELCOME_BYTES);
    case HANDSHAKE_REFUSAL:
        return size >= REFUSAL_BYTES_MIN && size <= HANDSHAKE_MAX - HANDSHAKE_PREFACE_BYTES;
    default: return false;
    }
}

gw_status handshake_size(const uint8_t *in, size_t size, size_t *out_size, uint16_t *out_version,
                         gw_error *error) {
    char text[64];
    *out_size = HANDSHAKE_PREFACE_BYTES;
    *out_version = HANDSHAKE_VERSION;
    if (memcmp(in, magic, size < sizeof magic ? size : sizeof magic) != 0)
        return error_set(error, GW_PROTOCOL,
                         "it sent \"%s\", which is not the protocol of gradwire",
                         quoted(in, size, text));
    if (size < HANDSHAKE_PREFACE_BYTES) return GW_OK;
    reader r = reader_of(in + sizeof magic, HANDSHAKE_PREFACE_BYTES - sizeof magic);
    uint16_t version = reader_u16(&r);
    uint8_t kind = reader_u8(&r), zero = reader_u8(&r);
    uint32_t body_size = reader_u32(&r);
    *out_version = version;
    if (version != HANDSHAKE_VERSION)
        return error_set(error, GW_MISMATCH, "it uses version %u of the protocol, not %d", version,
                         HANDSHAKE_VERSION);
    if (zero != 0 || !is_size_of(kind, body_size))
        return error_set(error, GW_PROTOCOL, "malformed first message: kind %u with %u bytes", kind,
                         body_size);
    *out_size = HANDSHAKE_PREFACE_BYTES + body_size;
    return GW_OK;
}

static gw_status decode_refusal(reader *r, handshake *out, gw_error *error) {
    uint32_t reason = reader_u32(r);
    out->connection_number = reader_u64(r);
    reader_text(r, out->text, sizeof out->text);
    if (r->failed || reader_left(r) > 0 || reason == 0 || reason >= REFUSED_COUNT)
        return error_set(error, GW_PROTOCOL, "malformed refusal");
    out->reason = (refusal_reason)reason;
    return GW_OK;
}

// CONN-14: a receiver skips a key that it does not support.
static gw_status skip_capabilities(reader *r, gw_error *error) {
    char keys[LIMIT_CAPABILITIES][LIMIT_CAPABILITY_BYTES + 1], value[LIMIT_CAPABILITY_BYTES + 1];
    uint32_t count = reader_u32(r);
    if (r->failed || count > LIMIT_CAPABILITIES || reader_left(r) > LIMIT_CAPABILITIES_BYTES)
        return error_set(error, GW_PROTOCOL,
                         "malformed first message: %u capabilities in %zu bytes", count,
                         reader_left(r));
    for (uint32_t i = 0; i < count; i++) {
        bool is_valid = reader_text(r, keys[i], sizeof keys[i]) && keys[i][0] &&
                        reader_text(r, value, sizeof value);
        for (uint32_t k = 0; k < i && is_valid; k++) is_valid = strcmp(keys[k], keys[i]) != 0;
        if (!is_valid)
            return error_set(error, GW_PROTOCOL,
                             "malformed first message: capability %u is invalid", i);
    }
    if (reader_left(r) == 0) return GW_OK;
    return error_set(error, GW_PROTOCOL, "malformed first message: %zu trailing bytes",
                     reader_left(r));
}

gw_status handshake_decode(const uint8_t *in, size_t size, handshake *out, gw_error *error) {
    *out = (handshake){ .kind = (handshake_kind)in[10], .version = HANDSHAKE_VERSION };
    reader r = reader_of(in + HANDSHAKE_PREFACE_BYTES, size - HANDSHAKE_PREFACE_BYTES);
    switch (out->kind) {
    case HANDSHAKE_SESSION:
        out->from_rank = reader_u32(&r);
        out->to_rank = reader_u32(&r);
        out->from_incarnation = reader_u64(&r);
        out->to_incarnation = reader_u64(&r);
        out->connection_number = reader_u64(&r);
        out->received = reader_u64(&r);
        break;
    case HANDSHAKE_STORE: break;
    case HANDSHAKE_WELCOME:
        out->connection_number = reader_u64(&r);
        out->received = reader_u64(&r);
        break;
    case HANDSHAKE_REFUSAL: return decode_refusal(&r, out, error);
    }
    return skip_capabilities(&r, error);
}
