// All at once: two environments whose threads call each other, with workers that are idle
// until they are called.
#include "net/env_os.h"
#include "net/shm/shm.h"
#include "net/tcp/tcp.h"

#include <string.h>

#include "base/mem.h"
#include "testing/testing.h"

#define SECOND_NS ((int64_t)1000 * 1000 * 1000)

enum { CALLER_COUNT = 4, WORKER_COUNT = 6, QUEUE_MAX = 64 };

typedef struct message {
    uint32_t is_reply, caller, number;
} message;

// One side: callers wait for their replies, workers for calls. In the third mode a task replies
// instead of a worker.
typedef struct side side;

typedef struct worker {
    waiter waiter;
    bool is_free;
    list_node link;  // in |free_workers|, latest first
} worker;

typedef struct answer {
    task task;
    side *side;
    message call;
} answer;

struct side {
    env *env;
    stream *stream;
    listener *listener;
    bool opened, leaving, answers_in_tasks;
    waiter *opening;

    message in;
    size_t in_size;
    char out[1 << 16];
    size_t out_size;

    waiter *callers[CALLER_COUNT];
    uint32_t replies[CALLER_COUNT];
    int started_count, done_count, rounds;
    waiter all_done;

    message calls[QUEUE_MAX];
    int call_count;
    list_node free_workers;
    int served_count, in_order_count;
    uint32_t last_task[CALLER_COUNT];
};

static void flush(side *s) {
    size_t taken = stream_send(s->stream, &(struct iovec){ s->out, s->out_size }, 1);
    memmove(s->out, s->out + taken, s->out_size - taken);
    s->out_size -= taken;
}

static void send_message(side *s, message m) {
    assert_true(s->out_size + sizeof m <= sizeof s->out);
    memcpy(s->out + s->out_size, &m, sizeof m);
    s->out_size += sizeof m;
    flush(s);
}

// A worker on whose thread this turn runs is awake already.
static void wake_worker(side *s) {
    waiter *turn = env_turn(s->env);
    list_node *l = turn && turn->idle ? &list_entry(turn, worker, waiter)->link : NULL;
    if (!l || !list_has(l)) l = list_is_empty(&s->free_workers) ? NULL : s->free_workers.next;
    if (!l) return;  // all are busy, and check for more before they wait
    list_remove(l);
    env_wake(s->env, &list_entry(l, worker, link)->waiter);
}

static void run_answer(task *t) {
    answer *a = (answer *)t;
    side *s = a->side;
    env_enter(s->env);
    // Turns of streams do not overlap, so replies keep the order in which calls arrived.
    assert_true(a->call.number == s->last_task[a->call.caller] + 1);
    s->last_task[a->call.caller] = a->call.number;
    s->served_count++;
    send_message(s, (message){ 1, a->call.caller, a->call.number });
    env_leave(s->env);
    mem_free(a);
}

static void take_call(side *s, message m) {
    if (s->answers_in_tasks) {
        answer *a = mem_calloc(sizeof *a);
        *a = (answer){ .task.run = run_answer, .side = s, .call = m };
        env_defer(s->env, &a->task);
    } else {
        assert_true(s->call_count < QUEUE_MAX);
        s->calls[s->call_count++] = m;
        wake_worker(s);
    }
}

static void take_message(side *s, message m) {
    if (!m.is_reply) {
        take_call(s, m);
    } else if (s->callers[m.caller] && !s->callers[m.caller]->woken) {
        s->replies[m.caller] = m.number;
        env_wake(s->env, s->callers[m.caller]);
    }
}

static void on_opened(void *user) {
    side *s = user;
    s->opened = true;
    if (s->opening) env_wake(s->env, s->opening);
}

static void on_buffer(void *user, void **into, size_t *size) {
    side *s = user;
    *into = (char *)&s->in + s->in_size;
    *size = sizeof s->in - s->in_size;
}

static void on_received(void *user, size_t count) {
    side *s = user;
    s->in_size += count;
    if (s->in_size < sizeof s->in) return;
    s->in_size = 0;
    take_message(s, s->in);
}

static void on_writable(void *user) {
    flush(user);
}

static void on_closed(void *user, const gw_error *why) {
    side *s = user;
    (void)why;
    s->stream = NULL;
}

static const stream_events side_events = { .opened = on_opened,
                                           .buffer = on_buffer,
                                           .received = on_received,
                                           .writable = on_writable,
                                           .closed = on_closed };

static void on_accepted(void *user, stream *c) {
    side *s = user;
    s->stream = c;
    stream_adopt(c, &side_events, s);
    on_opened(s);
}

