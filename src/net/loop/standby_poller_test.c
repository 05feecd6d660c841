#include "net/loop/loop.h"

#include <semaphore.h>
#include <string.h>

#include "net/env_os.h"
#include "testing/testing.h"

enum { MS = 1000 * 1000 };

// A timer that appends its name to the log, or defers a task that does, and posts.
typedef struct strike {
    timer timer;
    task task;
    env *env;
    char name;
    char *log;
    sem_t *awaits, *posts;  // of the task; of the timer
    waiter *wakes;
} strike;

static void note(char *log, char name) {
    size_t size = strlen(log);
    log[size] = name;
    log[size + 1] = '\0';
}

static void await(sem_t *s) {
    while (sem_wait(s) != 0) continue;
}

static void run_task(task *t) {
    strike *x = list_entry(t, strike, task);
    assert_false(env_held(x->env));
    if (x->awaits) await(x->awaits);
    note(x->log, x->name);
    env_enter(x->env);
    if (x->wakes) env_wake(x->env, x->wakes);
    env_leave(x->env);
}

static void fire(timer *t) {
    strike *x = list_entry(t, strike, timer);
    x->task.run = run_task;
    env_defer(x->env, &x->task);
    if (x->posts) sem_post(x->posts);
}

static void wait_until_done(env *e, waiter *w, bool idle) {
    *w = (waiter){ .idle = idle };
    env_enter(e);
    assert_true(env_wait(e, w, ENV_NEVER));
    env_leave(e);
}

// The first task does not end before the second timer has fired; only its own thread waits.
static void run_during_a_long_task(bool idle) {
    env *e = NULL;
    gw_error error;
    assert_int_equal(env_os_open(&e, &error), GW_OK);
    char log[16] = "";
    sem_t second_fired;
    sem_init(&second_fired, 0, 0);
    waiter w;
    strike a = { .timer.fire = fire, .env = e, .name = 'a', .log = log, .awaits = &second_fired };
    strike b = { .timer.fire = fire, .env = e, .name = 'b', .log = log, .posts = &second_fired };
    strike c = { .timer.fire = fire, .env = e, .name = 'c', .log = log, .wakes = &w };
    env_enter(e);
    env_set_timer(e, &a.timer, 0);
    env_set_timer(e, &b.timer, env_now_ns(e) + 20 * MS);
    env_set_timer(e, &c.timer, env_now_ns(e) + 300 * MS);
    env_leave(e);
    wait_until_done(e, &w, idle);
    assert_string_equal(log, "abc");
    sem_destroy(&second_fired);
    env_close(e);
}

static void timers_fire_while_a_task_takes_long(void **state) {
    (void)state;
    run_during_a_long_task(false);
}

static void timers_fire_while_a_task_of_an_idle_thread_takes_long(void **state) {
    (void)state;
    run_during_a_long_task(true);
}

// A task that a turn of the standby poller defers runs once the long one has ended, without any other event.
static void deferred_tasks_run_after_the_long_task(void **state) {
    (void)state;
    env *e = NULL;
    gw_error error;
    assert_int_equal(env_os_open(&e, &error), GW_OK);
    char log[16] = "";
    sem_t second_fired;
    sem_init(&second_fired, 0, 0);
    waiter w;
    strike a = { .timer.fire = fire, .env = e, .name = 'a', .log = log, .awaits = &second_fired };
    strike b = {
        .timer.fire = fire, .env = e, .name = 'b', .log = log, .posts = &second_fired, .wakes = &w
    };
    env_enter(e);
    env_set_timer(e, &a.timer, 0);
    env_set_timer(e, &b.timer, env_now_ns(e) + 20 * MS);
    env_leave(e);
    wait_until_done(e, &w, false);
    assert_string_equal(log, "ab");
    sem_destroy(&second_fired);
    env_close(e);
}

GW_TESTS(net_standby_poller, timers_fire_while_a_task_takes_long,
         timers_fire_while_a_task_of_an_idle_thread_takes_long,
         deferred_tasks_run_after_the_long_task);
