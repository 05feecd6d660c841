#include "testing/sim.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "testing/testing.h"

enum { TEXT_MAX = 4096 };

// A player on one node: sends numbers to the other and waits for the return of each.
typedef struct player {
    env *env;
    const char *address;
    int rounds;
    stream *stream;
    listener *listener;
    bool opened, closed;
    waiter *waiter;
    uint32_t in, out;
    size_t in_size;
    int done;
    char *log;  // shared by all players: the numbers that each has received, in order
    char name;
} player;

static void wake(player *p) {
    if (p->waiter && !p->waiter->woken) env_wake(p->env, p->waiter);
}

static void on_opened(void *user) {
    player *p = user;
    p->opened = true;
    wake(p);
}

static void on_buffer(void *user, void **into, size_t *size) {
    player *p = user;
    *into = (char *)&p->in + p->in_size;
    *size = sizeof p->in - p->in_size;
}

static void on_received(void *user, size_t count) {
    player *p = user;
    p->in_size += count;
    if (p->in_size == sizeof p->in) wake(p);
}

static void on_writable(void *user) {
    (void)user;
}

static void on_closed(void *user, const gw_error *why) {
    player *p = user;
    (void)why;
    p->closed = true;
    p->stream = NULL;
    wake(p);
}

static const stream_events player_events = { .opened = on_opened,
                                             .buffer = on_buffer,
                                             .received = on_received,
                                             .writable = on_writable,
                                             .closed = on_closed };

static void on_accepted(void *user, stream *c) {
    player *p = user;
    p->stream = c;
    p->opened = true;
    stream_adopt(c, &player_events, p);
    wake(p);
}

static void wait_until(player *p, const bool *done) {
    while (!*done && !p->closed) {
        waiter w = { .what = "a move" };
        p->waiter = &w;
        env_wait(p->env, &w, ENV_NEVER);
        p->waiter = NULL;
    }
}

static void send_number(player *p, uint32_t n) {
    p->out = n;
    size_t sent = stream_send(p->stream, &(struct iovec){ &p->out, sizeof n }, 1);
    // The ring is never full here; the few sends that take less on purpose are repeated.
    while (sent < sizeof n)
        sent +=
            stream_send(p->stream, &(struct iovec){ (char *)&p->out + sent, sizeof n - sent }, 1);
}

static bool receive_number(player *p, uint32_t *out) {
    while (p->in_size < sizeof p->in && !p->closed) {
        waiter w = { .what = "a number" };
        p->waiter = &w;
        env_wait(p->env, &w, ENV_NEVER);
        p->waiter = NULL;
    }
    if (p->in_size < sizeof p->in) return false;
    *out = p->in;
    p->in_size = 0;
    if (p->log && strlen(p->log) < TEXT_MAX - 2) strncat(p->log, &p->name, 1);
    return true;
}

static void serve(void *arg) {
    player *p = arg;
    char bound[ADDRESS_MAX];
    gw_error error;
    env_enter(p->env);
    assert_int_equal(
        sim_transport.listen(p->env, p->address, on_accepted, p, &p->listener, bound, &error),
        GW_OK);
    wait_until(p, &p->opened);
    for (uint32_t n; receive_number(p, &n); p->done++) send_number(p, n + 1);
    env_leave(p->env);
    env_close(p->env);
}

static void play(void *arg) {
    player *p = arg;
    gw_error error;
    env_enter(p->env);
    while (!p->opened) {
        p->closed = false;
        assert_int_equal(
            sim_transport.connect(p->env, p->address, &player_events, p, &p->stream, &error),
            GW_OK);
        wait_until(p, &p->opened);
    }
    for (uint32_t n = 0; p->done < p->rounds; p->done++) {
        send_number(p, n);
        uint32_t answer;
        if (!receive_number(p, &answer)) break;
        assert_int_equal(answer, n + 1);
        n = answer;
    }
    if (p->stream) stream_close(p->stream);
    env_leave(p->env);
    env_close(p->env);
}

typedef struct game {
    char log[TEXT_MAX];
    uint64_t hash;
    sim_counts counts;
    int64_t took_ns;
    int done;
} game;

