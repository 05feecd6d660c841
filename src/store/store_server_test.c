// The host of a store: errors of callers without an answer, clients that break the protocol, its limits.
#include "store/store_server.h"
#include "store/store_test.h"

#include "base/log.h"
#include "testing/sim.h"
#include "testing/testing.h"

#include <stdio.h>
#include <string.h>

// ---- Errors of callers --------------------------------------------------------------------------
typedef struct caller {
    env *env;
    const char *address;
    gw_error error;
    gw_status status;
    bool stop;
} caller;

static void open_too_early(void *arg) {
    caller *t = arg;
    store *st = NULL;
    env_enter(t->env);
    t->status =
        store_open_client(t->env, t->address, env_now_ns(t->env) + 3 * SIM_SECOND, &st, &t->error);
    env_leave(t->env);
}

static void a_missing_host_is_a_timeout(void **state) {
    (void)state;
    sim *s = sim_open(1, (sim_options){ 0 });
    caller t = { .env = sim_env(s, 0), .address = "127.0.0.1:29500" };
    sim_spawn(s, 0, open_too_early, &t);
    assert_true(sim_run(s, 10 * SIM_SECOND));
    assert_int_equal(t.status, GW_TIMEOUT);
    assert_string_equal(t.error.text, "no store at 127.0.0.1:29500: Connection refused");
    env_close(t.env);
    sim_close(s);
}

static void an_invalid_address_is_refused(void **state) {
    (void)state;
    sim *s = sim_open(1, (sim_options){ 0 });
    caller t = { .env = sim_env(s, 0), .address = "nonsense" };
    sim_spawn(s, 0, open_too_early, &t);
    assert_true(sim_run(s, 10 * SIM_SECOND));
    assert_int_equal(t.status, GW_INVALID);
    env_close(t.env);
    sim_close(s);
}

static void host_for_a_second(void *arg) {
    caller *t = arg;
    gw_error error;
    peers *p = NULL;
    store *st = NULL;
    char bound[ADDRESSES_MAX];
    env_enter(t->env);
    assert_int_equal(peers_open(quiet_peers(t->env), t->address, &p, bound, &error), GW_OK);
    assert_int_equal(open_host(t->env, p, &st, &error), GW_OK);
    waiter w = { .what = "a second to pass" };
    env_wait(t->env, &w, env_now_ns(t->env) + SIM_SECOND);
    close_host(p, st);
    env_leave(t->env);
}

static void wait_for_nothing(void *arg) {
    caller *t = arg;
    store *st = NULL;
    bytes value = { 0 };
    env_enter(t->env);
    t->status =
        store_open_client(t->env, t->address, env_now_ns(t->env) + SIM_SECOND / 2, &st, &t->error);
    assert_int_equal(t->status, GW_OK);
    t->status = store_wait(st, "never", env_now_ns(t->env) + SIM_SECOND / 4, &value, &t->error);
    assert_int_equal(t->status, GW_TIMEOUT);
    assert_string_equal(t->error.text, "store: no worker has set never");
    t->status = store_wait(st, "never", env_now_ns(t->env) + 60 * SIM_SECOND, &value, &t->error);
    store_close(st);
    env_leave(t->env);
}

static void host_goes(uint64_t seed, void *context) {
    (void)context;
    sim *s = sim_open(seed, (sim_options){ 0 });
    caller host = { .env = sim_env(s, 0), .address = "127.0.0.1:29500" };
    caller client = { .env = sim_env(s, 1), .address = "127.0.0.1:29500" };
    sim_spawn(s, 0, host_for_a_second, &host);
    sim_spawn(s, 1, wait_for_nothing, &client);
    assert_true(sim_run(s, 20 * SIM_SECOND));
    assert_int_equal(client.status, GW_DISCONNECTED);
    assert_string_equal(client.error.text,
                        "the store at 127.0.0.1:29500 is gone: Connection refused");
    env_close(host.env);
    env_close(client.env);
    sim_close(s);
}

