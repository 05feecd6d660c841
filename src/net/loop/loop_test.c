#include "net/loop/loop.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/mem.h"
#include "net/env_os.h"
#include "testing/testing.h"

enum { MS = 1000 * 1000, THREAD_COUNT = 24 };

static env *open_env(void) {
    env *e = NULL;
    gw_error error;
    assert_int_equal(env_os_open(&e, &error), GW_OK);
    return e;
}

static void spawn(env *e, void (*main)(void *arg), void *arg) {
    gw_error error;
    assert_int_equal(env_spawn(e, main, arg, &error), GW_OK);
}

// Lets time pass without touching the environment under test.
static void let_pass(int64_t ns) {
    env *other = open_env();
    env_enter(other);
    waiter w = { 0 };
    assert_false(env_wait(other, &w, env_now_ns(other) + ns));
    env_leave(other);
    env_close(other);
}

// ---- The loop lock ------------------------------------------------------------------------------

static void pairs_nest(void **state) {
    (void)state;
    env *e = open_env();
    assert_false(env_held(e));
    env_enter(e);
    env_enter(e);
    env_leave(e);
    assert_true(env_held(e));
    env_leave(e);
    assert_false(env_held(e));
    env_close(e);
}

typedef struct counter {
    env *env;
    int count, rounds;
} counter;

static void count_up(void *arg) {
    counter *c = arg;
    for (int i = 0; i < c->rounds; i++) {
        env_enter(c->env);
        c->count++;
        env_leave(c->env);
    }
}

static void one_thread_at_a_time_holds_it(void **state) {
    (void)state;
    counter c = { .env = open_env(), .rounds = 2000 };
    env_enter(c.env);
    for (int i = 0; i < 8; i++) spawn(c.env, count_up, &c);
    env_leave(c.env);
    env_close(c.env);
    assert_int_equal(c.count, 8 * 2000);
}

// ---- Waiting ------------------------------------------------------------------------------------

static void a_wait_ends_at_its_time(void **state) {
    (void)state;
    env *e = open_env();
    env_enter(e);
    waiter w = { .idle = false }, idle = { .idle = true };
    int64_t until_ns = env_now_ns(e) + 2 * MS;
    assert_false(env_wait(e, &w, until_ns));
    assert_true(env_now_ns(e) >= until_ns);
    until_ns = env_now_ns(e) + 2 * MS;
    assert_false(env_wait(e, &idle, until_ns));
    assert_true(env_now_ns(e) >= until_ns);
    assert_false(env_wait(e, &w, 0));
    env_leave(e);
    env_close(e);
}

// ---- Signals ------------------------------------------------------------------------------------

typedef struct signalled {
    env *env;
    pthread_t thread;
    _Atomic bool has_ended, other_has_ended;
} signalled;

static void handle(int number) {
    (void)number;
}

// A signal may arrive before its thread sleeps, so it is sent until the wait has ended.
static void *send_signals(void *arg) {
    signalled *x = arg;
    while (!x->has_ended) {
        pthread_kill(x->thread, SIGUSR1);
        let_pass(MS);
    }
    return NULL;
}

static void handle_signals(int flags) {
    struct sigaction action = { .sa_handler = handle, .sa_flags = flags };
    sigemptyset(&action.sa_mask);
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
}

static void wait_for_signal(signalled *x) {
    waiter w = { .until_signal = true };
    env_enter(x->env);
    assert_false(env_wait(x->env, &w, ENV_NEVER));
    env_leave(x->env);
    assert_false(w.woken);
}

static void begin_signals(signalled *x, pthread_t *out) {
    *x = (signalled){ .env = open_env(), .thread = pthread_self() };
    assert_int_equal(pthread_create(out, NULL, send_signals, x), 0);
}

static void end_signals(signalled *x, pthread_t sender) {
    x->has_ended = true;
    assert_int_equal(pthread_join(sender, NULL), 0);
    env_close(x->env);
}

static void a_signal_ends_a_wait_that_requests_it(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        signalled x;
        pthread_t sender;
        handle_signals(i ? SA_RESTART : 0);
        begin_signals(&x, &sender);
        wait_for_signal(&x);
        end_signals(&x, sender);
    }
}

static void *poll_until_woken(void *arg) {
    signalled *x = arg;
    waiter w = { 0 };
    env_enter(x->env);
    while (!x->other_has_ended) env_wait(x->env, &w, env_now_ns(x->env) + MS);
    env_leave(x->env);
    return NULL;
}

