#include "net/transport/routes.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/status.h"
#include "testing/sim.h"
#include "testing/testing.h"

// An env with transports of these schemes, the best first; all are the simulator's.
typedef struct world {
    sim *sim;
    env *env;
    transport transports[3];
    const transport *list[4];
} world;

static world open_world(const char *first, const char *second) {
    world w = { .sim = sim_open(1, (sim_options){ 0 }) };
    w.env = sim_env(w.sim, 0);
    w.transports[0] = w.transports[1] = sim_transport;
    w.transports[0].scheme = first;
    if (second) w.transports[1].scheme = second;
    return w;
}

static void use(world *w, bool both) {
    w->list[0] = &w->transports[0];
    w->list[1] = both ? &w->transports[1] : NULL;
    w->env->transports = w->list;
}

static void expect_address(const char **at, const char *scheme, const char *rest) {
    address_text a;
    assert_true(address_take(at, &a));
    assert_string_equal(a.scheme, scheme);
    assert_string_equal(a.rest, rest);
}

static void it_takes_a_list_apart(void **state) {
    (void)state;
    const char *at = "shm://5/7,127.0.0.1:29500,tcp://[::1]:1,,averyveryverylongscheme://x";
    address_text a;
    expect_address(&at, "shm", "5/7");
    expect_address(&at, "tcp", "127.0.0.1:29500");
    expect_address(&at, "tcp", "[::1]:1");
    expect_address(&at, "tcp", "");
    expect_address(&at, "", "x");
    assert_false(address_take(&at, &a));
    char longer[400];
    memset(longer, 'x', sizeof longer);
    longer[399] = '\0';
    at = longer;
    expect_address(&at, "tcp", "");
    assert_false(address_take(&at, &a));
}

static void answer(routes *r, gw_status status, const char *text, bool continues) {
    gw_error error;
    error_set(&error, status, "%s", text);
    assert_true(routes_failed(r, &error, false) == continues);
}

static void it_skips_unknown_schemes(void **state) {
    (void)state;
    world w = open_world("tcp", NULL);
    use(&w, false);
    routes r;
    assert_true(routes_init(&r, w.env, "shm://5/7,tcp://a:1,moon://b,tcp://c:2"));
    assert_int_equal(r.given_count, 2);
    assert_true(routes_begin(&r));
    assert_int_equal(r.count, 2);
    assert_string_equal(routes_at(&r)->address, "a:1");
    assert_ptr_equal(routes_at(&r)->transport, &w.transports[0]);
    answer(&r, GW_DISCONNECTED, "broken", true);
    assert_string_equal(routes_at(&r)->address, "c:2");
    routes_fini(&r);
    assert_true(routes_init(&r, w.env, "moon://b"));
    assert_false(routes_begin(&r));
    assert_int_equal(error_kept(r.why)->status, GW_INVALID);
    assert_string_equal(error_kept(r.why)->text,
                        "no transport of this worker can use an address like \"moon://b\"");
    routes_fini(&r);
    sim_close(w.sim);
}

static void it_begins_with_the_address_that_worked(void **state) {
    (void)state;
    world w = open_world("tcp", "shm");
    use(&w, true);
    routes r;
    assert_true(routes_init(&r, w.env, "shm://s,tcp://a:1,tcp://b:2"));
    routes_begin(&r);
    assert_ptr_equal(routes_at(&r)->transport, &w.transports[1]);
    answer(&r, GW_NOT_FOUND, "none", true);
    routes_worked(&r);
    routes_begin(&r);
    assert_string_equal(routes_at(&r)->address, "a:1");
    answer(&r, GW_DISCONNECTED, "broken", true);
    assert_string_equal(routes_at(&r)->address, "b:2");
    answer(&r, GW_NOT_FOUND, "refused", true);
    assert_string_equal(routes_at(&r)->address, "s");
    answer(&r, GW_NOT_FOUND, "none", false);
    routes_fini(&r);
    sim_close(w.sim);
}

// The failures of all addresses are one error text, with the status that matters most.
static void its_error_names_each_address_and_its_failure(void **state) {
    (void)state;
    static const struct {
        gw_status first, second, all;
    } cases[] = {
        { GW_NOT_FOUND, GW_NOT_FOUND, GW_NOT_FOUND }, { GW_NOT_FOUND, GW_TIMEOUT, GW_TIMEOUT },
        { GW_TIMEOUT, GW_NOT_FOUND, GW_TIMEOUT },     { GW_INVALID, GW_NOT_FOUND, GW_NOT_FOUND },
        { GW_INVALID, GW_INVALID, GW_INVALID },       { GW_INVALID, GW_PROTOCOL, GW_PROTOCOL },
    };
    world w = open_world("tcp", NULL);
    use(&w, false);
    routes r;
    assert_true(routes_init(&r, w.env, "a:1,b:2"));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        routes_begin(&r);
        answer(&r, cases[i].first, "Connection refused", true);
        answer(&r, cases[i].second, "no hello arrived", false);
        assert_int_equal(error_kept(r.why)->status, cases[i].all);
        assert_string_equal(error_kept(r.why)->text,
                            "a:1: Connection refused; b:2: no hello arrived");
    }
    routes_fini(&r);
    sim_close(w.sim);
}