static void the_loss_of_the_host_ends_waits(void **state) {
    (void)state;
    testing_for_seeds(50, host_goes, NULL);
}

// ---- Clients that misbehave, and a host that runs out -------------------------------------------
// Values that were set before can still be read.
static void set_one_more(void *arg) {
    caller *t = arg;
    store *st = NULL;
    bool is_set;
    env_enter(t->env);
    int64_t until_ns = env_now_ns(t->env) + 900 * SIM_SECOND;
    assert_int_equal(store_open_client(t->env, t->address, until_ns, &st, &t->error), GW_OK);
    uint8_t value[LIMIT_STORE_CLIENT_BYTES / 2] = { 0 };
    t->status =
        store_set_if_absent(st, "more", value, sizeof value, until_ns, &is_set, NULL, &t->error);
    bytes found = { 0 };
    assert_int_equal(store_wait(st, "key/7", until_ns, &found, NULL), GW_OK);
    assert_int_equal(found.size, LIMIT_STORE_VALUE_BYTES);
    bytes_fini(&found);
    store_close(st);
    t->stop = true;
    env_leave(t->env);
}

static void fill_up(store *st) {
    static const uint8_t value[LIMIT_STORE_VALUE_BYTES];
    gw_status status = GW_OK;
    gw_error error;
    for (int i = 0; !status; i++) {
        char key[32];
        bool is_set;
        snprintf(key, sizeof key, "key/%d", i);
        assert_true(i < 1024);
        status = store_set_if_absent(st, key, value, sizeof value, 0, &is_set, NULL, &error);
    }
    assert_int_equal(status, GW_LIMIT);
    // What is left does not do for the client's value.
    size_t *size_bytes = &((host *)st)->table.size_bytes;
    if (LIMIT_STORE_BYTES - *size_bytes > LIMIT_STORE_CLIENT_BYTES / 2)
        *size_bytes = LIMIT_STORE_BYTES - LIMIT_STORE_CLIENT_BYTES / 2;
}

typedef struct hosting {
    caller caller;
    void (*prepare)(store *st);  // may be NULL
    caller *client;
} hosting;

static void host_until_notified(void *arg) {
    hosting *h = arg;
    gw_error error;
    peers *p = NULL;
    store *st = NULL;
    char bound[ADDRESSES_MAX];
    env_enter(h->caller.env);
    assert_int_equal(peers_open(quiet_peers(h->caller.env), h->caller.address, &p, bound, &error),
                     0);
    assert_int_equal(open_host(h->caller.env, p, &st, &error), GW_OK);
    if (h->prepare) h->prepare(st);
    while (!h->client->stop) {
        waiter w = { .what = "the client" };
        env_wait(h->caller.env, &w, env_now_ns(h->caller.env) + SIM_SECOND / 100);
    }
    close_host(p, st);
    env_leave(h->caller.env);
}

static void host_for(void (*prepare)(store *st), void (*client_main)(void *arg), caller *client) {
    sim *s = sim_open(1, (sim_options){ 0 });
    client->address = "127.0.0.1:29500";
    client->env = sim_env(s, 1);
    hosting h = { .caller = { .env = sim_env(s, 0), .address = client->address },
                  .prepare = prepare,
                  .client = client };
    assert_true(sim_spawn(s, 0, host_until_notified, &h) && sim_spawn(s, 1, client_main, client));
    assert_true(sim_run(s, 1000 * SIM_SECOND));
    env_close(h.caller.env);
    env_close(client->env);
    sim_close(s);
}

static void the_store_has_a_size_limit(void **state) {
    (void)state;
    caller client = { 0 };
    host_for(fill_up, set_one_more, &client);
    assert_int_equal(client.status, GW_LIMIT);
    assert_string_equal(client.error.text, "store: keys and values have more than 67108864 bytes");
}