// Another thread polls, so that the wait sleeps on a futex, or in turns with that thread.
static void a_signal_ends_the_wait_of_a_thread_that_does_not_poll(void **state) {
    (void)state;
    signalled x, other = { 0 };
    pthread_t sender, poller;
    handle_signals(0);
    begin_signals(&x, &sender);
    other.env = x.env;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    assert_int_equal(pthread_create(&poller, NULL, poll_until_woken, &other), 0);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    for (int i = 0; i < 20; i++) wait_for_signal(&x);
    other.other_has_ended = true;
    assert_int_equal(pthread_join(poller, NULL), 0);
    end_signals(&x, sender);
}

static void other_waits_continue_after_signals(void **state) {
    (void)state;
    signalled x;
    pthread_t sender;
    handle_signals(0);
    begin_signals(&x, &sender);
    env_enter(x.env);
    waiter w = { 0 };
    int64_t until_ns = env_now_ns(x.env) + 20 * MS;
    assert_false(env_wait(x.env, &w, until_ns));
    assert_true(env_now_ns(x.env) >= until_ns);
    env_leave(x.env);
    end_signals(&x, sender);
}

static void one_woken_before_it_waits_does_not_wait(void **state) {
    (void)state;
    env *e = open_env();
    env_enter(e);
    waiter w = { 0 };
    env_wake(e, &w);
    assert_true(env_wait(e, &w, ENV_NEVER));
    env_leave(e);
    env_close(e);
}

// A ring of threads, each of which waits for its neighbour and then wakes the next.
typedef struct ring {
    env *env;
    waiter waiters[THREAD_COUNT];
    bool idle[THREAD_COUNT], is_there[THREAD_COUNT];
    int next_thread, rounds, passed;
    waiter all_arrived;
    int arrived_count;
} ring;

static void pass_on(void *arg) {
    ring *r = arg;
    env_enter(r->env);
    int self = r->next_thread++;
    r->arrived_count++;
    if (r->arrived_count == THREAD_COUNT) env_wake(r->env, &r->all_arrived);
    for (int i = 0; i < r->rounds; i++) {
        waiter *w = &r->waiters[self];
        assert_true(env_wait(r->env, w, ENV_NEVER));
        *w = (waiter){ .idle = r->idle[self] };
        r->passed++;
        env_wake(r->env, &r->waiters[(self + 1) % THREAD_COUNT]);
    }
    env_leave(r->env);
}

static void go_round(int idle_every) {
    ring r = { .env = open_env(), .rounds = testing_scaled(200) };
    env_enter(r.env);
    for (int i = 0; i < THREAD_COUNT; i++) {
        r.idle[i] = idle_every > 0 && i % idle_every == 0;
        r.waiters[i].idle = r.idle[i];
        spawn(r.env, pass_on, &r);
    }
    assert_true(env_wait(r.env, &r.all_arrived, ENV_NEVER));
    env_wake(r.env, &r.waiters[0]);
    env_leave(r.env);
    env_close(r.env);
    assert_int_equal(r.passed, THREAD_COUNT * r.rounds);
}

static void many_threads_wake_each_other(void **state) {
    (void)state;
    go_round(0);
}

static void many_idle_threads_wake_each_other(void **state) {
    (void)state;
    go_round(1);
}

static void idle_and_parked_threads_wake_each_other(void **state) {
    (void)state;
    go_round(3);
}

// ---- Timers -------------------------------------------------------------------------------------

typedef struct bell {
    timer timer;
    env *env;
    int *order, index;
    int again;  // times it arms itself
    waiter *waiter;
    timer *disarms;
} bell;

static void strike(timer *t) {
    bell *a = (bell *)t;
    assert_true(env_held(a->env));
    assert_true(env_now_ns(a->env) >= t->due_ns);
    if (a->order) *a->order = *a->order * 10 + a->index;
    if (a->disarms) env_set_timer(a->env, a->disarms, ENV_NEVER);
    if (a->again-- > 0) {
        env_set_timer(a->env, t, 0);
    } else if (a->waiter) {
        env_wake(a->env, a->waiter);
    }
}

