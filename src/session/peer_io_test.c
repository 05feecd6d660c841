// When frames are sent, how many sends that takes, and how acks, counts and draining follow.
#include "session/peers_internal.h"

#include "base/log.h"
#include "base/mem.h"
#include "net/env_os.h"
#include "testing/talk.h"
#include "testing/testing.h"

#include <string.h>

// ---- Counting sends -----------------------------------------------------------------------------
static const stream_class *real;
static stream_class counting;
static int send_count;

static size_t count_send(stream *c, const struct iovec *parts, int count) {
    send_count++;
    return real->send(c, parts, count);
}

static stream *stream_of(talker *x) {
    return peer_find(x->peers, (uint32_t)(1 - x->rank))->connection->stream;
}

static void count_sends_of(talker *x) {
    real = stream_of(x)->class;
    counting = *real;
    counting.send = count_send;
    stream_of(x)->class = &counting;
}

static bool has_received_one(talker *x) {
    return x->received[1 - x->rank] > 0;
}

static bool is_drained(talker *x) {
    return peers_is_drained(x->peers);
}

static void run_two(void (*body)(talker *x), int messages) {
    talk t;
    talk_open_sim(&t, 1, (talk_options){ .count = 2, .messages = messages },
                  (sim_options){ .interleave_per_million = -1 });
    bool done = talk_run_with(&t, body);
    talk_close(&t);
    assert_true(done);
}

static void connect_two(talker *x) {
    gw_error error;
    assert_int_equal(talk_send(x, 1 - x->rank, true, &error), GW_OK);
    talk_wait(x, "the first message", has_received_one);
    talk_wait(x, "its ack", is_drained);
    talk_pause(x, SIM_SECOND);
}

// ---- Sends --------------------------------------------------------------------------------------
static void send_many_at_once(talker *x) {
    connect_two(x);
    if (x->rank != 0) return;
    gw_error error;
    count_sends_of(x);
    for (int i = 0; i < 20; i++) assert_int_equal(talk_send(x, 1, false, &error), GW_OK);
    assert_int_equal(send_count, 0);
    talk_wait(x, "the acks", is_drained);
    assert_true(send_count <= 2);  // a stream may take less than all
    send_count = 0;
    for (int i = 0; i < 5; i++) assert_int_equal(talk_send(x, 1, true, &error), GW_OK);
    assert_true(send_count >= 5);
    talk_wait(x, "the acks", is_drained);
    stream_of(x)->class = real;
}

static void unflushed_messages_are_sent_together(void **state) {
    (void)state;
    run_two(send_many_at_once, 40);
}

// Replies to messages that arrived in one read are sent at once.
static void answer(void *user, int rank, message *m) {
    talker *x = user;
    gw_error error;
    x->received[rank]++;
    message_release(m);
    if (x->rank == 1 && x->received[rank] == 1) count_sends_of(x);
    if (x->rank == 1) talk_send(x, rank, false, &error);
    if (x->waiter) env_wake(x->env, x->waiter);
    x->waiter = NULL;
}

static bool has_received_ten(talker *x) {
    return x->received[0] >= 10;
}

static bool has_ten_answers(talker *x) {
    return x->received[1] >= 10;
}

static void answer_many(talker *x) {
    gw_error error;
    x->peers->options.received = answer;
    if (x->rank == 1) {
        talk_wait(x, "ten questions", has_received_ten);
        // Before the first question a welcome is sent; now the replies.
        assert_in_range(send_count, 1, 2);
        stream_of(x)->class = real;
        return;
    }
    talk_pause(x, SIM_SECOND / 1000);
    for (int i = 0; i < 10; i++) assert_int_equal(talk_send(x, 1, false, &error), GW_OK);
    talk_wait(x, "ten answers", has_ten_answers);
}

static void replies_to_one_read_are_sent_together(void **state) {
    (void)state;
    run_two(answer_many, 40);
}

