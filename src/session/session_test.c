// A session by itself: two ends, and a wire between them that this file controls byte by byte.
#include "session/session.h"

#include "base/limits.h"
#include "base/mem.h"
#include "testing/session_pair.h"
#include "testing/testing.h"

#include <string.h>

// ---- Messages -----------------------------------------------------------------------------------
// Bytes that all differ from each other.
static const uint8_t *pattern(uint32_t n) {
    enum { COUNT = 1100000 };
    static uint8_t bytes[COUNT];
    if (bytes[1] == 0)
        for (uint32_t i = 0; i < COUNT; i++) bytes[i] = (uint8_t)(i * 2654435761u >> 24);
    return bytes + n;
}

static message *make(uint32_t n, size_t head, size_t segment) {
    message *m = message_open(1);
    bytes_put_u32(&m->head, n);
    bytes_put(&m->head, pattern(n), head);
    if (segment) {
        block *b = block_take(segment);
        memcpy(b->bytes, pattern(n * 3), segment);
        message_add_segment(m, b, 0, segment);
        block_release(b);
    }
    return m;
}

static void send(session_end *x, uint32_t n, size_t head, size_t segment) {
    gw_error error;
    assert_int_equal(session_queue(&x->session, make(n, head, segment), &error), GW_OK);
}

static void expect(const session_end *x, int index, size_t head, size_t segment) {
    assert_true(index < x->inbox_count);
    message *want = make((uint32_t)index, head, segment), *m = x->inbox[index];
    assert_int_equal(m->head.size, want->head.size);
    assert_memory_equal(m->head.data, want->head.data, want->head.size);
    assert_int_equal(m->segment_count, want->segment_count);
    if (segment)
        assert_memory_equal(m->segments[0].block->bytes, want->segments[0].block->bytes, segment);
    message_release(want);
}

static void it_carries_messages_of_every_size(void **state) {
    (void)state;
    static const size_t heads[] = { 0, 100, 3000, 70000, 300000 };
    static const size_t segments[] = { 0,      1, 5000, LIMIT_FRAME_BYTES - 12, LIMIT_FRAME_BYTES,
                                       1000000 };
    static const size_t pieces[] = { 1 << 20, 4096, 97 };
    for (int k = 0; k < 3; k++) {
        session_pair p;
        session_pair_open(&p, false);
        int n = 0;
        for (int h = 0; h < 5; h++)
            for (int s = 0; s < 6; s++) send(&p.a, (uint32_t)n++, heads[h], segments[s]);
        session_pair_flush(&p, pieces[k]);
        assert_int_equal(p.b.inbox_count, n);
        for (int i = 0; i < n; i++) expect(&p.b, i, heads[i / 6], segments[i % 6]);
        assert_true(list_is_empty(&p.a.session.unacked));
        session_pair_close(&p);
    }
}

static void it_carries_a_message_without_bytes(void **state) {
    (void)state;
    session_pair p;
    gw_error error;
    session_pair_open(&p, false);
    for (int i = 0; i < 3; i++)
        assert_int_equal(session_queue(&p.a.session, message_open(5), &error), GW_OK);
    session_pair_flush(&p, 7);
    assert_int_equal(p.b.inbox_count, 3);
    assert_int_equal(p.b.inbox[2]->kind, 5);
    assert_int_equal(p.b.inbox[2]->head.size, 0);
    session_pair_close(&p);
}

// ---- Cuts ---------------------------------------------------------------------------------------
enum { CUT_MESSAGES = 4 };
static const size_t cut_heads[CUT_MESSAGES] = { 10, 0, 2000, 30 };
static const size_t cut_segments[CUT_MESSAGES] = { 0, 40000, 300000, 0 };

