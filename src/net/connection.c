#include "net/connection.h"

#include "base/limits.h"
#include "base/mem.h"
#include "base/mutation.h"
#include "base/status.h"
#include "net/tls/certificate.h"
#include "net/tls/tls.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { FLUSH_TRIES = 10 };

// ---- Encryption ---------------------------------------------------------------------------------

static tls *tls_for(const env *e, const transport *t) {
    const protection *p = e->protection;
    if (!p || !p->secret || t->is_private) return NULL;
    assert(p->tls);
    return p->tls;
}

// TLS-2: the reply to a hello outside TLS is not encrypted and contains no data of the job.
gw_status connection_protect(env *e, protection *p, gw_error *error) {
    uint8_t answer[HANDSHAKE_MAX];
    handshake h = { .kind = HANDSHAKE_REFUSAL, .reason = REFUSED_PLAIN };
    snprintf(h.text, sizeof h.text,
             "connections of this job are encrypted: all workers need the key file of the job");
    gw_status status = certificate_check_own(p, error);
    if (!status && p->secret) {
        tls_options options = { .env = e,
                                .protection = p,
                                .plain_hello = HANDSHAKE_MAGIC,
                                .plain_answer = answer,
                                .plain_answer_size = handshake_encode(answer, &h) };
        status = tls_open(options, &p->tls, error);
    }
    if (!status) e->protection = p;
    return status;
}

gw_status connection_check_own(const protection *p, gw_error *error) {
    return certificate_check_own(p, error);
}

void connection_unprotect(env *e, protection *p) {
    if (e->protection != p) return;
    tls_close(p->tls);
    p->tls = NULL;
    e->protection = NULL;
}

static bool is_party(const party *p, uint32_t rank, uint64_t incarnation) {
    return p->incarnation == incarnation && (p->rank == rank || p->rank == PARTY_RANK_UNKNOWN);
}

// TLS-8: the hello must have the same purpose as the parties and, for a session, the same ranks and incarnations.
static gw_status check_identity(const connection *l, const handshake *h, gw_error *error) {
    if (!l->is_encrypted || !l->is_server || has_mutation(MUTATION_HELLO_UNBOUND)) return GW_OK;
    const tls_parties *p = tls_parties_of(l->stream);
    bool agrees = h->kind == HANDSHAKE_SESSION
                      ? p->purpose == TLS_SESSION &&
                            is_party(&p->client, h->from_rank, h->from_incarnation) &&
                            is_party(&p->server, h->to_rank, h->to_incarnation)
                      : h->kind != HANDSHAKE_STORE || p->purpose == TLS_STORE;
    return agrees ? GW_OK
                  : error_set(error, GW_PROTOCOL,
                              "its first message does not name %s, the worker of its key",
                              p->client.name);
}

// TLS-15
bool connection_may_be(const connection *l, const char *name) {
    const protection *p = l->env->protection;
    if (!l->is_encrypted || !l->is_server || !p->secret->certificate || !l->stream) return true;
    return strcmp(tls_parties_of(l->stream)->client.name, name) == 0 ||
           has_mutation(MUTATION_MEMBER_UNNAMED);
}

static void on_opened(void *user) {
    connection *l = user;
    l->is_open = true;
    l->on->opened(l->user);
}

// A handshake is read to its last byte and not beyond it: later bytes belong to the next owner.
static void on_buffer(void *user, void **into, size_t *size) {
    connection *l = user;
    if (l->streams) {
        if (!l->on->buffer || !l->on->buffer(l->user, into, size)) {
            *into = l->staging;
            *size = STAGING_BYTES;
        }
    } else if (l->has_handshake) {
        *into = l->staging;
        *size = 1;
    } else {
        *into = l->in + l->in_done;
        *size = l->in_size - l->in_done;
    }
    l->into = *into;
}

static void read_handshake(connection *l) {
    gw_error error;
    uint16_t version;
    size_t size;
    gw_status status = handshake_size(l->in, l->in_done, &size, &version, &error);
    if (!status && l->in_done < size) {
        l->in_size = size;
        return;
    }
    handshake h;
    if (!status) status = handshake_decode(l->in, size, &h, &error);
    if (!status) status = check_identity(l, &h, &error);
    l->has_handshake = true;
    l->on->handshake(l->user, status ? NULL : &h, &error);
}