static void timers_fire_in_order(void **state) {
    (void)state;
    env *e = open_env();
    env_enter(e);
    int order = 0;
    waiter w = { 0 };
    int64_t now_ns = env_now_ns(e);
    bell a[5];
    for (int i = 0; i < 5; i++)
        a[i] = (bell){ .timer.fire = strike, .env = e, .order = &order, .index = i + 1 };
    a[0].waiter = &w;
    a[1].disarms = &a[4].timer;
    env_set_timer(e, &a[0].timer, now_ns + 4 * MS);
    env_set_timer(e, &a[1].timer, now_ns + 2 * MS);
    env_set_timer(e, &a[2].timer, now_ns + 1 * MS);
    env_set_timer(e, &a[3].timer, now_ns - 1 * MS);
    env_set_timer(e, &a[4].timer, now_ns + 3 * MS);
    assert_true(env_wait(e, &w, ENV_NEVER));
    assert_int_equal(order, 4321);
    env_leave(e);
    env_close(e);
}

static void a_timer_that_rearms_itself_does_not_starve_threads(void **state) {
    (void)state;
    env *e = open_env();
    env_enter(e);
    waiter w = { 0 };
    bell endless = { .timer.fire = strike, .env = e, .again = 1 << 30 };
    bell other = { .timer.fire = strike, .env = e, .waiter = &w };
    env_set_timer(e, &endless.timer, 0);
    env_set_timer(e, &other.timer, env_now_ns(e) + MS);
    assert_true(env_wait(e, &w, ENV_NEVER));
    env_set_timer(e, &endless.timer, ENV_NEVER);
    env_leave(e);
    env_close(e);
}

static void wait_for_work(void *arg) {
    bell *a = arg;
    env_enter(a->env);
    assert_true(env_wait(a->env, a->waiter, ENV_NEVER));
    env_leave(a->env);
}

static void timers_fire_when_only_an_idle_thread_waits(void **state) {
    (void)state;
    env *e = open_env();
    waiter w[6];
    bell a[6];
    env_enter(e);
    for (int i = 0; i < 6; i++) {
        w[i] = (waiter){ .idle = true };
        a[i] = (bell){ .timer.fire = strike, .env = e, .waiter = &w[i] };
        spawn(e, wait_for_work, &a[i]);
        env_set_timer(e, &a[i].timer, env_now_ns(e) + i * MS);
    }
    env_leave(e);
    env_close(e);  // ends when all of them have been woken
    for (int i = 0; i < 6; i++) assert_true(w[i].woken);
}

// ---- Tasks --------------------------------------------------------------------------------------

typedef struct job {
    task task;
    env *env;
    char *log;
    char name;
    struct job *defers;    // in a turn of its own
    waiter *wakes, waits;  // wakes one; waits for |waits| if |may_wait|
    bool may_wait;
} job;

static void run_job(task *t) {
    job *j = (job *)t;
    assert_false(env_held(j->env));
    size_t size = strlen(j->log);
    j->log[size] = j->name;
    j->log[size + 1] = '\0';
    env_enter(j->env);
    if (j->defers) env_defer(j->env, &j->defers->task);
    if (j->wakes) env_wake(j->env, j->wakes);
    if (j->may_wait) assert_true(env_wait(j->env, &j->waits, ENV_NEVER));
    env_leave(j->env);
    if (j->may_wait) j->log[strlen(j->log)] = '.';
}

static void tasks_run_at_the_end_of_the_turn_in_order(void **state) {
    (void)state;
    env *e = open_env();
    char log[16] = "";
    job c = { .task.run = run_job, .env = e, .log = log, .name = 'c' };
    job a = { .task.run = run_job, .env = e, .log = log, .name = 'a', .defers = &c };
    job b = { .task.run = run_job, .env = e, .log = log, .name = 'b' };
    env_enter(e);
    env_defer(e, &a.task);
    env_enter(e);
    env_defer(e, &b.task);
    env_leave(e);
    assert_string_equal(log, "");
    env_leave(e);
    assert_string_equal(log, "abc");
    env_close(e);
}

static void tasks_run_before_their_thread_waits(void **state) {
    (void)state;
    env *e = open_env();
    char log[16] = "";
    waiter w = { 0 };
    job a = { .task.run = run_job, .env = e, .log = log, .name = 'a', .wakes = &w };
    env_enter(e);
    env_defer(e, &a.task);
    assert_true(env_wait(e, &w, ENV_NEVER));
    assert_string_equal(log, "a");
    env_leave(e);
    env_close(e);
}