// |pairs| games at once between nodes 0, 1 and 2, 3 and so on.
static game run_game(uint64_t seed, sim_options options, int pairs, int rounds) {
    game g = { 0 };
    player players[16] = { 0 };
    char addresses[8][ADDRESS_MAX];
    sim *s = sim_open(seed, options);
    for (int i = 0; i < pairs * 2; i++) {
        snprintf(addresses[i / 2], ADDRESS_MAX, "host%d:29500", i / 2);
        players[i] = (player){ .env = sim_env(s, i),
                               .address = addresses[i / 2],
                               .rounds = rounds,
                               .log = g.log,
                               .name = (char)('a' + i) };
        sim_spawn(s, i, i % 2 ? play : serve, &players[i]);
    }
    assert_true(sim_run(s, 1000 * SIM_SECOND));
    g.hash = sim_trace_hash(s);
    g.counts = sim_count(s);
    g.took_ns = sim_now_ns(s);
    g.done = players[1].done;
    sim_close(s);
    return g;
}

static void the_same_seed_gives_the_same_run(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        game a = run_game(seed, (sim_options){ .cut_per_million = 1000 }, 3, 30);
        game b = run_game(seed, (sim_options){ .cut_per_million = 1000 }, 3, 30);
        assert_true(a.hash == b.hash);
        assert_string_equal(a.log, b.log);
        assert_true(a.took_ns == b.took_ns);
    }
}

static void other_seeds_give_other_orders(void **state) {
    (void)state;
    game a = run_game(1, (sim_options){ 0 }, 3, 30);
    int different = 0;
    for (uint64_t seed = 2; seed <= 11; seed++) {
        game b = run_game(seed, (sim_options){ 0 }, 3, 30);
        assert_true(a.hash != b.hash);
        different += strcmp(a.log, b.log) != 0;
    }
    assert_true(different >= 8);
}

static void many_rounds_are_played(void **state) {
    (void)state;
    game g = run_game(1, (sim_options){ 0 }, 1, testing_scaled(10000));
    assert_int_equal(g.done, testing_scaled(10000));
    assert_true(g.counts.deliveries >= 2 * (uint64_t)g.done);
}

// ---- Virtual time -------------------------------------------------------------------------------

typedef struct sleeper {
    env *env;
    int64_t until_ns, woke_ns;
    bool woken;
    waiter waiter;
} sleeper;

static void sleep_until(void *arg) {
    sleeper *x = arg;
    env_enter(x->env);
    x->waiter.what = "a long time";
    x->woken = env_wait(x->env, &x->waiter, x->until_ns);
    x->woke_ns = env_now_ns(x->env);
    env_leave(x->env);
}

static void an_hour_passes_at_once(void **state) {
    (void)state;
    sim *s = sim_open(7, (sim_options){ 0 });
    sleeper x[3];
    for (int i = 0; i < 3; i++) {
        x[i] = (sleeper){ .env = sim_env(s, i), .until_ns = (3 - i) * 3600 * SIM_SECOND };
        assert_true(sim_spawn(s, i, sleep_until, &x[i]));
    }
    assert_true(sim_run(s, ENV_NEVER));
    for (int i = 0; i < 3; i++) {
        assert_false(x[i].woken);
        assert_true(x[i].woke_ns >= x[i].until_ns);
        assert_true(x[i].woke_ns < x[i].until_ns + SIM_SECOND);
    }
    assert_true(sim_count(s).decisions < 100);
    sim_close(s);
}

typedef struct bell {
    timer timer;
    sleeper *wakes;
    int *order, index;
} bell;

static void strike(timer *t) {
    bell *b = (bell *)t;
    assert_true(env_held(b->wakes->env));
    assert_non_null(env_turn(b->wakes->env));
    assert_true(env_now_ns(b->wakes->env) >= t->due_ns);
    *b->order = *b->order * 10 + b->index;
    if (b->index == 3) env_wake(b->wakes->env, &b->wakes->waiter);
}

static void timers_fire_in_order(void **state) {
    (void)state;
    sim *s = sim_open(7, (sim_options){ 0 });
    sleeper x = { .env = sim_env(s, 0), .until_ns = ENV_NEVER };
    int order = 0;
    bell b[4];
    sim_spawn(s, 0, sleep_until, &x);
    env_enter(x.env);
    for (int i = 0; i < 4; i++) {
        b[i] = (bell){ .timer.fire = strike, .wakes = &x, .order = &order, .index = i };
        env_set_timer(x.env, &b[i].timer, i * SIM_SECOND);
    }
    env_set_timer(x.env, &b[1].timer, ENV_NEVER);
    env_set_timer(x.env, &b[2].timer, SIM_SECOND / 2);
    env_leave(x.env);
    assert_true(sim_run(s, 10 * SIM_SECOND));
    assert_true(x.woken);
    assert_int_equal(order, 23);
    sim_close(s);
}