static int logged;
static char logged_line[1024];

static void keep_connection(const char *connection) {
    logged++;
    snprintf(logged_line, sizeof logged_line, "%s", connection);
}

// The bytes that a client sends after its handshake, and the line about its connection.
static const struct {
    uint8_t sent[32];
    size_t size;
    const char *connection;
} misdeeds[] = {
    { { 0, 0, 0, 0 }, 4, "closed a connection to the store: store: a record of unknown kind 0" },
    { { 10, 0, 0, 0, 3, 1, 0, 0, 0, 0, 0, 0, 0, 0 },
      14,
      "closed a connection to the store: store: a reply to no request" },
    { { 10, 0, 0, 0, 3, 1, 0, 0, 0, 0, 0, 0, 0, 9 },
      14,
      "closed a connection to the store: store: unknown outcome 9 in a reply" },
    { { 13, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 },
      17,
      "closed a connection to the store: store: an empty key" },
    { { 15, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 'k', 'x' },
      19,
      "closed a connection to the store: store: malformed wait: 1 trailing bytes" },
    { { 255, 255, 255, 255 },
      4,
      "closed a connection to the store: store: a record has 4294967295 bytes, at most 66560 are "
      "allowed" },
};

typedef struct raw_client {
    env *env;
    stream *stream;
    bool is_closed;
    waiter *waiter;
    uint8_t sent[64];
    size_t size, done;
    uint8_t received[256];
} raw_client;

static void raw_send(void *user) {
    raw_client *r = user;
    struct iovec part = { r->sent + r->done, r->size - r->done };
    if (part.iov_len) r->done += stream_send(r->stream, &part, 1);
}

static void raw_buffer(void *user, void **into, size_t *size) {
    raw_client *r = user;
    *into = r->received;
    *size = sizeof r->received;
}

static void raw_received(void *user, size_t count) {
    (void)user, (void)count;
}

static void raw_closed(void *user, const gw_error *why) {
    raw_client *r = user;
    (void)why;
    r->is_closed = true;
    env_wake(r->env, r->waiter);
}

static const stream_events raw_events = {
    .opened = raw_send,
    .buffer = raw_buffer,
    .received = raw_received,
    .writable = raw_send,
    .closed = raw_closed,
};

static void misbehave(void *arg) {
    caller *t = arg;
    env_enter(t->env);
    waiter pause = { .what = "the host" };
    env_wait(t->env, &pause, env_now_ns(t->env) + SIM_SECOND / 100);
    for (size_t i = 0; i < sizeof misdeeds / sizeof misdeeds[0]; i++) {
        waiter w = { .what = "the close of its connection" };
        raw_client r = { .env = t->env, .waiter = &w };
        static const uint8_t handshake[20] = {
            'G', 'R', 'A', 'D', 'W', 'I', 'R', 'E', 1, 0, 2, 0, 4
        };
        memcpy(r.sent, handshake, sizeof handshake);
        memcpy(r.sent + sizeof handshake, misdeeds[i].sent, misdeeds[i].size);
        r.size = sizeof handshake + misdeeds[i].size;
        assert_int_equal(
            sim_transport.connect(t->env, t->address, &raw_events, &r, &r.stream, &t->error), 0);
        env_wait(t->env, &w, ENV_NEVER);
        assert_true(r.is_closed);
        assert_int_equal(logged, i + 1);
        assert_string_equal(logged_line, misdeeds[i].connection);
    }
    t->stop = true;
    env_leave(t->env);
}

static void clients_that_break_the_protocol_are_closed(void **state) {
    (void)state;
    caller client = { 0 };
    log_hook = keep_connection;
    host_for(NULL, misbehave, &client);
}

GW_TESTS(store_server, a_missing_host_is_a_timeout, an_invalid_address_is_refused,
         the_loss_of_the_host_ends_waits, the_store_has_a_size_limit,
         clients_that_break_the_protocol_are_closed);
