#include "call/protocol.h"

#include "base/error_value.h"
#include "base/mem.h"
#include "call/calls.h"
#include "call/error_trace.h"
#include "wire/error_value.h"

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
        return error_set(error, GW_PROTOCOL, "malformed request: it has only %zu bytes",
                         m->head.size);
    reader_take(&r, reader_u32(&r));
    if (!reader_text(&r, out->function, sizeof out->function))
        return error_set(error, GW_PROTOCOL,
                         "malformed request: the function's name is truncated or too long");
    out->origin_size = reader_u32(&r);
    out->origin = reader_take(&r, out->origin_size);
    if (out->origin_size > LIMIT_ORIGIN_BYTES)
        return error_set(error, GW_LIMIT,
                         "malformed request: the source line has %u bytes, at most %d are allowed",
                         out->origin_size, LIMIT_ORIGIN_BYTES);
    out->arg_count = reader_u32(&r);
    if (r.failed) return error_set(error, GW_PROTOCOL, "malformed request: truncated");
    if (out->arg_count > LIMIT_ARGS)
        return error_set(error, GW_LIMIT, "malformed request: %u arguments, at most %d are allowed",
                         out->arg_count, LIMIT_ARGS);
    const request_fixed *f = &out->fixed;
    if (!f->call || f->call >> ID_COUNT_BITS)
        return error_set(error, GW_PROTOCOL, "malformed request: the call number %llu is invalid",
                         (unsigned long long)f->call);
    if (f->depth < 1 || f->depth > LIMIT_DEPTH)
        return error_set(error, GW_LIMIT, "malformed request: its depth is %d, but must be 1 to %d",
                         f->depth, LIMIT_DEPTH);
    if (f->one_way > 1 || (f->one_way && f->result) || f->untracked > 1 || f->has_pass > 1)
        return error_set(error, GW_PROTOCOL, "malformed request: invalid flags");
    out->args_at = (size_t)(r.at - m->head.data);
    return GW_OK;
}

gw_status reply_read(const message *m, reply_fixed *out, size_t *out_value_at, gw_error *error) {
    reader r = reader_of(m->head.data, m->head.size);
    if (!take(&r, out, sizeof *out) || !reader_take(&r, out->trailer_size) ||
        out->outcome > REPLY_ERROR || !are_zero(out->zero))
        return error_set(error, GW_PROTOCOL, "malformed reply: invalid header");
    *out_value_at = (size_t)(r.at - m->head.data);
    return GW_OK;
}

// ---- Sending ------------------------------------------------------------------------------------

static gw_status begin(outgoing *s, agent *a, uint8_t kind, uint64_t id, uint8_t outcome,
                       gw_error *error) {
    gw_status status = outgoing_init(s, a, kind, error);
    if (!status) reply_write(&s->message->head, &(reply_fixed){ .id = id, .outcome = outcome });
    return status;
}

gw_status reply_fill(outgoing *s, agent *a, uint8_t kind, uint64_t id, uint64_t scope,
                     const char *function, gw_value v, const gw_error *error) {
    gw_error own;
    gw_status status = begin(s, a, kind, id, error ? REPLY_ERROR : REPLY_VALUE, &own);
    if (status) return status;
    if (scope != SCOPE_NOT_TRACKED) outgoing_track(s, scope);
    if (!error && outgoing_put(s, v, &own)) {
        outgoing_fini(s);
        if ((status = begin(s, a, kind, id, REPLY_ERROR, NULL))) return status;
        own.outcome = GW_RAN_AND_FAILED;
        error_add_trace(&own, agent_member(a, a->rank)->name, function);
        error = &own;
    }
    if (error) {
        outgoing_put_error(s, error);
        encode_value_of_error(&s->message->head, error);
    }
    return s->message->head.failed ? GW_NO_MEMORY : GW_OK;
}

// A waiter for this gets at least the reason why it does not arrive.
static void send_failure(agent *a, int to, uint8_t kind, uint64_t id, const gw_error *error) {
    message *m = agent_message_on_loop(a, kind);
    if (!m) return;
    reply_write(&m->head, &(reply_fixed){ .id = id, .outcome = REPLY_ERROR });
    bytes_put_u8(&m->head, GW_ERROR);
    encode_error(&m->head, error);
    encode_value_of_error(&m->head, error);
    agent_post_on_loop(a, to, m);
}

void reply_send_on_loop(outgoing *s, agent *a, int to, uint8_t kind, uint64_t id, bool filled,
                        bool flush) {
    gw_error error;
    if (filled) {
        if (!outgoing_send_on_loop(s, to, REPLY_ATTACHMENTS_FIELD, flush, &error)) return;
    } else {
        error_set(&error, GW_NO_MEMORY, "no memory for a reply");
    }
    error.outcome = GW_MAY_HAVE_RUN;
    error_add_trace(&error, agent_member(a, a->rank)->name, "");
    send_failure(a, to, kind, id, &error);
}