static void it_survives_a_cut_at_every_byte(void **state) {
    (void)state;
    // The first connection carries |cut| bytes in one direction, the next a few more before it breaks too;
    // some of the acks in the other direction arrive and some do not.
    size_t stride = 10 / (size_t)testing_scaled(10);
    for (size_t cut = 0; cut < 345000; cut += cut < 3000 || cut > 344000 ? stride : 997 * stride) {
        session_pair p;
        gw_status status;
        session_pair_open(&p, false);
        for (uint32_t n = 0; n < CUT_MESSAGES; n++) send(&p.a, n, cut_heads[n], cut_segments[n]);
        session_end_move(&p.a, &p.b, cut, 5000, &status);
        if (cut % 3 == 0) p.b.session.ack_wanted = true;
        session_end_move(&p.b, &p.a, cut % 80, 33, &status);
        session_pair_part(&p);
        assert_int_equal(session_pair_join(&p), GW_OK);
        session_end_move(&p.a, &p.b, cut % 7001, 5000, &status);
        assert_int_equal(status, GW_OK);
        session_pair_part(&p);
        assert_int_equal(session_pair_join(&p), GW_OK);
        session_pair_flush(&p, 5000);
        assert_int_equal(p.b.inbox_count, CUT_MESSAGES);
        for (int n = 0; n < CUT_MESSAGES; n++) expect(&p.b, n, cut_heads[n], cut_segments[n]);
        assert_true(list_is_empty(&p.a.session.unacked));
        assert_true(p.a.session.unacked_bytes == 0);
        session_pair_close(&p);
    }
}

// ---- Acks ---------------------------------------------------------------------------------------
static void sent_blocks_stay_pinned_until_acknowledged(void **state) {
    (void)state;
    session_pair p;
    gw_status status;
    gw_error error;
    session_pair_open(&p, false);
    block *b = block_take(5000);
    message *m = message_open(1);
    message_add_segment(m, b, 0, 5000);
    assert_int_equal(session_queue(&p.a.session, m, &error), GW_OK);
    session_end_move(&p.a, &p.b, SIZE_MAX, 4096, &status);
    assert_int_equal(p.b.inbox_count, 1);
    assert_int_equal(b->pins, 1);
    p.b.session.ack_wanted = true;
    session_end_move(&p.b, &p.a, SIZE_MAX, 4096, &status);
    assert_int_equal(b->pins, 0);
    block_release(b);
    session_pair_close(&p);
}

static void acks_travel_with_data_frames(void **state) {
    (void)state;
    session_pair p;
    gw_status status;
    session_pair_open(&p, false);
    send(&p.a, 0, 10, 0);
    session_end_move(&p.a, &p.b, SIZE_MAX, 4096, &status);
    assert_int_equal(p.b.session.owed_frames, 1);
    assert_false(session_owes_ack_now(&p.b.session));
    assert_false(session_fill(&p.b.session));
    send(&p.b, 0, 10, 0);
    session_end_move(&p.b, &p.a, SIZE_MAX, 4096, &status);
    assert_int_equal(p.b.session.owed_frames, 0);
    assert_true(list_is_empty(&p.a.session.unacked));
    session_pair_close(&p);
}

static void it_owes_an_ack_after_some_frames_or_bytes(void **state) {
    (void)state;
    session_pair p;
    gw_status status;
    session_pair_open(&p, false);
    for (uint32_t n = 0; n < SESSION_ACK_FRAMES; n++) {
        assert_false(session_owes_ack_now(&p.b.session));
        send(&p.a, n, 0, 0);
        session_end_move(&p.a, &p.b, SIZE_MAX, 4096, &status);
    }
    assert_true(session_owes_ack_now(&p.b.session));
    session_pair_flush(&p, 4096);
    assert_true(list_is_empty(&p.a.session.unacked));
    send(&p.a, SESSION_ACK_FRAMES, 0, SESSION_ACK_BYTES);
    session_end_move(&p.a, &p.b, SIZE_MAX, 1 << 20, &status);
    assert_true(session_owes_ack_now(&p.b.session));
    session_pair_close(&p);
}

static void it_answers_a_ping_with_an_ack(void **state) {
    (void)state;
    session_pair p;
    gw_status status;
    session_pair_open(&p, false);
    send(&p.a, 0, 0, 0);
    p.a.session.ping_wanted = true;
    session_end_move(&p.a, &p.b, SIZE_MAX, 4096, &status);
    assert_true(session_owes_ack_now(&p.b.session));
    session_end_move(&p.b, &p.a, SIZE_MAX, 4096, &status);
    assert_true(list_is_empty(&p.a.session.unacked));
    session_pair_close(&p);
}

