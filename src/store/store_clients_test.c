// What the clients of a store may do and cost: each limit of docs/protocol/joining.md, on streams that the test
// itself writes to and reads from.
#include "store/store_server.h"
#include "store/store_test.h"

#include "base/log.h"
#include "base/mem.h"
#include "testing/sim.h"
#include "testing/testing.h"

#include <stdio.h>
#include <string.h>

// ---- A host, and streams to it ------------------------------------------------------------------
typedef struct hosted {
    env *env;
    store *store;
    host *host;
} hosted;

typedef struct fake {
    stream stream;  // must be first
    bool is_closed, reads_nothing;
    bytes received;
    size_t received_done;
} fake;

static uint8_t staging[STAGING_BYTES];
static int logged;
static char last_line[512];

static void keep_line(const char *line) {
    logged++;
    snprintf(last_line, sizeof last_line, "%s", line);
}

static void adopt(stream *s) {
    (void)s;
}

static size_t take_sent(stream *s, const struct iovec *parts, int count) {
    fake *f = (fake *)s;
    assert_int_equal(count, 1);
    if (f->reads_nothing) return 0;
    bytes_put(&f->received, parts->iov_base, parts->iov_len);
    return parts->iov_len;
}

static void note_close(stream *s) {
    ((fake *)s)->is_closed = true;
}

static const stream_class fake_class = {
    .transport = &sim_transport, .adopt = adopt, .send = take_sent, .close = note_close
};

static const connection_events no_events = { 0 };

static void open_fake(hosted *x, fake *f) {
    bytes_fini(&f->received);
    *f = (fake){ .stream.class = &fake_class };
    connection *c = connection_accept(x->env, &f->stream, staging, &no_events, NULL);
    assert_non_null(c);
    store_host_take(x->host, c);
    f->received_done = f->received.size;  // the welcome
}

static void close_fake(fake *f) {
    gw_error why = { .status = GW_DISCONNECTED };
    if (!f->is_closed) f->stream.events->closed(f->stream.user, &why);
    bytes_fini(&f->received);
}

static void send_bytes(fake *f, const void *data, size_t size) {
    for (size_t done = 0; done < size && !f->is_closed;) {
        void *into;
        size_t room;
        f->stream.events->buffer(f->stream.user, &into, &room);
        if (room > size - done) room = size - done;
        memcpy(into, (const uint8_t *)data + done, room);
        f->stream.events->received(f->stream.user, room);
        done += room;
    }
}

static void send_record(fake *f, const store_record *r) {
    bytes encoded = { 0 };
    store_record_encode(&encoded, r);
    send_bytes(f, encoded.data, encoded.size);
    bytes_fini(&encoded);
}

static void send_wait(fake *f, const char *key) {
    store_record r = { .kind = STORE_WAIT, .request = 7 };
    snprintf(r.key, sizeof r.key, "%s", key);
    send_record(f, &r);
}

static void send_set(fake *f, const char *key, uint64_t token, size_t size) {
    static const uint8_t value[LIMIT_STORE_VALUE_BYTES];
    store_record r = {
        .kind = STORE_SET, .request = 8, .token = token, .value = value, .size = size
    };
    snprintf(r.key, sizeof r.key, "%s", key);
    send_record(f, &r);
}

// The outcome of the next reply; STORE_OUTCOME_COUNT: there is none.
static store_outcome next_outcome(fake *f) {
    store_record r;
    size_t taken;
    gw_error error;
    assert_int_equal(store_record_decode(f->received.data + f->received_done,
                                         f->received.size - f->received_done, &r, &taken, &error),
                     GW_OK);
    f->received_done += taken;
    return taken ? r.outcome : STORE_OUTCOME_COUNT;
}

static void pass_ms(hosted *x, int64_t ms) {
    waiter w = { .what = "time" };
    env_wait(x->env, &w, env_now_ns(x->env) + ms * 1000000);
}

// "worker/..." registers, and "shared/..." is for registered clients.
static store_use use_of(void *user, const char *key) {
    (void)user;
    return !strncmp(key, "worker/", 7)   ? STORE_REGISTERS
           : !strncmp(key, "shared/", 7) ? STORE_BY_WORKERS
                                         : STORE_READ_ONLY;
}

static void set_here(hosted *x, const char *key, size_t size) {
    static const uint8_t value[LIMIT_STORE_VALUE_BYTES];
    bool is_set;
    assert_int_equal(store_set_if_absent(x->store, key, value, size, 0, &is_set, NULL, NULL), 0);
}

