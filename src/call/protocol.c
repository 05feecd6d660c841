#include "call/protocol.h"

#include <string.h>

const char *origin_base(const char *origin) {
    const char *slash = origin ? strrchr(origin, '/') : NULL;
    return slash ? slash + 1 : origin ? origin : "";
}

void request_write(bytes *head, const request_fixed *fixed, const char *function,
                   const char *origin, uint32_t arg_count) {
    const char *base = origin_base(origin);
    size_t origin_size = strnlen(base, LIMIT_ORIGIN_BYTES);
    bytes_put(head, fixed, sizeof *fixed);
    bytes_put_u32(head, 0);  // the trailer
    bytes_put_text(head, function);
    bytes_put_u32(head, (uint32_t)origin_size);
    bytes_put(head, base, origin_size);
    bytes_put_u32(head, arg_count);
}

void request_amend(bytes *head, const request_fixed *fixed) {
    if (!head->failed) memcpy(head->data, fixed, sizeof *fixed);
}

void reply_write(bytes *head, const reply_fixed *fixed) {
    bytes_put(head, fixed, sizeof *fixed);
}

void reply_amend(bytes *head, const reply_fixed *fixed) {
    if (!head->failed) memcpy(head->data, fixed, sizeof *fixed);
}

static bool take(reader *r, void *out, size_t size) {
    const uint8_t *at = reader_take(r, size);
    if (at) memcpy(out, at, size);
    return at;
}

static bool are_zero(const uint8_t zero[3]) {
    return !(zero[0] | zero[1] | zero[2]);
}

gw_status request_read(const message *m, request_header *out, gw_error *error) {
    reader r = reader_of(m->head.data, m->head.size);
    if (!take(&r, &out->fixed, sizeof out->fixed))
        return error_set(error, GW_PROTOCOL, "request: %zu bytes", m->head.size);
    reader_take(&r, reader_u32(&r));
    if (!reader_text(&r, out->function, sizeof out->function))
        return error_set(error, GW_PROTOCOL, "request: no name of a function");
    out->origin_size = reader_u32(&r);
    out->origin = reader_take(&r, out->origin_size);
    if (out->origin_size > LIMIT_ORIGIN_BYTES)
        return error_set(error, GW_LIMIT, "request: a site of %u bytes, at most %d",
                         out->origin_size, LIMIT_ORIGIN_BYTES);
    out->arg_count = reader_u32(&r);
    if (r.failed) return error_set(error, GW_PROTOCOL, "request: cut off");
    if (out->arg_count > LIMIT_ARGS)
        return error_set(error, GW_LIMIT, "request: %u arguments, at most %d", out->arg_count,
                         LIMIT_ARGS);
    const request_fixed *f = &out->fixed;
    if (!f->call || f->call >> ID_COUNT_BITS)
        return error_set(error, GW_PROTOCOL, "request: call %llu", (unsigned long long)f->call);
    if (f->depth < 1 || f->depth > LIMIT_DEPTH)
        return error_set(error, GW_LIMIT, "request: %d hops, at most %d", f->depth, LIMIT_DEPTH);
    if (f->one_way > 1 || (f->one_way && f->result) || f->untracked > 1 || f->zero)
        return error_set(error, GW_PROTOCOL, "request: zero bytes are not");
    out->args_at = (size_t)(r.at - m->head.data);
    return GW_OK;
}

gw_status reply_read(const message *m, reply_fixed *out, size_t *out_value_at, gw_error *error) {
    reader r = reader_of(m->head.data, m->head.size);
    if (!take(&r, out, sizeof *out) || !reader_take(&r, out->trailer_size) ||
        out->outcome > REPLY_ERROR || !are_zero(out->zero))
        return error_set(error, GW_PROTOCOL, "reply: a header that means nothing");
    *out_value_at = (size_t)(r.at - m->head.data);
    return GW_OK;
}