void reply_result(agent *a, int to, uint8_t kind, uint64_t id, result *r) {
    gw_scope *s = agent_scope_open(a, 0, 0, ENV_NEVER);
    gw_value v = result_give(r, s);
    outgoing sh;
    bool filled = !reply_fill(&sh, a, kind, id, SCOPE_UNKNOWN, "", v, s->error);
    env_enter(a->env);
    reply_send_on_loop(&sh, a, to, kind, id, filled, true);
    env_leave(a->env);
    outgoing_fini(&sh);
    scope_close_unread(s);
}

// ---- Receiving ----------------------------------------------------------------------------------

typedef struct arrival {
    list_node link;  // among those of its sender
    agent *agent;
    incoming *incoming;
    size_t value_at;
    bool pins;
    reply_resolve *resolve;
    void *user;
} arrival;

static result *result_of_arrival(agent *a, incoming *p, size_t value_at, bool pins) {
    const gw_error *failed = incoming_error(p);
    result *r = failed ? result_of_error(failed) : result_of_incoming(p, value_at, pins);
    if (r && !failed) return r;
    incoming_close_on_loop(a, p);
    if (r) return r;
    gw_error error;
    error_set(&error, GW_NO_MEMORY, "no memory for a result");
    return result_of_error(&error);
}

static void end_arrival(arrival *w, result *r) {
    list_remove(&w->link);
    w->resolve(w->user, r);
    mem_free(w);
}

static void arrival_is_ready(incoming *p) {
    arrival *w = p->user;
    end_arrival(w, result_of_arrival(w->agent, p, w->value_at, w->pins));
}

// One that waits for promises alone waits for others than its sender.
static arrival *find_incomplete(const call_peer *sender) {
    list_each(l, &sender->arrivals) {
        arrival *w = list_entry(l, arrival, link);
        if (w->incoming->message->incomplete) return w;
    }
    return NULL;
}

void reply_lost_on_loop(agent *a, int from, const gw_error *why) {
    for (arrival *w; (w = find_incomplete(call_peer_of(a, from)));) {
        incoming_close_on_loop(a, w->incoming);
        end_arrival(w, result_of_error(why));
    }
}

static result *read_error(agent *a, incoming *p, size_t value_at) {
    const bytes *head = &p->message->head;
    reader r = reader_of(head->data + value_at, head->size - value_at);
    gw_error sent, wrong;
    uint8_t tag = reader_u8(&r);
    gw_status status = decode_error(&r, &sent, &wrong);
    if (!status) status = decode_value_of_error(&r, &sent, &wrong);
    if (!status && tag != GW_ERROR)
        error_set(&wrong, GW_PROTOCOL,
                  "malformed reply: an error was expected, not a value of tag %d", tag);
    incoming_close_on_loop(a, p);
    result *out = result_of_error(status || tag != GW_ERROR ? &wrong : &sent);
    if (!status) error_value_release(sent.value);
    return out;
}

// It is resolved once all its parts have arrived. False without memory.
static bool await_arrival(agent *a, int from, incoming *p, arrival w) {
    arrival *kept = mem_alloc(sizeof *kept);
    if (!kept) return false;
    *kept = w;
    list_append(&call_peer_of(a, from)->arrivals, &kept->link);
    incoming_await_on_loop(p, arrival_is_ready, kept);
    return true;
}

gw_status reply_resolve_on_loop(agent *a, int from, message *m, const reply_fixed *fixed,
                                size_t value_at, bool pins, reply_resolve *resolve, void *user,
                                gw_error *error) {
    incoming *p;
    gw_status status = incoming_open_on_loop(a, from, m, fixed->attachments_at, &p, error);
    if (status) {
        resolve(user, result_of_error(error));
        return status == GW_PROTOCOL ? status : GW_OK;
    }
    if (fixed->outcome == REPLY_ERROR) {
        resolve(user, read_error(a, p, value_at));
        return GW_OK;
    }
    arrival w = { { 0 }, a, p, value_at, pins, resolve, user };
    incoming_count_segments_on_loop(p);
    if (!p->missing) {
        resolve(user, result_of_arrival(a, p, value_at, pins));
    } else if (!await_arrival(a, from, p, w)) {
        incoming_close_on_loop(a, p);
        error_set(error, GW_NO_MEMORY, "no memory for a result");
        resolve(user, result_of_error(error));
    }
    return GW_OK;
}

gw_status reply_drop_on_loop(agent *a, int from, message *m, uint32_t attachments_at,
                             gw_error *error) {
    incoming *p;
    gw_status status = GW_OK;
    if (!attachments_at) {
        message_release(m);
    } else if (!(status = incoming_open_on_loop(a, from, m, attachments_at, &p, error))) {
        incoming_close_on_loop(a, p);
    }
    return status == GW_PROTOCOL ? status : GW_OK;
}