typedef struct part {
    hosted x;
    void (*run)(hosted *x);
    int64_t registered_max;
} part;

static void run_part(void *arg) {
    part *p = arg;
    env_enter(p->x.env);
    const store_host_options of = { .use_of = use_of, .registered_max = p->registered_max };
    assert_int_equal(store_open_host(p->x.env, of, &p->x.store, NULL), GW_OK);
    p->x.host = (host *)p->x.store;
    set_here(&p->x, "job", 8);
    p->run(&p->x);
    store_close(p->x.store);
    env_leave(p->x.env);
}

static void with_host_of(void (*run)(hosted *x), int64_t registered_max, int64_t descriptor_max) {
    sim *s = sim_open(1, (sim_options){ 0 });
    part p = { .x.env = sim_env(s, 0), .run = run, .registered_max = registered_max };
    p.x.env->descriptor_max = descriptor_max;
    log_hook = keep_line;
    logged = 0;
    assert_true(sim_spawn(s, 0, run_part, &p));
    assert_true(sim_run(s, 10000 * SIM_SECOND));
    env_close(p.x.env);
    sim_close(s);
}

static void with_host(void (*run)(hosted *x)) {
    with_host_of(run, 0, 0);
}

static int count_closed(const fake *all, int count) {
    int closed = 0;
    for (int i = 0; i < count; i++) closed += all[i].is_closed;
    return closed;
}

// ---- STORE-8 ------------------------------------------------------------------------------------
enum { MANY = LIMIT_STORE_NEW_CLIENTS + 10 };

static void open_many(hosted *x) {
    static fake worker, all[MANY];
    open_fake(x, &worker);
    send_set(&worker, "worker/1", 1, 4);
    for (int i = 0; i < MANY; i++) open_fake(x, &all[i]);
    assert_int_equal(count_closed(all, MANY), 10);
    assert_int_equal(count_closed(all, 10), 10);
    assert_int_equal(logged, 1);
    assert_string_equal(last_line, "closed 1 connection to the store: too many clients had not "
                                   "registered (LIMIT_STORE_NEW_CLIENTS, here 256)");
    pass_ms(x, 4900);
    assert_int_equal(count_closed(all, MANY), 10);
    pass_ms(x, 200);
    assert_int_equal(count_closed(all, MANY), MANY);
    assert_int_equal(logged, 2);
    assert_string_equal(last_line, "closed 1 connection to the store: clients did not register in "
                                   "time (LIMIT_STORE_CLIENT_MS, here 5000)");
    pass_ms(x, 1000000);
    assert_false(worker.is_closed);
    for (int i = 0; i < MANY; i++) close_fake(&all[i]);
    close_fake(&worker);
}

static void clients_that_do_not_register_make_room(void **state) {
    (void)state;
    with_host(open_many);
}

static void open_a_few(hosted *x) {
    static fake all[12];
    for (int i = 0; i < 12; i++) open_fake(x, &all[i]);
    assert_int_equal(count_closed(all, 12), 2);
    assert_non_null(strstr(last_line, "(LIMIT_STORE_NEW_CLIENTS, here 10)"));
    for (int i = 0; i < 12; i++) close_fake(&all[i]);
}

static void unregistered_clients_have_a_quarter_of_the_descriptors(void **state) {
    (void)state;
    with_host_of(open_a_few, 0, 40);
}

static void ask_all_the_time(hosted *x) {
    static fake f, silent;
    open_fake(x, &silent);
    open_fake(x, &f);
    for (int i = 0; i < 49; i++) {
        send_wait(&f, i % 2 ? "job" : "never");
        send_set(&f, "other", 5, 4);
        pass_ms(x, 100);
    }
    assert_false(f.is_closed || silent.is_closed);
    pass_ms(x, 200);
    assert_true(f.is_closed && silent.is_closed);
    close_fake(&f);
    close_fake(&silent);
}

static void records_of_a_client_do_not_extend_its_deadline(void **state) {
    (void)state;
    with_host(ask_all_the_time);
}

static void register_too_many(hosted *x) {
    static fake all[4];
    for (int i = 0; i < 4; i++) {
        char key[16];
        snprintf(key, sizeof key, "worker/%d", i);
        open_fake(x, &all[i]);
        send_set(&all[i], key, (uint64_t)i + 1, 4);
        pass_ms(x, 1);
    }
    assert_int_equal(count_closed(all, 3), 0);
    assert_true(all[3].is_closed);
    assert_int_equal(next_outcome(&all[3]), STORE_OUTCOME_COUNT);
    assert_string_equal(last_line, "closed 1 connection to the store: too many registered clients "
                                   "(LIMIT_WORKERS, here 3)");
    close_fake(&all[0]);
    open_fake(x, &all[3]);
    send_set(&all[3], "worker/3", 4, 4);
    assert_int_equal(next_outcome(&all[3]), STORE_WAS_SET);
    for (int i = 1; i < 4; i++) close_fake(&all[i]);
}