// ---- Runs that do not end -----------------------------------------------------------------------

static void a_deadlock_is_reported_with_the_seed(void **state) {
    (void)state;
    sim *s = sim_open(4711, (sim_options){ .quiet = true });
    sleeper x[2];
    for (int i = 0; i < 2; i++) {
        x[i] = (sleeper){ .env = sim_env(s, i), .until_ns = i ? ENV_NEVER : SIM_SECOND };
        sim_spawn(s, i, sleep_until, &x[i]);
    }
    assert_false(sim_run(s, ENV_NEVER));
    assert_non_null(strstr(sim_report(s), "deadlock at virtual time 1.0"));
    assert_non_null(strstr(sim_report(s), "seed 4711"));
    assert_non_null(strstr(sim_report(s), "node 1 main waits for a long time"));
    assert_null(strstr(sim_report(s), "node 0"));
    sim_close(s);  // and the thread that waits for ever is gone
}

static void a_run_that_takes_too_long_is_reported(void **state) {
    (void)state;
    sim *s = sim_open(1, (sim_options){ .quiet = true });
    sleeper x = { .env = sim_env(s, 0), .until_ns = 10 * SIM_SECOND };
    sim_spawn(s, 0, sleep_until, &x);
    assert_false(sim_run(s, SIM_SECOND));
    assert_non_null(strstr(sim_report(s), "not done at virtual time"));
    assert_non_null(strstr(sim_report(s), "until 10.000000 s"));
    assert_true(sim_now_ns(s) < 2 * SIM_SECOND);
    assert_true(sim_run(s, 20 * SIM_SECOND));  // it can continue
    sim_close(s);
}

static void turn_for_ever(void *arg) {
    for (;;) {
        env_enter(arg);
        env_leave(arg);
    }
}

static void a_thread_that_never_waits_is_reported(void **state) {
    (void)state;
    sim *s = sim_open(1, (sim_options){ .quiet = true });
    sim_spawn(s, 0, turn_for_ever, sim_env(s, 0));
    assert_false(sim_run(s, SIM_SECOND / 1000));
    assert_non_null(strstr(sim_report(s), "node 0 main can continue"));
    sim_close(s);
}

// ---- Threads ------------------------------------------------------------------------------------

typedef struct office {
    env *env;
    waiter *workers[4];
    int worker_count, done_count, must_leave;
    char order[64];
    waiter finished;
    int wanted;
} office;

static void work(void *arg) {
    office *o = arg;
    env_enter(o->env);
    int self = o->worker_count++;
    while (!o->must_leave) {
        waiter w = { .idle = true };
        o->workers[self] = &w;
        env_wait(o->env, &w, ENV_NEVER);
        o->workers[self] = NULL;
        if (o->must_leave) break;
        o->order[o->done_count++] = (char)('a' + self);
        if (o->done_count == o->wanted) env_wake(o->env, &o->finished);
    }
    env_leave(o->env);
}

static void direct(void *arg) {
    office *o = arg;
    gw_error error;
    env_enter(o->env);
    for (int i = 0; i < 4; i++) assert_int_equal(env_spawn(o->env, work, o, &error), GW_OK);
    for (int given = 0; given < o->wanted;) {
        waiter *free_one = NULL;
        for (int i = 0; i < 4; i++) {
            if (o->workers[i] && !o->workers[i]->woken) free_one = o->workers[i];
        }
        if (free_one) {
            env_wake(o->env, free_one);
            given++;
        } else {
            waiter w = { .what = "a free worker" };
            env_wait(o->env, &w, env_now_ns(o->env) + SIM_SECOND);
        }
    }
    assert_true(env_wait(o->env, &o->finished, ENV_NEVER));
    o->must_leave = true;
    for (int i = 0; i < 4; i++) {
        if (o->workers[i] && !o->workers[i]->woken) env_wake(o->env, o->workers[i]);
    }
    env_leave(o->env);
    env_close(o->env);
}

static office run_office(uint64_t seed) {
    sim *s = sim_open(seed, (sim_options){ 0 });
    office o = { .env = sim_env(s, 0), .wanted = 40 };
    sim_spawn(s, 0, direct, &o);
    assert_true(sim_run(s, 1000 * SIM_SECOND));
    assert_int_equal(o.done_count, 40);
    sim_close(s);
    return o;
}