typedef struct deferstrike {
    timer timer;
    env *env;
    job *jobs[3];
} deferstrike;

static void defer_jobs(timer *t) {
    deferstrike *a = (deferstrike *)t;
    for (int i = 0; i < 3 && a->jobs[i]; i++) env_defer(a->env, &a->jobs[i]->task);
}

// The first task of a turn waits for the second, and for the task of a later turn: it makes the
// progress itself.
static void a_task_may_wait(void **state) {
    (void)state;
    env *e = open_env();
    char log[16] = "";
    waiter w = { 0 };
    job a = { .task.run = run_job, .env = e, .log = log, .name = 'a', .may_wait = true };
    job b = { .task.run = run_job, .env = e, .log = log, .name = 'b' };
    job c = { .task.run = run_job, .env = e, .log = log, .name = 'c', .wakes = &a.waits };
    job d = { .task.run = run_job, .env = e, .log = log, .name = 'd', .wakes = &w };
    deferstrike first = { .timer.fire = defer_jobs, .env = e, .jobs = { &a, &b } };
    deferstrike second = { .timer.fire = defer_jobs, .env = e, .jobs = { &c, &d } };
    env_enter(e);
    env_set_timer(e, &first.timer, 0);
    env_set_timer(e, &second.timer, env_now_ns(e) + MS);
    assert_true(env_wait(e, &w, ENV_NEVER));
    assert_string_equal(log, "abcd.");
    env_leave(e);
    env_close(e);
}

typedef struct chain {
    task task;
    env *env;
    int left;
} chain;

static void run_chain(task *t) {
    chain *c = (chain *)t;
    if (c->left-- == 0) return;
    env_enter(c->env);
    env_defer(c->env, t);
    env_leave(c->env);
}

// A hundred thousand turns on top of each other would not fit on any stack.
static void tasks_of_tasks_do_not_nest(void **state) {
    (void)state;
    chain c = { .task.run = run_chain, .env = open_env(), .left = 100000 };
    env_enter(c.env);
    env_defer(c.env, &c.task);
    env_leave(c.env);
    assert_int_equal(c.left, -1);
    env_close(c.env);
}

static void loop_turn_is_null_outside_a_turn(void **state) {
    (void)state;
    env *e = open_env();
    env_enter(e);
    assert_null(env_turn(e));
    env_leave(e);
    env_close(e);
}

// ---- Costs --------------------------------------------------------------------------------------

static void nothing_moves_while_nothing_happens(void **state) {
    (void)state;
    env *e = open_env();
    waiter w[3] = { { .idle = true }, { .idle = true }, { .idle = false } };
    bell a[3];
    env_enter(e);
    for (int i = 0; i < 3; i++) {
        a[i] = (bell){ .timer.fire = strike, .env = e, .waiter = &w[i] };
        spawn(e, wait_for_work, &a[i]);
    }
    env_leave(e);
    // All are asleep once the count stays the same.
    env_os_counts before, after = env_os_count(e);
    do {
        before = after;
        let_pass(20 * MS);
        after = env_os_count(e);
    } while (memcmp(&before, &after, sizeof after) != 0);
    let_pass(200 * MS);
    after = env_os_count(e);
    assert_memory_equal(&before, &after, sizeof after);
    env_enter(e);
    for (int i = 0; i < 3; i++) env_wake(e, &w[i]);
    env_leave(e);
    env_close(e);
}

static void idle_threads_sleep_on_while_another_polls(void **state) {
    (void)state;
    env *e = open_env();
    waiter idle = { .idle = true };
    bell worker = { .env = e, .waiter = &idle };
    env_enter(e);
    spawn(e, wait_for_work, &worker);
    env_leave(e);
    while (env_os_count(e).idles == 0) let_pass(MS);
    uint64_t before = env_os_count(e).idles;
    int rounds = testing_scaled(500);
    env_enter(e);
    for (int i = 0; i < rounds; i++) {
        waiter w = { 0 };
        bell a = { .timer.fire = strike, .env = e, .waiter = &w };
        env_set_timer(e, &a.timer, env_now_ns(e) + MS / 4);
        assert_true(env_wait(e, &w, ENV_NEVER));
    }
    // A timer may fire just between two waits, when the idle thread is on watch.
    assert_true(env_os_count(e).idles - before <= (uint64_t)rounds / 10 + 1);
    env_wake(e, &idle);
    env_leave(e);
    env_close(e);
}