static void on_received(void *user, size_t count) {
    connection *l = user;
    if (l->streams) {
        l->on->received(l->user, l->into, count);
    } else if (l->has_handshake) {
        gw_error error;
        error_set(&error, GW_PROTOCOL, "it sent data before it got the reply to its first message");
        l->on->handshake(l->user, NULL, &error);
    } else {
        l->in_done += count;
        read_handshake(l);
    }
}

// Tries more than once: the connection closes right after a refusal, so bytes that are not sent now are lost.
static void flush_handshake(connection *l) {
    for (int i = 0; i < FLUSH_TRIES && l->out_done < l->out_size && l->stream && l->is_open; i++) {
        struct iovec part = { l->out + l->out_done, l->out_size - l->out_done };
        l->out_done += stream_send(l->stream, &part, 1);
    }
}

static void on_writable(void *user) {
    connection *l = user;
    flush_handshake(l);
    if (l->out_done == l->out_size && l->streams) l->on->writable(l->user);
}

static void on_closed(void *user, const gw_error *why) {
    connection *l = user;
    l->stream = NULL;
    env_set_timer(l->env, &l->timer, ENV_NEVER);
    l->on->closed(l->user, why);
}

static const stream_events events = {
    .opened = on_opened,
    .buffer = on_buffer,
    .received = on_received,
    .writable = on_writable,
    .closed = on_closed,
};

static void on_handshake_timeout(timer *t) {
    connection *l = (connection *)((char *)t - offsetof(connection, timer));
    gw_error error;
    error_set(&error, GW_TIMEOUT, l->in_done ? "its hello was not complete" : "no hello arrived");
    l->on->closed(l->user, &error);
}

static connection *connection_open(env *e, uint8_t *staging, const connection_events *on,
                                   void *user) {
    connection *l = mem_alloc(sizeof *l);
    if (!l) return NULL;
    memset(l, 0, offsetof(connection, in));
    l->env = e;
    l->on = on;
    l->user = user;
    l->staging = staging;
    l->timer.fire = on_handshake_timeout;
    l->in_size = HANDSHAKE_PREFACE_BYTES;
    return l;
}

gw_status connection_connect(env *e, const route *r, const party *server, uint8_t *staging,
                             const connection_events *on, void *user, connection **out,
                             gw_error *error) {
    connection *l = connection_open(e, staging, on, user);
    if (!l) return error_set(error, GW_NO_MEMORY, "no memory for a connection");
    tls *encrypts = tls_for(e, r->transport);
    gw_status status = encrypts
                           ? tls_connect(encrypts, r, server, &events, l, &l->stream, error)
                           : r->transport->connect(e, r->address, &events, l, &l->stream, error);
    if (status) {
        mem_free(l);
        return status;
    }
    l->transport = r->transport;
    l->is_encrypted = encrypts;
    *out = l;
    return GW_OK;
}

connection *connection_accept(env *e, stream *s, uint8_t *staging, const connection_events *on,
                              void *user) {
    connection *l = connection_open(e, staging, on, user);
    if (!l) {
        stream_close(s);
        return NULL;
    }
    l->transport = s->class->transport;
    tls *decrypts = tls_for(e, l->transport);
    l->stream = decrypts ? tls_accept(decrypts, s) : s;
    if (!l->stream) {
        mem_free(l);
        return NULL;
    }
    l->is_encrypted = decrypts;
    l->is_server = true;
    l->is_open = true;
    stream_adopt(l->stream, &events, l);
    return l;
}

void connection_close(connection *l) {
    if (!l) return;
    env_set_timer(l->env, &l->timer, ENV_NEVER);
    if (l->stream) stream_close(l->stream);
    mem_free(l);
}

void connection_set_deadline(connection *l, int64_t due_ns) {
    env_set_timer(l->env, &l->timer, due_ns);
}

void connection_send_handshake(connection *l, const handshake *h) {
    l->out_size = handshake_encode(l->out, h);
    l->out_done = 0;
    flush_handshake(l);
}

void connection_stream(connection *l, const connection_events *on, void *user) {
    env_set_timer(l->env, &l->timer, ENV_NEVER);
    l->streams = true;
    l->on = on;
    l->user = user;
}

bool connection_protects(const connection *l) {
    return l->is_encrypted || l->transport->protects_bytes;
}

void connection_be_patient(connection *l, bool is_patient) {
    if (l->stream) l->stream->is_patient = is_patient;
}

size_t connection_send(connection *l, const struct iovec *parts, int count) {
    if (!l->stream || l->out_done < l->out_size) return 0;
    return stream_send(l->stream, parts, count);
}
