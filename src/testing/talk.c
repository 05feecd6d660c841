#include "testing/talk.h"

#include "base/mem.h"
#include "net/env_os.h"
#include "testing/testing.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { KIND = 7, SEGMENTS_MAX = 3 };

static uint64_t next_random(uint64_t *state) {
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

uint64_t talk_random(talker *x) {
    return next_random(&x->random);
}

// ---- Messages of known bytes -------------------------------------------------------------
static void fill(uint8_t *out, size_t size, uint64_t seed) {
    for (size_t i = 0; i < size; i += 8) {
        uint64_t x = next_random(&seed);
        memcpy(out + i, &x, size - i < 8 ? size - i : 8);
    }
}

static bool is_filled(const uint8_t *in, size_t size, uint64_t seed) {
    for (size_t i = 0; i < size; i += 8) {
        uint64_t x = next_random(&seed);
        if (memcmp(in + i, &x, size - i < 8 ? size - i : 8) != 0) return false;
    }
    return true;
}

typedef struct shape {
    size_t head, segments[SEGMENTS_MAX];
    uint32_t segment_count;
} shape;

// The shape of the |n|-th message from |from| to |to|.
static shape shape_of(const talk_options *o, int from, int to, uint32_t n, uint64_t *out_seed) {
    uint64_t seed = (uint64_t)n * 1000003 + (uint64_t)from * 131 + (uint64_t)to * 17 + 1;
    *out_seed = seed;
    shape s = { .head = next_random(&seed) % (o->head_max ? o->head_max : 600) };
    if (next_random(&seed) % 8 == 0) s.head = 0;
    if (o->segment_max == 0 || next_random(&seed) % 3 != 0) return s;
    s.segment_count = 1 + (uint32_t)(next_random(&seed) % SEGMENTS_MAX);
    for (uint32_t i = 0; i < s.segment_count; i++)
        s.segments[i] = 1 + next_random(&seed) % o->segment_max;
    return s;
}

static message *make(const talk_options *o, int from, int to, uint32_t n) {
    uint64_t seed;
    shape s = shape_of(o, from, to, n, &seed);
    message *m = message_open(KIND);
    if (!m) return NULL;
    bytes_put_u32(&m->head, n);
    uint8_t *head = s.head ? bytes_extend(&m->head, s.head) : NULL;
    if (head) fill(head, s.head, seed);
    for (uint32_t i = 0; i < s.segment_count; i++) {
        size_t skip = i * 3;  // segments need not begin where their block does
        block *b = block_take(s.segments[i] + skip);
        if (b) fill(b->bytes + skip, s.segments[i], seed + i + 1);
        bool added = b && message_add_segment(m, b, skip, s.segments[i]);
        block_release(b);
        if (added) continue;
        message_release(m);
        return NULL;
    }
    return m;
}

static void check(const talk_options *o, int from, int to, uint32_t n, const message *m) {
    uint64_t seed;
    shape s = shape_of(o, from, to, n, &seed);
    assert_int_equal(m->kind, KIND);
    reader r = reader_of(m->head.data, m->head.size);
    assert_int_equal(reader_u32(&r), n);
    assert_int_equal(reader_left(&r), s.head);
    assert_true(is_filled(r.at, s.head, seed));
    assert_int_equal(m->segment_count, s.segment_count);
    for (uint32_t i = 0; i < s.segment_count; i++) {
        assert_int_equal(m->segments[i].size, s.segments[i]);
        assert_true(is_filled(m->segments[i].block->bytes + m->segments[i].offset, s.segments[i],
                              seed + i + 1));
    }
}

// ---- Talkers ------------------------------------------------------------------------------------
static void wake(talker *x) {
    if (x->waiter) env_wake(x->env, x->waiter);
    x->waiter = NULL;
}

typedef struct unfinished {
    list_node link;
    talker *talker;
    int from;
    uint32_t n;
    message *message;
} unfinished;

static void receive_whole(talker *x, int from, uint32_t n, message *m) {
    assert_false(x->lost[from]);
    check(&x->talk->options, from, x->rank, n, m);
    x->received[from]++;
    message_release(m);
    wake(x);
}

static void drop_unfinished(unfinished *u) {
    list_remove(&u->link);
    mem_free(u);
}

static void on_completed(message *m) {
    unfinished u = *(unfinished *)m->completed_user;
    drop_unfinished(m->completed_user);
    receive_whole(u.talker, u.from, u.n, m);
}

static void on_received(void *user, int rank, message *m) {
    talker *x = user;
    assert_false(x->lost[rank]);
    uint32_t n = x->announced[rank]++;
    if (!m->incomplete) {
        receive_whole(x, rank, n, m);
        return;
    }
    unfinished *u = mem_calloc(sizeof *u);
    assert_non_null(u);
    *u = (unfinished){ .talker = x, .from = rank, .n = n, .message = m };
    list_append(&x->incomplete, &u->link);
    m->completed = on_completed;
    m->completed_user = u;
}

// Their peers are gone.
static void drop_all_unfinished(talker *x) {
    while (!list_is_empty(&x->incomplete)) {
        unfinished *u = list_entry(x->incomplete.next, unfinished, link);
        u->message->completed = NULL;
        message_release(u->message);
        drop_unfinished(u);
    }
}

static void on_lost(void *user, int rank, const gw_error *why) {
    talker *x = user;
    assert_false(x->lost[rank]);
    x->lost[rank] = true;
    x->why[rank] = *why;
    wake(x);
}

gw_status talk_send(talker *x, int to, bool flush, gw_error *error) {
    message *m = make(&x->talk->options, x->rank, to, x->sent[to]);
    if (!m) return GW_NO_MEMORY;
    gw_status status = peers_send(x->peers, to, m, flush, error);
    if (status == GW_OK) x->sent[to]++;
    return status;
}

void talk_pause(talker *x, int64_t max_ns) {
    waiter w = { .what = "the end of a pause" };
    env_wait(x->env, &w, env_now_ns(x->env) + 1 + (int64_t)(talk_random(x) % (uint64_t)max_ns));
}

void talk_wait(talker *x, const char *what, bool (*done)(talker *x)) {
    while (!done(x)) {
        waiter w = { .what = what };
        x->waiter = &w;
        env_wait(x->env, &w, env_now_ns(x->env) + 20 * 1000 * 1000);
        x->waiter = NULL;
    }
}

static bool has_all(talker *x) {
    const talk_options *o = &x->talk->options;
    for (int i = 0; i < o->count; i++) {
        if (i == x->rank || x->lost[i]) continue;
        if ((!o->one_way || i == 0) && x->received[i] < (uint32_t)o->messages) return false;
    }
    return peers_is_drained(x->peers);
}

static void send_all(talker *x) {
    const talk_options *o = &x->talk->options;
    for (int n = 0; n < o->messages && (!o->one_way || x->rank == 0); n++) {
        for (int to = 0; to < o->count; to++) {
            if (to == x->rank) continue;
            gw_error error;
            bool flush = talk_random(x) % 100 < (uint64_t)o->flush_per_cent;
            if (talk_send(x, to, flush, &error)) fail_msg("talker %d: %s", x->rank, error.text);
        }
        if (talk_random(x) % 100 < (uint64_t)o->pause_per_cent) talk_pause(x, 300 * 1000);
    }
    talk_wait(x, "the other talkers", has_all);
    for (int i = 0; i < o->count; i++)
        if (x->lost[i]) fail_msg("talker %d lost %d: %s", x->rank, i, x->why[i].text);
}

// ---- Running ------------------------------------------------------------------------------------
typedef struct job {
    talker *talker;
    void (*body)(talker *x);
} job;

static bool all_have_finished(talker *x) {
    return x->talk->finished_count == x->talk->options.count;
}

// Serves until all have finished: messages on their way to others need their acks.
static void run_talker(void *arg) {
    job *j = arg;
    talker *x = j->talker;
    env_enter(x->env);
    j->body(x);
    x->talk->finished_count++;
    talk_wait(x, "the end of the talk", all_have_finished);
    env_leave(x->env);
}

static void *run_thread(void *arg) {
    run_talker(arg);
    return NULL;
}

bool talk_run_with(talk *t, void (*body)(talker *x)) {
    job jobs[TALKERS_MAX];
    pthread_t threads[TALKERS_MAX];
    t->finished_count = 0;
    for (int i = 0; i < t->options.count; i++) {
        jobs[i] = (job){ &t->talkers[i], body };
        if (t->sim) {
            assert_true(sim_spawn(t->sim, i, run_talker, &jobs[i]));
        } else {
            assert_int_equal(pthread_create(&threads[i], NULL, run_thread, &jobs[i]), 0);
        }
    }
    if (t->sim) return sim_run(t->sim, 3600 * SIM_SECOND);
    for (int i = 0; i < t->options.count; i++) pthread_join(threads[i], NULL);
    return true;
}

bool talk_run(talk *t) {
    return talk_run_with(t, send_all);
}

// ---- Opening and closing ------------------------------------------------------------------------
static void open_peers(talk *t, uint64_t seed) {
    gw_error error;
    for (int i = 0; i < t->options.count; i++) {
        talker *x = &t->talkers[i];
        x->talk = t;
        x->rank = i;
        list_init(&x->incomplete);
        x->random = seed * 31 + (uint64_t)i;
        peers_options o = { .env = x->env,
                            .rank = i,
                            .incarnation = 1000 + (uint64_t)i,
                            .user = x,
                            .received = on_received,
                            .lost = on_lost };
        env_enter(x->env);
        assert_int_equal(peers_open(o, "127.0.0.1:0", &x->peers, x->addresses, &error), GW_OK);
        env_leave(x->env);
    }
    for (int i = 0; i < t->options.count; i++) {
        talker *x = &t->talkers[i];
        env_enter(x->env);
        for (int k = 0; k < t->options.count; k++) {
            if (k == i) continue;
            char name[16];
            snprintf(name, sizeof name, "p%d", k);
            assert_int_equal(
                peers_add(x->peers, k, 1000 + (uint64_t)k, name, t->talkers[k].addresses, &error),
                GW_OK);
        }
        env_leave(x->env);
    }
}

void talk_open_sim(talk *t, uint64_t seed, talk_options options, sim_options faults) {
    *t = (talk){ .options = options, .sim = sim_open(seed, faults) };
    assert_non_null(t->sim);
    for (int i = 0; i < options.count; i++) t->talkers[i].env = sim_env(t->sim, i);
    open_peers(t, seed);
}

void talk_open_tcp(talk *t, talk_options options, int cut_every) {
    *t = (talk){ .options = options };
    for (int i = 0; i < options.count; i++) {
        gw_error error;
        assert_int_equal(env_os_open(&t->talkers[i].env, &error), GW_OK);
        env_os_cut_every(t->talkers[i].env, cut_every);
    }
    open_peers(t, 1);
}

void talk_close(talk *t) {
    for (int i = 0; i < t->options.count; i++) {
        talker *x = &t->talkers[i];
        env_enter(x->env);
        peers_close(x->peers);
        drop_all_unfinished(x);
        env_leave(x->env);
        env_close(x->env);
    }
    sim_close(t->sim);
}