static void the_number_of_registered_clients_is_limited(void **state) {
    (void)state;
    with_host_of(register_too_many, 3, 0);
}

// ---- STORE-7 ------------------------------------------------------------------------------------
static void set_all_kinds(hosted *x) {
    static fake f;
    const struct {
        const char *key;
        store_outcome outcome;
    } sets[] = { { "job", STORE_FOUND },          { "other", STORE_REFUSED },
                 { "shared/1", STORE_REFUSED },   { "worker/1", STORE_WAS_SET },
                 { "shared/1", STORE_WAS_SET },   { "other", STORE_REFUSED },
                 { "worker/2", STORE_REFUSED },   { "worker/1", STORE_WAS_SET },
                 { "shared/job", STORE_WAS_SET }, { "job", STORE_FOUND } };
    open_fake(x, &f);
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        send_set(&f, sets[i].key, 3, 4);
        assert_int_equal(next_outcome(&f), sets[i].outcome);
    }
    assert_int_equal(x->host->table.entries.count, 4);
    close_fake(&f);
}

static void clients_can_set_the_keys_of_workers_only(void **state) {
    (void)state;
    with_host(set_all_kinds);
}

static void register_again(hosted *x) {
    static fake first, again, other;
    open_fake(x, &first);
    send_set(&first, "worker/1", 11, 4);
    open_fake(x, &other);
    send_set(&other, "worker/1", 12, 4);
    assert_int_equal(next_outcome(&other), STORE_FOUND);
    assert_false(first.is_closed);
    open_fake(x, &again);
    send_set(&again, "worker/1", 11, 4);
    assert_int_equal(next_outcome(&again), STORE_WAS_SET);
    assert_true(first.is_closed);
    assert_int_equal(x->host->registered_count, 1);
    pass_ms(x, 6000);
    assert_true(other.is_closed);
    assert_false(again.is_closed);
    assert_int_equal(logged, 1);  // of |other|
    close_fake(&first);
    close_fake(&again);
    close_fake(&other);
}

static void a_worker_that_connects_again_takes_its_place(void **state) {
    (void)state;
    with_host(register_again);
}

// ---- STORE-9 ------------------------------------------------------------------------------------
static void stop_in_a_record(hosted *x) {
    static fake stops, trickles, ends;
    open_fake(x, &stops);
    open_fake(x, &trickles);
    open_fake(x, &ends);
    send_set(&stops, "worker/1", 1, 4);
    send_set(&trickles, "worker/2", 1, 4);
    send_set(&ends, "worker/3", 1, 4);
    bytes encoded = { 0 };
    store_record_encode(&encoded, &(store_record){ .kind = STORE_WAIT, .key = "shared/a-key" });
    send_bytes(&stops, encoded.data, 3);
    send_bytes(&ends, encoded.data, 10);
    for (size_t i = 0; i < 5; i++) {
        send_bytes(&trickles, encoded.data + i, 1);
        if (i == 4) send_bytes(&ends, encoded.data + 10, encoded.size - 10);
        if (i < 4) pass_ms(x, 1000);
    }
    assert_false(stops.is_closed || trickles.is_closed);
    pass_ms(x, 1100);
    assert_true(stops.is_closed && trickles.is_closed);
    pass_ms(x, 100000);
    assert_false(ends.is_closed);
    assert_string_equal(last_line,
                        "closed 1 connection to the store: clients did not end a record, or did "
                        "not read replies (LIMIT_STORE_CLIENT_MS, here 5000)");
    bytes_fini(&encoded);
    close_fake(&stops);
    close_fake(&trickles);
    close_fake(&ends);
}

static void half_a_record_has_a_deadline(void **state) {
    (void)state;
    with_host(stop_in_a_record);
}

static void read_late(hosted *x) {
    static fake never, late;
    open_fake(x, &never);
    open_fake(x, &late);
    send_set(&never, "worker/1", 1, 4);
    send_set(&late, "worker/2", 1, 4);
    never.reads_nothing = late.reads_nothing = true;
    send_wait(&never, "job");
    send_wait(&late, "job");
    pass_ms(x, 4000);
    late.reads_nothing = false;
    late.stream.events->writable(late.stream.user);
    assert_int_equal(next_outcome(&late), STORE_WAS_SET);
    assert_int_equal(next_outcome(&late), STORE_FOUND);
    pass_ms(x, 1100);
    assert_true(never.is_closed);
    pass_ms(x, 100000);
    assert_false(late.is_closed);
    close_fake(&never);
    close_fake(&late);
}

