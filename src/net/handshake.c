#include "net/handshake.h"

#include "base/bytes.h"
#include "base/limits.h"
#include "base/status.h"

#include <stdio.h>
#include <string.h>

_Static_assert((int)HELLO_MAX <= (int)LIMIT_HELLO_BYTES, "a stranger costs no more than that");

static const uint8_t magic[8] = { 'G', 'R', 'A', 'D', 'W', 'I', 'R', 'E' };

enum { SESSION_BYTES = 40, WELCOME_BYTES = 16, REFUSAL_BYTES_MIN = 16 };

// ---- Encoding -----------------------------------------------------------------------------------------------------
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

static void put_body(writer *w, const hello *h) {
    uint32_t text_size;
    switch (h->kind) {
    case HELLO_SESSION:
        put_u32(w, h->from_rank);
        put_u32(w, h->to_rank);
        put_u64(w, h->from_incarnation);
        put_u64(w, h->to_incarnation);
        put_u64(w, h->connection);
        put_u64(w, h->received);
        break;
    case HELLO_STORE: break;
    case HELLO_WELCOME:
        put_u64(w, h->connection);
        put_u64(w, h->received);
        break;
    case HELLO_REFUSAL:
        text_size = (uint32_t)strnlen(h->text, HELLO_TEXT_MAX - 1);
        put_u32(w, (uint32_t)h->reason);  // the reason and three bytes of zero
        put_u64(w, h->connection);
        put_u32(w, text_size);
        put(w, h->text, text_size);
        break;
    }
}

size_t hello_encode(uint8_t out[HELLO_MAX], const hello *h) {
    writer w = { out + HELLO_PREFACE_BYTES };
    put_body(&w, h);
    size_t size = (size_t)(w.at - out);
    uint16_t version = HELLO_VERSION;
    uint8_t kind_and_zero[2] = { (uint8_t)h->kind, 0 };
    writer preface = { out };
    put(&preface, magic, sizeof magic);
    put(&preface, &version, sizeof version);
    put(&preface, kind_and_zero, sizeof kind_and_zero);
    put_u32(&preface, (uint32_t)(size - HELLO_PREFACE_BYTES));
    return size;
}

// ---- Decoding -----------------------------------------------------------------------------------------------------
// The beginning of what a stranger said, in a form that can be printed.
static const char *quoted(const uint8_t *in, size_t size, char out[64]) {
    size_t n = size < HELLO_PREFACE_BYTES ? size : HELLO_PREFACE_BYTES, at = 0;
    for (size_t i = 0; i < n; i++) {
        bool plain = in[i] >= ' ' && in[i] < 127 && in[i] != '"' && in[i] != '\\';
        int wrote = snprintf(out + at, 64 - at, plain ? "%c" : "\\x%02x", in[i]);
        if (wrote < 0 || (size_t)wrote >= 64 - at) break;
        at += (size_t)wrote;
    }
    out[at] = '\0';
    return out;
}

static bool is_size_of(uint8_t kind, uint32_t size) {
    switch (kind) {
    case HELLO_SESSION: return size == SESSION_BYTES;
    case HELLO_STORE: return size == 0;
    case HELLO_WELCOME: return size == WELCOME_BYTES;
    case HELLO_REFUSAL: return size >= REFUSAL_BYTES_MIN && size <= HELLO_MAX - HELLO_PREFACE_BYTES;
    default: return false;
    }
}

gw_status hello_size(const uint8_t *in, size_t size, size_t *out_size, uint16_t *out_version,
                     gw_error *error) {
    char text[64];
    *out_size = HELLO_PREFACE_BYTES;
    *out_version = HELLO_VERSION;
    if (memcmp(in, magic, size < sizeof magic ? size : sizeof magic) != 0)
        return error_set(error, GW_PROTOCOL, "it begins with \"%s\", which is not gradwire",
                         quoted(in, size, text));
    if (size < HELLO_PREFACE_BYTES) return GW_OK;
    reader r = reader_of(in + sizeof magic, HELLO_PREFACE_BYTES - sizeof magic);
    uint16_t version = reader_u16(&r);
    uint8_t kind = reader_u8(&r), zero = reader_u8(&r);
    uint32_t body_size = reader_u32(&r);
    *out_version = version;
    if (version != HELLO_VERSION)
        return error_set(error, GW_MISMATCH, "it speaks version %u of the protocol, not %d",
                         version, HELLO_VERSION);
    if (zero != 0 || !is_size_of(kind, body_size))
        return error_set(error, GW_PROTOCOL, "a hello of kind %u with %u bytes", kind, body_size);
    *out_size = HELLO_PREFACE_BYTES + body_size;
    return GW_OK;
}

static gw_status decode_refusal(reader *r, hello *out, gw_error *error) {
    uint32_t reason = reader_u32(r);
    out->connection = reader_u64(r);
    reader_text(r, out->text, sizeof out->text);
    if (r->failed || reader_left(r) > 0 || reason == 0 || reason >= REFUSED_COUNT)
        return error_set(error, GW_PROTOCOL, "a refusal that means nothing");
    out->reason = (refusal_reason)reason;
    return GW_OK;
}

gw_status hello_decode(const uint8_t *in, size_t size, hello *out, gw_error *error) {
    *out = (hello){ .kind = (hello_kind)in[10], .version = HELLO_VERSION };
    reader r = reader_of(in + HELLO_PREFACE_BYTES, size - HELLO_PREFACE_BYTES);
    switch (out->kind) {
    case HELLO_SESSION:
        out->from_rank = reader_u32(&r);
        out->to_rank = reader_u32(&r);
        out->from_incarnation = reader_u64(&r);
        out->to_incarnation = reader_u64(&r);
        out->connection = reader_u64(&r);
        out->received = reader_u64(&r);
        break;
    case HELLO_STORE: break;
    case HELLO_WELCOME:
        out->connection = reader_u64(&r);
        out->received = reader_u64(&r);
        break;
    case HELLO_REFUSAL: return decode_refusal(&r, out, error);
    }
    return r.failed ? error_set(error, GW_PROTOCOL, "a hello that ends early") : GW_OK;
}
