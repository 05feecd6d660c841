#include "call/reply.h"

#include "base/mem.h"
#include "call/error_trace.h"

// ---- Sending ----

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
    if (error) outgoing_put_error(s, error);
    return s->message->head.failed ? GW_NO_MEMORY : GW_OK;
}

// Somebody waits for this, and learns at least why it does not come.
static void send_failure(agent *a, int to, uint8_t kind, uint64_t id, const gw_error *error) {
    message *m = agent_message_on_loop(a, kind);
    if (!m) return;
    reply_write(&m->head, &(reply_fixed){ .id = id, .outcome = REPLY_ERROR });
    bytes_put_u8(&m->head, GW_ERROR);
    encode_error(&m->head, error);
    if (m->head.failed) {
        message_release(m);
    } else {
        agent_send_on_loop(a, to, m, true, NULL);
    }
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
    bool filled = !reply_fill(&sh, a, kind, id, SCOPE_NOT_KNOWN, "", v, s->error);
    env_enter(a->env);
    reply_send_on_loop(&sh, a, to, kind, id, filled, true);
    env_leave(a->env);
    outgoing_fini(&sh);
    gw_error ignored = gw_scope_close(s);
    (void)ignored;
}

// ---- Receiving ----

typedef struct arrival {
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

static void arrival_is_ready(incoming *p) {
    arrival *w = p->user;
    w->resolve(w->user, result_of_arrival(w->agent, p, w->value_at, w->pins));
    mem_free(w);
}

static result *read_error(agent *a, incoming *p, size_t value_at) {
    const bytes *head = &p->message->head;
    reader r = reader_of(head->data + value_at, head->size - value_at);
    gw_error sent, wrong;
    uint8_t tag = reader_u8(&r);
    gw_status status = decode_error(&r, &sent, &wrong);
    if (!status && tag != GW_ERROR)
        error_set(&wrong, GW_PROTOCOL, "reply: an error of tag %d", tag);
    incoming_close_on_loop(a, p);
    return result_of_error(status || tag != GW_ERROR ? &wrong : &sent);
}

void reply_resolve_on_loop(agent *a, int from, message *m, const reply_fixed *fixed,
                           size_t value_at, bool pins, reply_resolve *resolve, void *user) {
    gw_error error;
    incoming *p;
    if (incoming_open_on_loop(a, from, m, fixed->attachments_at, &p, &error)) {
        resolve(user, result_of_error(&error));
    } else if (fixed->outcome == REPLY_ERROR) {
        resolve(user, read_error(a, p, value_at));
    } else if (!p->missing) {
        resolve(user, result_of_arrival(a, p, value_at, pins));
    } else {
        arrival *w = mem_calloc(sizeof *w);
        if (!w) {
            incoming_close_on_loop(a, p);
            error_set(&error, GW_NO_MEMORY, "no memory for a result");
            resolve(user, result_of_error(&error));
            return;
        }
        *w = (arrival){ a, p, value_at, pins, resolve, user };
        incoming_await_on_loop(p, arrival_is_ready, w);
    }
}

void reply_drop_on_loop(agent *a, int from, message *m, uint32_t attachments_at) {
    incoming *p;
    if (!attachments_at) {
        message_release(m);
    } else if (!incoming_open_on_loop(a, from, m, attachments_at, &p, NULL)) {
        incoming_close_on_loop(a, p);
    }
}