static void goodbye_is_the_last_frame(void **state) {
    (void)state;
    session_pair p;
    gw_status status;
    session_pair_open(&p, false);
    p.a.session.close_wanted = true;
    send(&p.a, 0, 5, 400000);
    session_end_move(&p.a, &p.b, SIZE_MAX, 4096, &status);
    assert_int_equal(p.b.inbox_count, 1);
    assert_true(p.b.session.has_close);
    // Nothing is received after it.
    send(&p.a, 1, 5, 0);
    session_end_move(&p.a, &p.b, SIZE_MAX, 4096, &status);
    assert_int_equal(p.b.inbox_count, 1);
    session_pair_close(&p);
}

// A peer that acknowledges frames that are still in the outbox must not free them while the
// connection uses them.
static void acks_free_nothing_in_the_outbox(void **state) {
    (void)state;
    session_pair p;
    gw_error error;
    session_pair_open(&p, false);
    block *b = block_take(50000);
    message *m = message_open(1);
    message_add_segment(m, b, 0, 50000);
    assert_int_equal(session_queue(&p.a.session, m, &error), GW_OK);
    assert_true(session_fill(&p.a.session));
    session_sent(&p.a.session, 100);
    uint8_t raw[FRAME_HEADER_BYTES];
    frame_encode(raw, &(frame){ .type = FRAME_ACK, .ack = 1 });
    assert_int_equal(session_feed(&p.a.session, raw, sizeof raw, &error), GW_OK);
    assert_int_equal(b->pins, 1);
    int count;
    const struct iovec *parts = session_parts(&p.a.session, &count);
    size_t left = 0;
    for (int i = 0; i < count; i++) left += parts[i].iov_len;
    session_sent(&p.a.session, left);
    assert_int_equal(b->pins, 0);
    block_release(b);
    session_pair_close(&p);
}

// ---- Protocol errors ----------------------------------------------------------------------------
static void feed_frame(session_end *x, frame f, gw_status want, const char *text) {
    uint8_t raw[FRAME_HEADER_BYTES + 8] = { 0 };
    gw_error error = { 0 };
    frame_encode(raw, &f);
    size_t body = f.body_size < 8 ? f.body_size : 8;
    assert_int_equal(session_feed(&x->session, raw, FRAME_HEADER_BYTES + body, &error), want);
    assert_string_equal(error.text, text);
}

static frame data(uint64_t number, bool first, uint32_t body, uint32_t head) {
    return (frame){ .type = FRAME_DATA,
                    .first = first,
                    .number = number,
                    .kind = first,
                    .body_size = body,
                    .head_size = head };
}