// ---- Acks and counts ----------------------------------------------------------------------------
static void be_acknowledged(talker *x) {
    connect_two(x);
    if (x->rank != 0) return;
    gw_error error;
    assert_int_equal(talk_send(x, 1, true, &error), GW_OK);
    assert_false(peers_is_drained(x->peers));
    int64_t before = env_now_ns(x->env);
    talk_wait(x, "the ack", is_drained);
    int64_t took = env_now_ns(x->env) - before;
    assert_true(took >= SESSION_ACK_MS * 1000000 && took < (SESSION_ACK_MS + 30) * 1000000);

    assert_int_equal(talk_send(x, 1, true, &error), GW_OK);
    before = env_now_ns(x->env);
    waiter w = { .what = "the requested ack" };
    peers_on_drained(x->peers, &w);
    assert_true(env_wait(x->env, &w, ENV_NEVER));
    assert_true(env_now_ns(x->env) - before < SESSION_ACK_MS * 1000000 / 2);

    waiter again = { .what = "nothing" };
    peers_on_drained(x->peers, &again);
    assert_true(again.woken);
}

static void it_acknowledges_after_a_delay_or_a_ping(void **state) {
    (void)state;
    run_two(be_acknowledged, 10);
}

static void count_messages(talker *x) {
    connect_two(x);
    peers_stats before = peers_get_stats(x->peers);
    assert_int_equal(before.messages_sent, 1);
    assert_int_equal(before.messages_received, 1);
    assert_int_equal(before.reconnects, 0);
    assert_true(before.over[0].bytes_sent > FRAME_HEADER_BYTES &&
                before.over[0].bytes_received > FRAME_HEADER_BYTES);
    peer_traffic a = peers_get_traffic(x->peers, 0), b = peers_get_traffic(x->peers, 1);
    assert_int_equal(a.bytes_sent + b.bytes_sent, before.over[0].bytes_sent);
    assert_int_equal(a.bytes_received + b.bytes_received, before.over[0].bytes_received);
    assert_true(a.queued_bytes_max + b.queued_bytes_max > 0);
    assert_int_equal(peers_get_traffic(x->peers, 7).bytes_sent, 0);
}

static void it_counts(void **state) {
    (void)state;
    run_two(count_messages, 10);
}

// ---- A slow reader ------------------------------------------------------------------------------
// Talker 1 does not read for a while: that neither blocks talker 0 nor its talk with talker 2.
static _Atomic bool has_talked;

static bool has_all_from_0(talker *x) {
    return x->received[0] == 40;
}

static void read_late(talker *x) {
    if (x->rank == 1) {
        while (!has_talked) {
            env_leave(x->env);
            env_enter(x->env);
        }
    }
    talk_wait(x, "everything", has_all_from_0);
    has_talked = true;
}

static bool has_been_read(talker *x) {
    (void)x;
    return has_talked && peers_is_drained(x->peers);
}

static void send_to_slow(talker *x) {
    gw_error error;
    if (x->rank != 0) {
        read_late(x);
        return;
    }
    for (int i = 0; i < 40; i++) {
        assert_int_equal(talk_send(x, 1, true, &error), GW_OK);
        assert_int_equal(talk_send(x, 2, true, &error), GW_OK);
    }
    talk_wait(x, "the slow one", has_been_read);
}

static void a_slow_reader_blocks_no_other_peer(void **state) {
    (void)state;
    talk t;
    talk_open_tcp(&t, (talk_options){ .count = 3, .messages = 40, .segment_max = 1 << 20 }, 0);
    bool done = talk_run_with(&t, send_to_slow);
    talk_close(&t);
    assert_true(done);
}

// ---- Closing with something deferred ------------------------------------------------------------
static void it_can_close_before_the_end_of_the_turn(void **state) {
    (void)state;
    talk t;
    talk_open_sim(&t, 1, (talk_options){ .count = 2, .messages = 10 }, (sim_options){ 0 });
    assert_true(talk_run_with(&t, connect_two));
    talker *x = &t.talkers[0];
    gw_error error;
    env_enter(x->env);
    assert_int_equal(talk_send(x, 1, false, &error), GW_OK);
    peers_close(x->peers);
    env_leave(x->env);
    x->peers = NULL;
    talk_close(&t);
}

