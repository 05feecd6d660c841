#include "testing/encrypted.h"

#include "base/mem.h"
#include "net/tls/certificate_make.h"
#include "testing/testing.h"

#include <stdio.h>
#include <string.h>

typedef struct encrypted_listener {
    listener base;
    listener *inner;
    list_node link;
} encrypted_listener;

static struct {
    const transport *over;
    protection client, server;
    tls *offers, *takes;
    list_node listeners;
} pair;

static void close_listener(listener *l) {
    encrypted_listener *x = (encrypted_listener *)l;
    listener_close(x->inner);
    list_remove(&x->link);
    mem_free(x);
}

secret *encrypted_secret(const char *digits) {
    secret *s = NULL;
    gw_error error;
    char line[SECRET_LINE_MAX];
    assert_int_equal(secret_make_line(line, &error), GW_OK);
    assert_int_equal(secret_open_text(line, "it", &s, &error), GW_OK);
    s->key_count = 0;
    for (; *digits; digits++) {
        secret_key *k = &s->keys[s->key_count++];
        memset(k->bytes, *digits, sizeof k->bytes);
        memset(k->id, *digits, sizeof k->id);
    }
    return s;
}

// The text of the CA |name|, the same at each call.
static const char *ca_of(char name) {
    static char texts[4][SECRET_TEXT_MAX];
    gw_error error;
    int i = name - 'a';
    assert_true(i >= 0 && i < 4);
    if (!texts[i][0]) assert_int_equal(certificate_make_ca(10, texts[i], &error), GW_OK);
    return texts[i];
}

// Replaces the CA at the end of |text|.
static void trust(char text[SECRET_TEXT_MAX], const char *trusted) {
    static const char begin[] = "-----BEGIN CERTIFICATE-----";
    char *own = strstr(text, begin), *cas = strstr(own + 1, begin);
    *cas = '\0';
    for (; *trusted; trusted++) {
        const char *ca = strstr(ca_of(*trusted), begin);
        size_t size = strlen(text);
        snprintf(text + size, SECRET_TEXT_MAX - size, "%s", ca);
    }
}

static secret *certified_secret(char ca, const char *trusted, const char *names) {
    certificate_name list[8];
    char text[SECRET_TEXT_MAX], one[64];
    secret *s = NULL;
    gw_error error;
    int count = 0;
    while (*names) {
        size_t size = strcspn(names, ",");
        snprintf(one, sizeof one, "%.*s", (int)size, names);
        assert_true(certificate_name_of(one, "test", &list[count++]));
        names += size + (names[size] == ',');
    }
    assert_int_equal(certificate_make(ca_of(ca), "the CA", list, count, 1, text, &error), GW_OK);
    trust(text, trusted);
    if (secret_open_text(text, "it", &s, &error)) fail_msg("%s", error.text);
    return s;
}

protection encrypted_certified(char ca, const char *trusted, const char *names,
                               uint64_t incarnation) {
    protection p = encrypted_worker("a", incarnation);
    secret_close(p.secret);
    p.secret = certified_secret(ca, trusted, names);
    return p;
}

protection encrypted_worker(const char *digits, uint64_t incarnation) {
    protection p = { .secret = encrypted_secret(digits),
                     .job = "test",
                     .self = { .rank = (uint32_t)incarnation, .incarnation = incarnation } };
    snprintf(p.self.name, sizeof p.self.name, "w%llu", (unsigned long long)incarnation);
    return p;
}

void encrypted_open(env *e, const transport *over) {
    gw_error error;
    pair.over = over;
    list_init(&pair.listeners);
    pair.client = encrypted_worker("k", 1);
    pair.server = encrypted_worker("k", 2);
    tls_options options = { .env = e, .protection = &pair.client, .rekey_bytes = 100000 };
    assert_int_equal(tls_open(options, &pair.offers, &error), GW_OK);
    options.protection = &pair.server;
    assert_int_equal(tls_open(options, &pair.takes, &error), GW_OK);
}

void encrypted_close(void) {
    while (!list_is_empty(&pair.listeners))
        close_listener(&list_entry(pair.listeners.next, encrypted_listener, link)->base);
    tls_close(pair.offers);
    tls_close(pair.takes);
    protection_fini(&pair.client);
    protection_fini(&pair.server);
}

static void on_accepted(void *user, stream *s) {
    encrypted_listener *l = user;
    stream *encrypted = tls_accept(pair.takes, s);
    if (encrypted) l->base.accepted(l->base.user, encrypted);
}

static gw_status check(const char *address, gw_error *error) {
    return pair.over->check(address, error);
}

static gw_status listen_over(env *e, const char *address, void (*accepted)(void *user, stream *s),
                             void *user, listener **out, char out_bound[ADDRESS_MAX],
                             gw_error *error) {
    encrypted_listener *l = mem_calloc(sizeof *l);
    assert_non_null(l);
    l->base = (listener){ .transport = &encrypted_transport, .accepted = accepted, .user = user };
    gw_status status = pair.over->listen(e, address, on_accepted, l, &l->inner, out_bound, error);
    if (status) {
        mem_free(l);
    } else {
        list_append(&pair.listeners, &l->link);
        *out = &l->base;
    }
    return status;
}

static gw_status connect_over(env *e, const char *address, const stream_events *events, void *user,
                              stream **out, gw_error *error) {
    (void)e;
    const party server = pair.server.self;
    char text[ADDRESS_MAX];
    snprintf(text, sizeof text, "%s", address);
    const route r = { pair.over, text };
    return tls_connect(pair.offers, &r, &server, events, user, out, error);
}

const transport encrypted_transport = {
    .name = "encrypted",
    .scheme = "encrypted",
    .anywhere = "127.0.0.1:0",
    .check = check,
    .listen = listen_over,
    .listener_close = close_listener,
    .connect = connect_over,
};