static void it_ends_with_a_peer_that_breaks_the_rules(void **state) {
    (void)state;
    static const struct {
        frame before, f;
        const char *text;
    } cases[] = {
        { { 0 },
          { .type = FRAME_DATA, .number = 1, .body_size = 1 },
          "frame 1 continues no message" },
        { { .type = FRAME_DATA,
            .number = 1,
            .first = true,
            .kind = 1,
            .head_size = 9,
            .body_size = 4 },
          { .type = FRAME_DATA, .number = 2, .first = true, .kind = 1 },
          "frame 2 begins a message inside another message" },
        { { 0 },
          { .type = FRAME_DATA,
            .number = 1,
            .first = true,
            .kind = 1,
            .body_size = 5,
            .head_size = 4 },
          "frame 1 is longer than its message" },
        { { 0 },
          { .type = FRAME_DATA, .number = 1, .first = true, .kind = 1, .head_size = 4 },
          "frame 1 is empty, but its message is not" },
        { { 0 },
          { .type = FRAME_ACK, .ack = 1 },
          "the peer has acknowledged frame 1, but only frame 0 was sent" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        session_pair p;
        session_pair_open(&p, false);
        if (cases[i].before.type) feed_frame(&p.b, cases[i].before, GW_OK, "");
        feed_frame(&p.b, cases[i].f, GW_PROTOCOL, cases[i].text);
        assert_int_equal(p.b.inbox_count, 0);
        session_pair_close(&p);
    }
}

static void it_takes_a_gap_for_damage(void **state) {
    (void)state;
    session_pair p;
    session_pair_open(&p, false);
    feed_frame(&p.b, data(2, true, 0, 0), GW_DISCONNECTED, "frame 2 arrived after frame 0");
    assert_int_equal(p.b.inbox_count, 0);
    session_pair_close(&p);
}

static void a_smaller_ack_is_a_protocol_error(void **state) {
    (void)state;
    session_pair p;
    gw_status status;
    session_pair_open(&p, false);
    for (uint32_t n = 0; n < 3; n++) send(&p.a, n, 0, 0);
    session_end_move(&p.a, &p.b, SIZE_MAX, 4096, &status);
    feed_frame(&p.a, (frame){ .type = FRAME_ACK, .ack = 2 }, GW_OK, "");
    feed_frame(&p.a, (frame){ .type = FRAME_ACK, .ack = 1 }, GW_PROTOCOL,
               "frame 2 was acknowledged before, but the peer now acknowledges only frame 1");
    session_pair_close(&p);
}

static void it_refuses_to_resume_beyond_sent_frames(void **state) {
    (void)state;
    session_pair p;
    gw_status status;
    gw_error error;
    session_pair_open(&p, false);
    for (uint32_t n = 0; n < 3; n++) send(&p.a, n, 0, 0);
    session_end_move(&p.a, &p.b, SIZE_MAX, 4096, &status);
    feed_frame(&p.a, (frame){ .type = FRAME_ACK, .ack = 2 }, GW_OK, "");
    session_pair_part(&p);
    assert_int_equal(session_resume(&p.a.session, 4, &error), GW_PROTOCOL);
    assert_int_equal(session_resume(&p.a.session, 1, &error), GW_PROTOCOL);
    assert_int_equal(session_resume(&p.a.session, 3, &error), GW_OK);
    session_pair_close(&p);
}

static void it_drops_duplicate_frames(void **state) {
    (void)state;
    session_pair p;
    session_pair_open(&p, false);
    feed_frame(&p.b, data(1, true, 4, 4), GW_OK, "");
    feed_frame(&p.b, data(1, true, 4, 4), GW_OK, "");
    feed_frame(&p.b, data(2, true, 4, 8), GW_OK, "");
    feed_frame(&p.b, data(1, true, 4, 4), GW_OK, "");
    feed_frame(&p.b, data(2, true, 4, 8), GW_OK, "");
    feed_frame(&p.b, data(3, false, 4, 0), GW_OK, "");
    assert_int_equal(p.b.inbox_count, 2);
    assert_int_equal(p.b.inbox[1]->head.size, 8);
    session_pair_close(&p);
}

static void it_skips_frames_of_later_versions(void **state) {
    (void)state;
    session_pair p;
    session_pair_open(&p, false);
    feed_frame(&p.b, (frame){ .type = 77, .body_size = 5 }, GW_OK, "");
    feed_frame(&p.b, data(1, true, 4, 4), GW_OK, "");
    assert_int_equal(p.b.inbox_count, 1);
    session_pair_close(&p);
}

static void damaged_bytes_require_another_connection(void **state) {
    (void)state;
    session_pair p;
    gw_error error;
    session_pair_open(&p, false);
    uint8_t raw[FRAME_HEADER_BYTES];
    frame_encode(raw, &(frame){ .type = FRAME_ACK });
    raw[20] ^= 1;
    assert_int_equal(session_feed(&p.b.session, raw, sizeof raw, &error), GW_DISCONNECTED);
    session_pair_close(&p);
}

static void it_survives_random_bytes(void **state) {
    (void)state;
    uint64_t random = 7;
    for (int round = 0; round < testing_scaled(3000); round++) {
        session_pair p;
        session_pair_open(&p, false);
        // Valid headers with any fields, with bodies of any length.
        for (int i = 0; i < 8; i++) {
            uint8_t raw[FRAME_HEADER_BYTES + 64] = { 0 };
            uint64_t r[4];
            for (int k = 0; k < 4; k++)
                r[k] = random = random * 6364136223846793005u + 1442695040888963407u;
            frame f = { .type = (uint8_t)(1 + (r[0] >> 33) % 5),
                        .first = r[0] >> 40 & 1,
                        .number = (r[1] >> 33) % 6,
                        .ack = (r[1] >> 50) % 2,
                        .body_size = (uint32_t)((r[2] >> 33) % 64),
                        .kind = (uint8_t)(r[0] >> 40 & 1),
                        .head_size = (uint32_t)((r[2] >> 50) % 100),
                        .has_bulk = r[3] >> 50 & 1,
                        .segment_count = (uint16_t)((r[3] >> 40) % 3) };
            if (!f.first) f.has_bulk = false, f.head_size = f.segment_count = 0;
            if (f.type == FRAME_BULK)
                f.kind = 0, f.first = false, f.segment_count = 0, f.distance = 1;
            for (int k = 0; k < 64; k++)
                raw[FRAME_HEADER_BYTES + k] = (uint8_t)(r[3] >> k % 40) % 4;
            frame_encode(raw, &f);
            gw_error error;
            if (session_feed(&p.b.session, raw, FRAME_HEADER_BYTES + f.body_size, &error)) break;
        }
        session_pair_close(&p);
    }
}

static void it_refuses_more_than_its_limit(void **state) {
    (void)state;
    session_pair p;
    gw_error error;
    session_pair_open(&p, false);
    block *b = block_take(64);
    for (int i = 0; i < 3; i++) {
        // As if it were large: nothing of it is sent here.
        message *m = message_open(1);
        for (int k = 0; k < 2; k++) message_add_segment(m, b, 0, 64);
        for (int k = 0; k < 2; k++) m->segments[k].size = LIMIT_TENSOR_BYTES - 16;
        gw_status status = session_queue(&p.a.session, m, &error);
        assert_int_equal(status, i < 2 ? GW_OK : GW_OVERLOADED);
    }
    session_fini(&p.a.session);
    assert_int_equal(b->pins, 0);
    block_release(b);
    session_pair_close(&p);
}

// ---- Without memory -----------------------------------------------------------------------------
// Whatever fails, the received messages are a prefix of the sent ones; and with memory again the rest
// arrives.
static void carry_without_memory(void *context) {
    (void)context;
    session_pair p;
    session_pair_init(&p, false);
    gw_error error;
    gw_status status = GW_OK;
    int queued = 0;
    block *b = block_take(300000);
    for (uint32_t n = 0; n < 3 && b && !status; n++) {
        message *m = message_open(1);
        if (!m) break;
        bytes_put_u32(&m->head, n);
        if (!message_add_segment(m, b, 0, 300000)) {
            message_release(m);
            break;
        }
        status = session_queue(&p.a.session, m, &error);
        queued += status == GW_OK;
    }
    block_release(b);
    for (int i = 0; i < 50 && p.b.inbox_count < queued; i++) {
        session_pair_part(&p);
        if (session_pair_join(&p)) continue;
        session_end_move(&p.a, &p.b, SIZE_MAX, 65536, &status);
        assert_true(status == GW_OK || status == GW_NO_MEMORY);
    }
    for (int i = 0; i < p.b.inbox_count; i++) assert_int_equal(p.b.inbox[i]->head.data[0], i);
    session_pair_close(&p);
}

static void it_survives_without_memory(void **state) {
    (void)state;
    testing_alloc_failure_loop(carry_without_memory, NULL);
}

GW_TESTS(session_session, it_carries_messages_of_every_size, it_carries_a_message_without_bytes,
         it_survives_a_cut_at_every_byte, sent_blocks_stay_pinned_until_acknowledged,
         acks_travel_with_data_frames, it_owes_an_ack_after_some_frames_or_bytes,
         it_answers_a_ping_with_an_ack, goodbye_is_the_last_frame, acks_free_nothing_in_the_outbox,
         it_ends_with_a_peer_that_breaks_the_rules, it_takes_a_gap_for_damage,
         a_smaller_ack_is_a_protocol_error, it_refuses_to_resume_beyond_sent_frames,
         it_drops_duplicate_frames, it_skips_frames_of_later_versions,
         damaged_bytes_require_another_connection, it_survives_random_bytes,
         it_refuses_more_than_its_limit, it_survives_without_memory);