static void replies_that_are_not_read_have_a_deadline(void **state) {
    (void)state;
    with_host(read_late);
}

static void let_replies_pile_up(hosted *x) {
    static fake waits, asks, other;
    open_fake(x, &waits);
    open_fake(x, &asks);
    open_fake(x, &other);
    set_here(x, "large", LIMIT_STORE_VALUE_BYTES);
    waits.reads_nothing = asks.reads_nothing = true;
    for (int i = 0; i < 10; i++) send_wait(&waits, "larger");
    send_wait(&other, "larger");
    for (int i = 0; i < 10; i++) send_wait(&asks, "large");
    set_here(x, "larger", LIMIT_STORE_VALUE_BYTES);
    assert_int_equal(next_outcome(&other), STORE_FOUND);
    pass_ms(x, 1);
    assert_true(waits.is_closed && asks.is_closed);
    assert_false(other.is_closed);
    assert_int_equal(logged, 1);
    assert_string_equal(last_line, "closed 1 connection to the store: clients did not read too "
                                   "many replies (LIMIT_STORE_UNSENT_BYTES, here 262144)");
    close_fake(&waits);
    close_fake(&asks);
    close_fake(&other);
}

static void replies_do_not_pile_up(void **state) {
    (void)state;
    with_host(let_replies_pile_up);
}

static void set_a_lot(hosted *x) {
    static fake worker, large;
    open_fake(x, &worker);
    send_set(&worker, "worker/1", 1, 4);
    assert_int_equal(next_outcome(&worker), STORE_WAS_SET);
    for (int i = 0; i < 3; i++) {
        char key[16];
        snprintf(key, sizeof key, "shared/%d", i);
        send_set(&worker, key, 1, 5000);
        assert_int_equal(next_outcome(&worker), STORE_WAS_SET);
    }
    send_set(&worker, "shared/3", 1, 5000);
    assert_int_equal(next_outcome(&worker), STORE_REFUSED);
    open_fake(x, &large);
    send_set(&large, "worker/2", 1, LIMIT_STORE_CLIENT_BYTES);
    assert_int_equal(next_outcome(&large), STORE_REFUSED);
    assert_int_equal(x->host->registered_count, 1);
    close_fake(&worker);
    close_fake(&large);
}

static void the_bytes_set_by_a_client_are_limited(void **state) {
    (void)state;
    with_host(set_a_lot);
}

static void wait_a_lot(hosted *x) {
    static fake f, other;
    open_fake(x, &f);
    open_fake(x, &other);
    const size_t before = x->host->table.entries.count;
    send_wait(&other, "key/0");
    for (int i = 0; i < LIMIT_STORE_WAITS; i++) {
        char key[16];
        snprintf(key, sizeof key, "key/%d", i);
        send_wait(&f, key);
        assert_int_equal(next_outcome(&f), STORE_OUTCOME_COUNT);
    }
    assert_int_equal(x->host->table.entries.count, before + LIMIT_STORE_WAITS);
    send_wait(&f, "one/more");
    assert_int_equal(next_outcome(&f), STORE_REFUSED);
    assert_int_equal(x->host->table.entries.count, before + LIMIT_STORE_WAITS);
    close_fake(&f);
    assert_int_equal(x->host->table.entries.count, before + 1);
    set_here(x, "key/0", 4);
    assert_int_equal(next_outcome(&other), STORE_FOUND);
    close_fake(&other);
    assert_int_equal(x->host->table.entries.count, before + 1);
}

static void the_waits_of_a_client_are_limited_and_freed(void **state) {
    (void)state;
    with_host(wait_a_lot);
}

static void wait_here(hosted *x) {
    bytes none = { 0 };
    const size_t before = x->host->table.entries.count;
    assert_int_equal(store_wait(x->store, "never", 0, &none, NULL), GW_TIMEOUT);
    assert_int_equal(x->host->table.entries.count, before);
}

static void a_wait_of_the_host_is_freed(void **state) {
    (void)state;
    with_host(wait_here);
}