// ---- Without memory -----------------------------------------------------------------------------
typedef struct poor {
    env *env;
    peers *peers;
    char address[ADDRESSES_MAX];
    int rank, received, lost;
} poor;

static void poor_received(void *user, int rank, message *m) {
    poor *p = user;
    gw_error error;
    p->received++;
    message_release(m);
    if (p->rank == 1 && (m = message_open(1))) peers_send(p->peers, rank, m, false, &error);
}

static void poor_lost(void *user, int rank, const gw_error *why) {
    (void)rank, (void)why;
    ((poor *)user)->lost++;
}

static void talk_poorly(void *arg) {
    poor *p = arg;
    gw_error error;
    env_enter(p->env);
    block *b = p->rank == 0 ? block_take(100000) : NULL;
    for (int i = 0; i < 3 && b; i++) {
        message *m = message_open(1);
        if (!m) break;
        if (i == 1) message_add_segment(m, b, 0, 100000);
        peers_send(p->peers, 1, m, i == 0, &error);
    }
    block_release(b);
    waiter w = { .what = "a while" };
    env_wait(p->env, &w, env_now_ns(p->env) + 40 * SIM_SECOND);
    env_leave(p->env);
}

static bool open_poor(poor *p, sim *s, int rank) {
    gw_error error;
    p->rank = rank;
    p->env = sim_env(s, rank);
    if (!p->env) return false;
    peers_options o = { .env = p->env,
                        .rank = rank,
                        .incarnation = 1 + (uint64_t)rank,
                        .user = p,
                        .received = poor_received,
                        .lost = poor_lost };
    env_enter(p->env);
    gw_status status = peers_open(o, "127.0.0.1:0", &p->peers, p->address, &error);
    env_leave(p->env);
    assert_true(status == GW_OK || status == GW_NO_MEMORY);
    return status == GW_OK;
}

static bool add_poor(poor *p, const poor *other) {
    gw_error error;
    env_enter(p->env);
    gw_status status =
        peers_add(p->peers, other->rank, 1 + (uint64_t)other->rank, "p", other->address, &error);
    env_leave(p->env);
    assert_true(status == GW_OK || status == GW_NO_MEMORY);
    return status == GW_OK;
}

static void talk_without_memory(void *context) {
    (void)context;
    sim *s = sim_open(1, (sim_options){ .interleave_per_million = -1 });
    if (!s) return;
    poor p[2] = { 0 };
    bool ready = open_poor(&p[0], s, 0) && open_poor(&p[1], s, 1) && add_poor(&p[0], &p[1]) &&
                 add_poor(&p[1], &p[0]) && sim_spawn(s, 0, talk_poorly, &p[0]) &&
                 sim_spawn(s, 1, talk_poorly, &p[1]);
    if (ready) {
        assert_true(sim_run(s, 1000 * SIM_SECOND));
        // One failure is recovered: every message arrived, or was refused when it was sent.
        assert_true(p[1].received <= 3 && p[0].received <= p[1].received);
    }
    for (int i = 0; i < 2; i++) {
        if (!p[i].env) continue;
        env_enter(p[i].env);
        peers_close(p[i].peers);
        env_leave(p[i].env);
        env_close(p[i].env);
    }
    sim_close(s);
}

static void quiet_line(const char *connection) {
    (void)connection;
}

static void it_survives_without_memory(void **state) {
    (void)state;
    log_hook = quiet_line;
    testing_alloc_failure_loop(talk_without_memory, NULL);
}

GW_TESTS(session_peer_io, unflushed_messages_are_sent_together,
         replies_to_one_read_are_sent_together, it_acknowledges_after_a_delay_or_a_ping, it_counts,
         a_slow_reader_blocks_no_other_peer, it_can_close_before_the_end_of_the_turn,
         it_survives_without_memory);
