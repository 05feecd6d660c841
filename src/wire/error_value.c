// gw_fail_with_value and gw_error_value, and the value of an error in a message.
#include "wire/error_value.h"

#include "base/error_value.h"
#include "base/limits.h"
#include "base/scope.h"
#include "wire/codec.h"

#include <gradwire/binding.h>
#include <stdio.h>
#include <string.h>

// ---- Encoding -----------------------------------------------------------------------------------

static gw_status check_encoded(const message *m, gw_error *error) {
    if (m->head.failed) return error_set(error, GW_NO_MEMORY, "no memory for it");
    if (m->segment_count)
        return error_set(error, GW_LIMIT, "a tensor in it has more than %d bytes",
                         MESSAGE_INLINE_BYTES);
    if (m->head.size > GW_ERROR_VALUE_MAX)
        return error_set(error, GW_LIMIT, "it has %zu bytes, and at most %d are allowed",
                         m->head.size, GW_ERROR_VALUE_MAX);
    return GW_OK;
}

static gw_status make_value(gw_value v, uint64_t *out, gw_error *error) {
    message *m = message_open(1);
    if (!m) return error_set(error, GW_NO_MEMORY, "no memory for it");
    encoder e = { .message = m };
    gw_status status = encode_value(&e, v, error);
    if (!status) status = check_encoded(m, error);
    if (!status) *out = error_value_make(m->head.data, m->head.size);
    message_release(m);
    return status || *out ? status : error_set(error, GW_NO_MEMORY, "no memory for it");
}

static void append_reason(gw_error *error, const gw_error *why) {
    size_t size = strlen(error->text);
    snprintf(error->text + size, sizeof error->text - size, " (without its value: %s)", why->text);
}

void gw_fail_with_value(gw_scope *s, gw_status status, gw_value value, const char *format, ...) {
    gw_error error, why;
    if (s->error) return;
    va_list args;
    va_start(args, format);
    error_set_by_programv(&error, status, format, args);
    va_end(args);
    if (make_value(value, &error.value, &why)) append_reason(&error, &why);
    scope_fail_with(s, &error);
    error_value_release(error.value);
}

void encode_value_of_error(bytes *b, const gw_error *e) {
    const error_value *v = error_value_get(e->value);
    bytes_put_u32(b, v ? (uint32_t)v->size : 0);
    if (!v) return;
    bytes_put(b, v->data, v->size);
    error_value_release(e->value);
}

// ---- Decoding -----------------------------------------------------------------------------------

// Without a scope the bytes are only checked.
static gw_status decode(const void *data, size_t size, gw_scope *s, gw_value *out,
                        gw_error *error) {
    message none = { 0 };
    decoder d = { .message = &none, .in = reader_of(data, size), .scope = s };
    gw_status status = decode_value(&d, out, error);
    if (!status && reader_left(&d.in))
        status = error_set(error, GW_PROTOCOL, "malformed value of an error: %zu trailing bytes",
                           reader_left(&d.in));
    return status;
}

gw_status decode_value_of_error(reader *r, gw_error *e, gw_error *error) {
    gw_value ignored;
    uint32_t size = reader_u32(r);
    const uint8_t *data = size <= GW_ERROR_VALUE_MAX ? reader_take(r, size) : NULL;
    e->value = 0;
    if (r->failed || (size && !data))
        return error_set(error, GW_PROTOCOL, "malformed value of an error: %u bytes", size);
    if (!size) return GW_OK;
    gw_status status = decode(data, size, NULL, &ignored, error);
    if (!status) e->value = error_value_make(data, size);
    return status;
}

// A scope that has failed makes nothing, so its error is put aside.
static gw_value give(gw_scope *s, const error_value *v) {
    gw_value out;
    gw_error ignored, *own = s->error;
    bool is_read = s->is_error_read;
    s->error = NULL;
    if (decode(v->data, v->size, s, &out, &ignored) || s->error) out = gw_none();
    gw_scope_clear(s);
    s->error = own;
    s->is_error_read = is_read;
    return out;
}

gw_value gw_error_value(gw_scope *s, const gw_error *error) {
    const error_value *v = error && error->status ? error_value_get(error->value) : NULL;
    if (!v) return gw_none();
    bool is_usable = !s->error || scope_own_error(s);
    gw_value out = is_usable ? give(s, v) : gw_none();
    error_value_release(error->value);
    return out;
}