static void spawned_threads_run_in_an_order_the_seed_decides(void **state) {
    (void)state;
    int different = 0;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        office a = run_office(seed), b = run_office(seed), c = run_office(seed + 100);
        assert_string_equal(a.order, b.order);
        different += strcmp(a.order, c.order) != 0;
    }
    assert_true(different >= 8);
}

typedef struct racer {
    env *env;
    int *seen, rounds;
    int lost_count;
} racer;

// Reads and writes back in two turns: an update between them is lost.
static void race(void *arg) {
    racer *r = arg;
    for (int i = 0; i < r->rounds; i++) {
        env_enter(r->env);
        int value = *r->seen;
        env_leave(r->env);
        env_enter(r->env);
        if (*r->seen != value) r->lost_count++;
        *r->seen = value + 1;
        env_leave(r->env);
    }
}

static int count_lost(int interleave_per_million) {
    sim *s = sim_open(1, (sim_options){ .interleave_per_million = interleave_per_million });
    int seen = 0;
    racer r[2];
    for (int i = 0; i < 2; i++) {
        r[i] = (racer){ .env = sim_env(s, 0), .seen = &seen, .rounds = 1000 };
        sim_spawn(s, 0, race, &r[i]);
    }
    assert_true(sim_run(s, 100 * SIM_SECOND));
    sim_close(s);
    return r[0].lost_count + r[1].lost_count;
}

static void threads_are_overtaken_where_they_enter(void **state) {
    (void)state;
    assert_int_equal(count_lost(-1), 0);
    assert_true(count_lost(0) > 10);
    assert_true(count_lost(500000) > count_lost(0));
}

typedef struct job {
    task task;
    env *env;
    char *log;
    char name;
    struct job *defers;
    waiter *wakes;
} job;

static void run_job(task *t) {
    job *j = (job *)t;
    assert_false(env_held(j->env));
    strncat(j->log, &j->name, 1);
    env_enter(j->env);
    if (j->defers) env_defer(j->env, &j->defers->task);
    if (j->wakes) env_wake(j->env, j->wakes);
    env_leave(j->env);
}

typedef struct task_test {
    env *env;
    char log[16];
} task_test;

static void defer_some(void *arg) {
    task_test *x = arg;
    waiter w = { .what = "the last task" };
    job c = { .task.run = run_job, .env = x->env, .log = x->log, .name = 'c', .wakes = &w };
    job a = { .task.run = run_job, .env = x->env, .log = x->log, .name = 'a', .defers = &c };
    job b = { .task.run = run_job, .env = x->env, .log = x->log, .name = 'b' };
    env_enter(x->env);
    env_defer(x->env, &a.task);
    env_defer(x->env, &b.task);
    assert_true(env_wait(x->env, &w, ENV_NEVER));
    env_leave(x->env);
}

static void tasks_run_in_order_without_the_loop_lock(void **state) {
    (void)state;
    sim *s = sim_open(1, (sim_options){ 0 });
    task_test x = { .env = sim_env(s, 0) };
    sim_spawn(s, 0, defer_some, &x);
    assert_true(sim_run(s, SIM_SECOND));
    assert_string_equal(x.log, "abc");
    sim_close(s);
}

static void a_thousand_short_runs_use_the_same_threads(void **state) {
    (void)state;
    for (int i = 0; i < testing_scaled(1000); i++) {
        game g = run_game((uint64_t)i + 1, (sim_options){ 0 }, 2, 3);
        assert_int_equal(g.done, 3);
    }
}

static void nothing_moves_without_memory(void *context) {
    (void)context;
    sim *s = sim_open(1, (sim_options){ 0 });
    if (!s) return;
    sleeper x = { .env = sim_env(s, 0), .until_ns = SIM_SECOND };
    if (x.env && sim_spawn(s, 0, sleep_until, &x)) assert_true(sim_run(s, 2 * SIM_SECOND));
    sim_close(s);
}

static void nothing_is_lost_without_memory(void **state) {
    (void)state;
    testing_alloc_failure_loop(nothing_moves_without_memory, NULL);
}

GW_TESTS(sim, the_same_seed_gives_the_same_run, other_seeds_give_other_orders,
         many_rounds_are_played, an_hour_passes_at_once, timers_fire_in_order,
         a_deadlock_is_reported_with_the_seed, a_run_that_takes_too_long_is_reported,
         a_thread_that_never_waits_is_reported, spawned_threads_run_in_an_order_the_seed_decides,
         threads_are_overtaken_where_they_enter, tasks_run_in_order_without_the_loop_lock,
         a_thousand_short_runs_use_the_same_threads, nothing_is_lost_without_memory);