static void it_tries_only_so_many(void **state) {
    (void)state;
    world w = open_world("tcp", NULL);
    use(&w, false);
    routes r;
    char many[(LIMIT_ADDRESSES + 5) * 4 + 1] = "";
    for (int i = 0; i < LIMIT_ADDRESSES + 5; i++) memcpy(many + i * 4, "a:1,", 4);
    assert_true(routes_init(&r, w.env, many));
    assert_true(routes_begin(&r));
    assert_int_equal(r.count, LIMIT_ADDRESSES);
    routes_fini(&r);
    sim_close(w.sim);
}

// What "here" resolves to now; other names do not resolve.
static const char *meaning;

static gw_status resolve(const char *text, char out[ADDRESSES_MAX], gw_error *error) {
    if (strcmp(text, "here:1") != 0) return error_set(error, GW_NOT_FOUND, "%s: no name", text);
    snprintf(out, ADDRESSES_MAX, "%s", meaning);
    return GW_OK;
}

static void it_resolves_names_in_every_round(void **state) {
    (void)state;
    world w = open_world("tcp", NULL);
    w.transports[0].resolve = resolve;
    use(&w, false);
    routes r;
    assert_true(routes_init(&r, w.env, "here:1,other:2"));
    meaning = "10.0.0.1:1,10.0.0.2:1";
    assert_true(routes_begin(&r));
    assert_int_equal(r.count, 3);
    assert_string_equal(routes_at(&r)->address, "10.0.0.1:1");
    answer(&r, GW_DISCONNECTED, "10.0.0.1:1: broken", true);
    assert_string_equal(routes_at(&r)->address, "10.0.0.2:1");
    routes_worked(&r);
    // The address that has worked is first as long as the name still resolves to it.
    meaning = "10.0.0.3:1,10.0.0.2:1";
    assert_true(routes_begin(&r));
    assert_string_equal(routes_at(&r)->address, "10.0.0.2:1");
    meaning = "10.0.0.3:1";
    assert_true(routes_begin(&r));
    assert_string_equal(routes_at(&r)->address, "10.0.0.3:1");
    answer(&r, GW_NOT_FOUND, "10.0.0.3:1: refused", true);
    // Connecting there reports why it is no address.
    assert_string_equal(routes_at(&r)->address, "other:2");
    routes_fini(&r);
    sim_close(w.sim);
}

// ---- Listeners ----------------------------------------------------------------------------------
static void ignore_stream(void *user, stream *s) {
    (void)user;
    stream_close(s);
}

static gw_status listen(world *w, const char *addresses, listeners *l, char out[ADDRESSES_MAX],
                        gw_error *error) {
    env_enter(w->env);
    gw_status status = listeners_open(w->env, addresses, ignore_stream, NULL, l, out, error);
    env_leave(w->env);
    return status;
}

static void it_listens_over_every_transport(void **state) {
    (void)state;
    world w = open_world("shm", "tcp");
    w.transports[0].anywhere = "here:7";
    use(&w, true);
    listeners l;
    char out[ADDRESSES_MAX];
    gw_error error;
    // At the given address, at the default, and in the order of the transports.
    assert_int_equal(listen(&w, "tcp://a:1,b:2", &l, out, &error), GW_OK);
    assert_string_equal(out, "shm://here:7,tcp://a:1,tcp://b:2");
    assert_int_equal(l.count, 3);
    env_enter(w.env);
    listeners_close(&l);
    listeners_close(&l);
    env_leave(w.env);
    sim_close(w.sim);
}

static void ignore_line(const char *line) {
    (void)line;
}

static void a_default_transport_may_fail_to_listen(void **state) {
    (void)state;
    world w = open_world("shm", "tcp");
    w.transports[0].anywhere = "nonsense";
    use(&w, true);
    listeners l;
    char out[ADDRESSES_MAX];
    gw_error error;
    log_hook = ignore_line;
    assert_int_equal(listen(&w, "a:1", &l, out, &error), GW_OK);
    assert_string_equal(out, "tcp://a:1");
    // A chosen address must be listened on, and its transport must exist.
    listeners other;
    assert_int_equal(listen(&w, "a:1", &other, out, &error), GW_ADDRESS_IN_USE);
    assert_int_equal(other.count, 0);
    assert_int_equal(listen(&w, "moon://b", &other, out, &error), GW_UNSUPPORTED);
    assert_string_equal(error.text, "cannot listen at moon://b: no such transport");
    sim_close(w.sim);
}

GW_TESTS(net_routes, it_takes_a_list_apart, it_skips_unknown_schemes,
         it_begins_with_the_address_that_worked, its_error_names_each_address_and_its_failure,
         it_tries_only_so_many, it_resolves_names_in_every_round, it_listens_over_every_transport,
         a_default_transport_may_fail_to_listen);