// Bytes that arrive through memory while the poller is about to leave.
typedef struct memory_source {
    source source;
    env *env;
    waiter *waiter;
    timer timer;
    bool has_bytes;
    pthread_t taken_by;
} memory_source;

static bool has_bytes(source *s) {
    return ((memory_source *)s)->has_bytes;
}

static void take_bytes(source *s, uint32_t events) {
    (void)events;
    memory_source *m = (memory_source *)s;
    m->has_bytes = false;
    m->taken_by = pthread_self();
}

static bool has_none(source *s, bool is_away) {
    (void)is_away;
    return !has_bytes(s);
}

static void is_looked_at(source *s) {
    (void)s;
}

static void bytes_arrive_with_the_wake_up(timer *t) {
    memory_source *m = list_entry(t, memory_source, timer);
    m->has_bytes = true;
    loop_add_memory_source((os_env *)m->env, &m->source);
    env_wake(m->env, m->waiter);
}

static void a_leaving_poller_handles_memory_sources(void **state) {
    (void)state;
    static const source_class class = {
        .ready = take_bytes, .has_something = has_bytes, .sleeps = has_none, .awakes = is_looked_at
    };
    env *e = open_env();
    waiter idle = { .idle = true }, w = { 0 };
    bell worker = { .env = e, .waiter = &idle };
    memory_source m = {
        .source.class = &class, .env = e, .waiter = &w, .timer.fire = bytes_arrive_with_the_wake_up
    };
    env_enter(e);
    spawn(e, wait_for_work, &worker);
    env_set_timer(e, &m.timer, env_now_ns(e) + MS);
    assert_true(env_wait(e, &w, ENV_NEVER));
    assert_false(m.has_bytes);
    assert_true(pthread_equal(m.taken_by, pthread_self()));
    list_remove(&m.source.memory_link);
    env_wake(e, &idle);
    env_leave(e);
    env_close(e);
}

// ---- Failures -----------------------------------------------------------------------------------

static void do_nothing(void *arg) {
    (void)arg;
}

static void open_and_close(void *context) {
    (void)context;
    env *e = NULL;
    if (env_os_open(&e, NULL)) return;
    env_enter(e);
    waiter w = { 0 };
    env_wake(e, &w);
    gw_error error;
    (void)env_spawn(e, do_nothing, NULL, &error);
    env_leave(e);
    env_close(e);
}

static void nothing_is_lost_without_memory(void **state) {
    (void)state;
    testing_alloc_failure_loop(open_and_close, NULL);
}

static void no_descriptors_are_an_error(void **state) {
    (void)state;
    struct rlimit before, none;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    int first_free = dup(0);
    close(first_free);
    for (int more = 0;; more++) {
        none = (struct rlimit){ (rlim_t)(first_free + more), before.rlim_max };
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
        env *e = NULL;
        gw_error error = { 0 };
        gw_status status = env_os_open(&e, &error);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        if (status == GW_OK) {
            env_close(e);
            break;
        }
        assert_int_equal(status, GW_SYSTEM);
        assert_non_null(strstr(error.text, "Too many open files"));
    }
    int still_first_free = dup(0);
    assert_int_equal(still_first_free, first_free);
    close(still_first_free);
}

GW_TESTS(net_loop, pairs_nest, one_thread_at_a_time_holds_it, a_wait_ends_at_its_time,
         a_signal_ends_a_wait_that_requests_it,
         a_signal_ends_the_wait_of_a_thread_that_does_not_poll, other_waits_continue_after_signals,
         one_woken_before_it_waits_does_not_wait, many_threads_wake_each_other,
         many_idle_threads_wake_each_other, idle_and_parked_threads_wake_each_other,
         timers_fire_in_order, a_timer_that_rearms_itself_does_not_starve_threads,
         timers_fire_when_only_an_idle_thread_waits, tasks_run_at_the_end_of_the_turn_in_order,
         tasks_run_before_their_thread_waits, a_task_may_wait, tasks_of_tasks_do_not_nest,
         loop_turn_is_null_outside_a_turn, nothing_moves_while_nothing_happens,
         idle_threads_sleep_on_while_another_polls, a_leaving_poller_handles_memory_sources,
         nothing_is_lost_without_memory, no_descriptors_are_an_error);