// ---- STORE-10 -----------------------------------------------------------------------------------
static void close_many(hosted *x) {
    for (int i = 0; i < 100; i++) closings_count(&x->host->closings, x->env, CLOSING_NEW_COUNT);
    closings_count(&x->host->closings, x->env, CLOSING_UNSENT);
    assert_int_equal(logged, 2);
    pass_ms(x, 60001);
    closings_count(&x->host->closings, x->env, CLOSING_NEW_COUNT);
    assert_int_equal(logged, 3);
    assert_memory_equal(last_line, "closed 100 connections to the store: too many clients", 53);
}

static void many_closed_clients_are_one_line_a_minute(void **state) {
    (void)state;
    with_host(close_many);
}

// ---- The client's part --------------------------------------------------------------------------
typedef struct meeting {
    hosted x;
    env *client_env;
    bool has_registered, is_over;
    size_t entries, clients;
} meeting;

static void wait_until(env *e, const bool *condition) {
    while (!*condition) {
        waiter w = { .what = "the other one" };
        env_wait(e, &w, env_now_ns(e) + SIM_SECOND / 1000);
    }
}

// Cuts the client's connection while it waits; and waits longer than a client may that is not registered.
static void run_host(void *arg) {
    meeting *m = arg;
    hosted *x = &m->x;
    peers *p = NULL;
    gw_error error;
    char bound[ADDRESSES_MAX];
    env_enter(x->env);
    assert_int_equal(peers_open(quiet_peers(x->env), "127.0.0.1:29500", &p, bound, &error), 0);
    const store_host_options of = { .use_of = use_of };
    assert_int_equal(open_host_with(x->env, p, of, &x->store, &error), GW_OK);
    x->host = (host *)x->store;
    wait_until(x->env, &m->has_registered);
    clients_close_all(x->host);
    pass_ms(x, 20000);
    m->entries = x->host->table.entries.count;
    m->clients = (size_t)x->host->registered_count;
    set_here(x, "awaited", 4);
    wait_until(x->env, &m->is_over);
    close_host(p, x->store);
    env_leave(x->env);
}

static void run_client(void *arg) {
    meeting *m = arg;
    env *e = m->client_env;
    store *st;
    bool is_set;
    gw_error error;
    bytes found = { 0 };
    env_enter(e);
    assert_int_equal(store_open_client(e, "127.0.0.1:29500", ENV_NEVER, &st, &error), GW_OK);
    assert_int_equal(store_register(st, "worker/1", "1", 1, ENV_NEVER, &is_set, NULL, &error), 0);
    assert_true(is_set);
    m->has_registered = true;
    gw_status status;
    int tries = 0;
    do {
        int64_t until_ns = env_now_ns(e) + SIM_SECOND / 100;
        status = store_wait(st, "awaited", until_ns, &found, &error);
        tries++;
    } while (status == GW_TIMEOUT);
    assert_int_equal(status, GW_OK);
    assert_true(tries > LIMIT_STORE_WAITS);
    assert_int_equal(found.size, 4);
    bytes_fini(&found);
    store_close(st);
    m->is_over = true;
    env_leave(e);
}

static void wait_again_and_again(uint64_t seed, void *context) {
    (void)context;
    sim *s = sim_open(seed, (sim_options){ 0 });
    meeting m = { .x.env = sim_env(s, 0), .client_env = sim_env(s, 1) };
    logged = 0;
    assert_true(sim_spawn(s, 0, run_host, &m) && sim_spawn(s, 1, run_client, &m));
    assert_true(sim_run(s, 100 * SIM_SECOND));
    assert_int_equal(m.entries, 2);  // "worker/1", and the one that is awaited
    assert_int_equal(m.clients, 1);
    assert_int_equal(logged, 0);
    env_close(m.x.env);
    env_close(m.client_env);
    sim_close(s);
}

static void a_registered_worker_waits_without_limit(void **state) {
    (void)state;
    log_hook = keep_line;
    testing_for_seeds(20, wait_again_and_again, NULL);
}

GW_TESTS(store_store_clients, clients_that_do_not_register_make_room,
         unregistered_clients_have_a_quarter_of_the_descriptors,
         records_of_a_client_do_not_extend_its_deadline,
         the_number_of_registered_clients_is_limited, clients_can_set_the_keys_of_workers_only,
         a_worker_that_connects_again_takes_its_place, half_a_record_has_a_deadline,
         replies_that_are_not_read_have_a_deadline, replies_do_not_pile_up,
         the_bytes_set_by_a_client_are_limited, the_waits_of_a_client_are_limited_and_freed,
         a_wait_of_the_host_is_freed, many_closed_clients_are_one_line_a_minute,
         a_registered_worker_waits_without_limit);