static void call_often(void *arg) {
    side *s = arg;
    env_enter(s->env);
    uint32_t self = (uint32_t)s->started_count++;
    for (uint32_t i = 1; i <= (uint32_t)s->rounds; i++) {
        waiter w = { .what = "a reply" };
        s->callers[self] = &w;
        send_message(s, (message){ 0, self, i });
        assert_true(env_wait(s->env, &w, env_now_ns(s->env) + 60 * SECOND_NS));
        s->callers[self] = NULL;
        assert_int_equal(s->replies[self], i);
        // At times another thread runs in between.
        if (i % 3 == 0) {
            env_leave(s->env);
            env_enter(s->env);
        }
    }
    if (++s->done_count == CALLER_COUNT) env_wake(s->env, &s->all_done);
    env_leave(s->env);
}

static void serve(void *arg) {
    side *s = arg;
    env_enter(s->env);
    while (!s->leaving) {
        if (s->call_count > 0) {
            message m = s->calls[--s->call_count];
            env_leave(s->env);  // the handler runs without the loop lock
            env_enter(s->env);
            s->served_count++;
            send_message(s, (message){ 1, m.caller, m.number });
            continue;
        }
        worker w = { .waiter.idle = true };
        list_prepend(&s->free_workers, &w.link);
        env_wait(s->env, &w.waiter, ENV_NEVER);
        list_remove(&w.link);
    }
    env_leave(s->env);
}

static side *open_side(int rounds, bool answers_in_tasks) {
    side *s = mem_calloc(sizeof *s);
    gw_error error;
    s->rounds = rounds;
    s->answers_in_tasks = answers_in_tasks;
    list_init(&s->free_workers);
    assert_int_equal(env_os_open(&s->env, &error), GW_OK);
    return s;
}

static void start(side *s) {
    gw_error error;
    env_enter(s->env);
    for (int i = 0; i < WORKER_COUNT; i++)
        assert_int_equal(env_spawn(s->env, serve, s, &error), GW_OK);
    for (int i = 0; i < CALLER_COUNT; i++)
        assert_int_equal(env_spawn(s->env, call_often, s, &error), GW_OK);
    env_leave(s->env);
}

static void wait_for_all(side *s) {
    env_enter(s->env);
    assert_true(env_wait(s->env, &s->all_done, env_now_ns(s->env) + 100 * SECOND_NS));
    env_leave(s->env);
}

static void close_side(side *s) {
    env_enter(s->env);
    s->leaving = true;
    while (!list_is_empty(&s->free_workers)) wake_worker(s);
    env_leave(s->env);
    env_close(s->env);
    assert_int_equal(s->served_count, CALLER_COUNT * s->rounds);
    mem_free(s);
}

static void run_traffic_over(const transport *t, bool answers_in_tasks) {
    testing_note("over %s", t->name);
    int rounds = testing_scaled(2000);
    side *a = open_side(rounds, answers_in_tasks), *b = open_side(rounds, answers_in_tasks);
    char address[ADDRESS_MAX];
    gw_error error;
    env_enter(a->env);
    assert_int_equal(t->listen(a->env, t->anywhere, on_accepted, a, &a->listener, address, &error),
                     GW_OK);
    env_leave(a->env);
    env_enter(b->env);
    waiter w = { 0 };
    b->opening = &w;
    assert_int_equal(t->connect(b->env, address, &side_events, b, &b->stream, &error), GW_OK);
    assert_true(env_wait(b->env, &w, env_now_ns(b->env) + 60 * SECOND_NS));
    b->opening = NULL;
    env_leave(b->env);
    env_enter(a->env);
    while (!a->opened) {
        w = (waiter){ 0 };
        a->opening = &w;
        assert_true(env_wait(a->env, &w, env_now_ns(a->env) + 60 * SECOND_NS));
        a->opening = NULL;
    }
    env_leave(a->env);
    start(a);
    start(b);
    wait_for_all(a);
    wait_for_all(b);
    close_side(a);
    close_side(b);
}

static void run_traffic(bool answers_in_tasks) {
    run_traffic_over(&tcp_transport, answers_in_tasks);
    run_traffic_over(&shm_transport, answers_in_tasks);
}

static void callers_and_workers_get_their_messages(void **state) {
    (void)state;
    run_traffic(false);
}

static void tasks_answer_in_the_order_of_calls(void **state) {
    (void)state;
    run_traffic(true);
}

GW_TESTS(net_traffic, callers_and_workers_get_their_messages, tasks_answer_in_the_order_of_calls);
