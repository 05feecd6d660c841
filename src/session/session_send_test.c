// The order in which a session sends: messages of several sizes on one connection, which breaks.
#include "session/session.h"

#include "base/crc32c.h"
#include "base/limits.h"
#include "base/mem.h"
#include "session/outbox.h"
#include "testing/session_pair.h"
#include "testing/testing.h"

#include <string.h>

enum { FRAME = LIMIT_FRAME_BYTES };

// Moves the contents of the outbox, and nothing more.
static void move_outbox(session_pair *p) {
    int count;
    size_t size = 0;
    if (!session_fill(&p->a.session)) return;
    const struct iovec *parts = session_parts(&p->a.session, &count);
    for (int i = 0; i < count; i++) size += parts[i].iov_len;
    session_end_move(&p->a, &p->b, size, SIZE_MAX, NULL);
}

// ---- Messages -----------------------------------------------------------------------------------

static uint8_t byte_of(uint32_t n, size_t at) {
    return (uint8_t)((at + 1) * (n * 2 + 1) * UINT64_C(2654435761) >> 24);
}

static message *make(uint32_t n, size_t head, size_t bulk) {
    message *m = message_open(1);
    bytes_put_u32(&m->head, n);
    for (size_t i = 0; i < head; i++) bytes_put_u8(&m->head, byte_of(n, i));
    if (bulk) {
        block *b = block_take(bulk);
        for (size_t i = 0; i < bulk; i++) b->bytes[i] = byte_of(n, i + 7);
        // In two segments, whose boundary is not the end of a frame.
        if (bulk > 1) message_add_segment(m, b, 0, bulk / 3 + 1);
        size_t done = bulk > 1 ? bulk / 3 + 1 : 0;
        if (done < bulk) message_add_segment(m, b, done, bulk - done);
        block_release(b);
    }
    return m;
}

static uint64_t send(session_end *x, uint32_t n, size_t head, size_t bulk) {
    gw_error error;
    assert_int_equal(session_queue(&x->session, make(n, head, bulk), &error), GW_OK);
    return x->session.last_id;
}

static uint32_t number_of(const message *m) {
    uint32_t n;
    memcpy(&n, m->head.data, sizeof n);
    return n;
}

static void expect(const message *m, uint32_t n, size_t head, size_t bulk) {
    message *want = make(n, head, bulk);
    assert_false(m->incomplete);
    assert_int_equal(m->head.size, want->head.size);
    assert_memory_equal(m->head.data, want->head.data, want->head.size);
    assert_int_equal(m->segment_count, want->segment_count);
    for (uint32_t i = 0; i < m->segment_count; i++) {
        const segment *g = &want->segments[i];
        assert_int_equal(m->segments[i].size, g->size);
        assert_memory_equal(m->segments[i].block->bytes, g->block->bytes + g->offset, g->size);
    }
    message_release(want);
}

// ---- Order --------------------------------------------------------------------------------------

static void a_small_message_does_not_wait_for_the_end_of_a_large_one(void **state) {
    (void)state;
    session_pair p;
    session_pair_open(&p, true);
    send(&p.a, 0, 10, 20 * FRAME);
    move_outbox(&p);
    send(&p.a, 1, 10, 0);
    send(&p.a, 2, 10, 1000);
    move_outbox(&p);
    assert_int_equal(p.b.inbox_count, 3);
    assert_int_equal(p.b.whole_count, 2);
    assert_true(p.b.inbox[0]->incomplete);
    session_pair_flush(&p, SIZE_MAX);
    assert_int_equal(p.b.whole_count, 3);
    assert_int_equal(p.b.whole[2], 0);
    expect(p.b.inbox[0], 0, 10, 20 * FRAME);
    expect(p.b.inbox[1], 1, 10, 0);
    expect(p.b.inbox[2], 2, 10, 1000);
    session_pair_close(&p);
}

// SES-11
static void messages_are_announced_in_the_order_in_which_they_were_sent(void **state) {
    (void)state;
    session_pair p;
    session_pair_open(&p, true);
    for (uint32_t n = 0; n < 30; n++) send(&p.a, n, n * 500, n % 3 ? 0 : (n + 1) * 100000);
    session_pair_flush(&p, 5000);
    assert_int_equal(p.b.inbox_count, 30);
    for (uint32_t n = 0; n < 30; n++)
        expect(p.b.inbox[n], n, n * 500, n % 3 ? 0 : (n + 1) * 100000);
    assert_true(list_is_empty(&p.a.session.unacked) && p.a.session.unacked_bytes == 0);
    assert_int_equal(p.a.session.bulk_count, 0);
    assert_int_equal(p.b.session.bulk_in_count, 0);
    assert_true(p.b.session.bulk_in_bytes == 0);
    session_pair_close(&p);
}

// SES-13
static void small_and_large_bulks_share_the_connection(void **state) {
    (void)state;
    session_pair p;
    session_pair_open(&p, true);
    send(&p.a, 0, 0, 40 * FRAME);
    for (uint32_t n = 1; n < 10; n++) send(&p.a, n, 0, 2 * FRAME);
    while (p.b.whole_count == 0) move_outbox(&p);
    assert_true(p.b.whole[0] > 0);
    // While small ones are queued without end, the large one gets every other frame.
    for (uint32_t n = 10; n < 500 && p.b.inbox[0]->incomplete; n++) {
        send(&p.a, n, 0, FRAME);
        move_outbox(&p);
    }
    assert_false(p.b.inbox[0]->incomplete);
    session_pair_flush(&p, SIZE_MAX);
    session_pair_close(&p);
}

static void small_messages_do_not_starve_bulk(void **state) {
    (void)state;
    session_pair p;
    session_pair_open(&p, true);
    send(&p.a, 0, 0, 4 * FRAME);
    for (uint32_t n = 1; n < 100 && (p.b.inbox_count == 0 || p.b.inbox[0]->incomplete); n++) {
        for (int i = 0; i < 4; i++) send(&p.a, n, FRAME, 0);
        for (int i = 0; i < 2; i++) move_outbox(&p);
    }
    assert_false(p.b.inbox[0]->incomplete);
    assert_true(list_has(&p.a.session.unacked));
    session_pair_flush(&p, SIZE_MAX);
    session_pair_close(&p);
}

// ---- Cuts ---------------------------------------------------------------------------------------

static uint64_t draw(uint64_t *random, uint64_t below) {
    *random = *random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (*random >> 33) % below;
}

enum { MESSAGES = 12 };

static const size_t segment_choices[] = { 0, 0, 0, 3000, 270000, 700000 };

static size_t segment_of(uint64_t seed, uint32_t n) {
    return segment_choices[(seed / 3 + n * 5) % 6];
}

// Each connection carries some bytes, and breaks; every message arrives once, with its own bytes.
static void break_and_resume(uint64_t seed, void *context) {
    (void)context;
    uint64_t random = seed;
    session_pair p;
    uint32_t n = 0;
    session_pair_open(&p, true);
    while (n < MESSAGES || p.b.whole_count < MESSAGES) {
        for (uint64_t i = draw(&random, 4); i > 0 && n < MESSAGES; i--, n++)
            send(&p.a, n, draw(&random, 3) * 70000, segment_of(seed, n));
        session_end_move(&p.a, &p.b, draw(&random, 600000), 1 + draw(&random, 9000), NULL);
        if (draw(&random, 2)) p.b.session.ack_wanted = true;
        session_end_move(&p.b, &p.a, draw(&random, 100), 33, NULL);
        session_pair_part(&p);
        assert_int_equal(session_pair_join(&p), GW_OK);
    }
    session_pair_flush(&p, SIZE_MAX);
    assert_int_equal(p.b.inbox_count, MESSAGES);
    assert_int_equal(p.b.whole_count, MESSAGES);
    for (uint32_t i = 0; i < MESSAGES; i++) {
        const message *m = p.b.inbox[i];
        assert_int_equal(number_of(m), i);
        expect(m, i, m->head.size - 4, segment_of(seed, i));
    }
    assert_true(list_is_empty(&p.a.session.unacked) && p.a.session.unacked_bytes == 0);
    assert_true(p.a.session.unacked_bulk_bytes == 0 && p.b.session.bulk_in_bytes == 0);
    session_pair_close(&p);
}

static void every_message_arrives_once_over_broken_connections(void **state) {
    (void)state;
    testing_for_seeds(100, break_and_resume, NULL);
}

// ---- Damage -------------------------------------------------------------------------------------

// All bytes of the outbox, in one buffer.
static size_t take_outbox(session_end *from, uint8_t *out) {
    int count;
    size_t size = 0;
    if (!session_fill(&from->session)) return 0;
    const struct iovec *parts = session_parts(&from->session, &count);
    for (int i = 0; i < count; i++) {
        memcpy(out + size, parts[i].iov_base, parts[i].iov_len);
        size += parts[i].iov_len;
    }
    session_sent(&from->session, size);
    return size;
}

// FRAME-3: a changed bit anywhere costs the connection, and no more.
static void damaged_bytes_are_sent_again(void **state) {
    (void)state;
    enum { SEGMENT = 300000 };
    static uint8_t bytes[2 * SEGMENT];
    size_t size = 1;
    for (size_t at = 0; at < size; at += at < 200 || at + 200 > size ? 1 : 4999) {
        session_pair p;
        gw_error error;
        session_pair_open(&p, true);
        send(&p.a, 0, 20, SEGMENT);
        send(&p.a, 1, 20, 50);
        size = 0;
        for (size_t more; (more = take_outbox(&p.a, bytes + size)) > 0;) size += more;
        bytes[at] ^= (uint8_t)(1 << at % 8);
        assert_int_equal(session_feed(&p.b.session, bytes, size, &error), GW_DISCONNECTED);
        session_pair_part(&p);
        assert_int_equal(session_pair_join(&p), GW_OK);
        session_pair_flush(&p, SIZE_MAX);
        assert_int_equal(p.b.inbox_count, 2);
        expect(p.b.inbox[0], 0, 20, SEGMENT);
        expect(p.b.inbox[1], 1, 20, 50);
        session_pair_close(&p);
    }
}

// An error in undamaged bytes is the peer's own.
static void an_undamaged_error_loses_the_peer(void **state) {
    (void)state;
    session_pair p;
    gw_error error;
    session_pair_open(&p, true);
    uint8_t raw[FRAME_HEADER_BYTES + 8] = { 0 };  // a segment of no bytes
    frame f = { .type = FRAME_DATA,
                .first = true,
                .number = 1,
                .kind = 1,
                .segment_count = 1,
                .body_size = 9,
                .body_check = crc32c(0, "\0\0\0\0\0\0\0\0\0", 9) };
    frame_encode(raw, &f);
    assert_int_equal(session_feed(&p.b.session, raw, sizeof raw, &error), GW_OK);
    assert_int_equal(session_feed(&p.b.session, "", 1, &error), GW_PROTOCOL);
    assert_string_equal(error.text, "message: segment 0 is empty");
    session_pair_close(&p);
}

static void bodies_are_unchecked_on_protected_connections(void **state) {
    (void)state;
    session_pair p;
    session_pair_open(&p, true);
    p.a.session.checks_bodies = p.b.session.checks_bodies = false;
    send(&p.a, 0, 20, 400000);
    assert_true(session_fill(&p.a.session));
    int count;
    frame f;
    assert_int_equal(frame_decode(session_parts(&p.a.session, &count)->iov_base, &f, NULL), GW_OK);
    assert_true(f.number == 1 && f.body_check == 0);
    session_pair_flush(&p, SIZE_MAX);
    expect(p.b.inbox[0], 0, 20, 400000);
    session_pair_close(&p);
}

// ---- Unwanted bulk ------------------------------------------------------------------------------

// SES-15
static void unwanted_bulk_takes_no_memory(void **state) {
    (void)state;
    session_pair p;
    session_pair_open(&p, true);
    p.b.drops = true;
    send(&p.a, 0, 10, 10 * FRAME);
    for (int i = 0; i < 5; i++) move_outbox(&p);
    size_t live = mem_live_count();
    session_pair_part(&p);
    assert_int_equal(session_pair_join(&p), GW_OK);
    p.b.drops = false;
    send(&p.a, 1, 10, 0);
    session_pair_flush(&p, SIZE_MAX);
    assert_true(mem_live_count() <= live + 4);
    assert_int_equal(p.b.inbox_count, 1);
    assert_int_equal(p.b.session.bulk_in_count, 0);
    assert_true(list_is_empty(&p.a.session.unacked));
    session_pair_close(&p);
}

static void a_message_that_is_withdrawn_travels_without_its_segments(void **state) {
    (void)state;
    session_pair p;
    gw_error error;
    session_pair_open(&p, true);
    block *b = block_take(4 * FRAME);
    message *m = make(1, 10, 0);
    message_add_segment(m, b, 0, 4 * FRAME);
    send(&p.a, 0, 10, 0);
    assert_int_equal(session_queue(&p.a.session, m, &error), GW_OK);
    assert_true(session_withdraw(&p.a.session, p.a.session.last_id, 6));
    assert_int_equal(b->pins, 0);
    session_pair_flush(&p, SIZE_MAX);
    assert_int_equal(p.b.inbox_count, 2);
    assert_int_equal(p.b.inbox[1]->kind, 6);
    expect(p.b.inbox[1], 1, 10, 0);
    // Once some of it has been sent it cannot be withdrawn.
    uint64_t id = send(&p.a, 2, 10, FRAME);
    session_end_move(&p.a, &p.b, 1, 1, NULL);
    assert_false(session_withdraw(&p.a.session, id, 6));
    assert_true(p.a.session.unacked_bytes > FRAME);
    block_release(b);
    session_pair_close(&p);
}

static void session_has_sent_works_after_the_end(void **state) {
    (void)state;
    session_pair p;
    session_pair_open(&p, true);
    uint64_t large = send(&p.a, 0, 10, 10 * FRAME), small = send(&p.a, 1, 10, 0);
    uint64_t middle = send(&p.a, 2, 10, FRAME);
    while (p.b.whole_count < 2) move_outbox(&p);
    uint64_t never = send(&p.a, 3, 10, 0);
    for (int i = 0; i < 2; i++) {
        assert_false(session_has_sent(&p.a.session, large));
        assert_true(session_has_sent(&p.a.session, small));
        assert_true(session_has_sent(&p.a.session, middle));
        assert_false(session_has_sent(&p.a.session, never));
        session_stop(&p.a.session);
    }
    session_pair_close(&p);
}

// ---- Limits -------------------------------------------------------------------------------------

static message *make_large_of(block *b) {
    message *m = message_open(1);
    for (int i = 0; i < 2; i++) message_add_segment(m, b, 0, FRAME);
    return m;
}

// SES-14
static void a_sender_waits_with_more_bulk_than_the_peer_takes(void **state) {
    (void)state;
    session_pair p;
    gw_error error;
    session_pair_open(&p, true);
    block *b = block_take(FRAME);
    for (int i = 0; i < LIMIT_BULKS + 5; i++)
        assert_int_equal(session_queue(&p.a.session, make_large_of(b), &error), GW_OK);
    int most = 0;
    while (p.b.whole_count < LIMIT_BULKS + 5) {
        move_outbox(&p);
        if ((int)p.b.session.bulk_in_count > most) most = (int)p.b.session.bulk_in_count;
        session_end_move(&p.b, &p.a, SIZE_MAX, SIZE_MAX, NULL);
    }
    assert_in_range(most, LIMIT_BULKS - 5, LIMIT_BULKS);
    block_release(b);
    session_pair_close(&p);
}

static void feed_frame(session_end *x, frame f, gw_status want, const char *text) {
    uint8_t raw[FRAME_HEADER_BYTES + 16] = { 0 };
    gw_error error = { 0 };
    uint64_t size = f.segment_count ? FRAME : 0;
    memcpy(raw + FRAME_HEADER_BYTES, &size, sizeof size);
    f.body_check = crc32c(0, raw + FRAME_HEADER_BYTES, f.body_size);
    frame_encode(raw, &f);
    assert_int_equal(session_feed(&x->session, raw, FRAME_HEADER_BYTES + f.body_size, &error),
                     want);
    assert_string_equal(error.text, text);
}

static frame announcement(uint64_t number) {
    return (frame){ .type = FRAME_DATA,
                    .first = true,
                    .number = number,
                    .kind = 1,
                    .has_bulk = true,
                    .segment_count = 1,
                    .body_size = 8 };
}

static void a_peer_that_announces_too_much_is_lost(void **state) {
    (void)state;
    session_pair p;
    session_pair_open(&p, true);
    for (uint64_t n = 1; n <= LIMIT_BULKS; n++) feed_frame(&p.b, announcement(n), GW_OK, "");
    feed_frame(&p.b, announcement(LIMIT_BULKS + 1), GW_LIMIT,
               "frame 1025 begins a large message while 1024 large messages are incomplete");
    session_pair_close(&p);
}

static void bulk_of_no_message_loses_the_peer(void **state) {
    (void)state;
    frame bulk = { .type = FRAME_BULK, .number = 2, .distance = 1, .body_size = 16 };
    session_pair p;
    session_pair_open(&p, true);
    feed_frame(&p.b, (frame){ .type = FRAME_DATA, .first = true, .number = 1, .kind = 1 }, GW_OK,
               "");
    feed_frame(&p.b, bulk, GW_PROTOCOL, "frame 2 has data of a message that awaits none");
    session_pair_close(&p);
    session_pair_open(&p, true);
    feed_frame(&p.b, announcement(1), GW_OK, "");
    for (bulk.number = 2; bulk.number < 2 + FRAME / 16; bulk.number++, bulk.distance++)
        feed_frame(&p.b, bulk, GW_OK, "");
    assert_int_equal(p.b.whole_count, 1);
    feed_frame(&p.b, bulk, GW_PROTOCOL, "frame 16386 has data of a message that awaits none");
    session_pair_close(&p);
}

// ---- Without memory -----------------------------------------------------------------------------

static void carry_without_memory(void *context) {
    (void)context;
    session_pair p;
    gw_error error;
    session_pair_init(&p, false);
    int queued = 0;
    for (uint32_t n = 0; n < 3; n++) {
        message *m = message_open(1);
        block *b = m ? block_take(400000) : NULL;
        if (b) memset(b->bytes, (int)n + 1, 400000);
        if (b && message_add_segment(m, b, 0, 400000))
            queued += session_queue(&p.a.session, message_retain(m), &error) == GW_OK;
        block_release(b);
        message_release(m);
    }
    for (int i = 0; i < 60 && p.b.whole_count < queued; i++) {
        session_pair_part(&p);
        if (session_resume(&p.a.session, p.b.session.received, &error)) continue;
        if (session_resume(&p.b.session, p.a.session.received, &error)) continue;
        uint8_t bytes[3000];
        while (session_fill(&p.a.session)) {
            int count;
            const struct iovec *parts = session_parts(&p.a.session, &count);
            size_t size = parts->iov_len < sizeof bytes ? parts->iov_len : sizeof bytes;
            memcpy(bytes, parts->iov_base, size);
            session_sent(&p.a.session, size);
            gw_status status = session_feed(&p.b.session, bytes, size, &error);
            assert_true(status == GW_OK || status == GW_NO_MEMORY);
            if (status) break;
        }
    }
    for (int i = 0; i < p.b.whole_count; i++) {
        const uint8_t *bytes = p.b.inbox[p.b.whole[i]]->segments[0].block->bytes;
        assert_true(bytes[0] > 0 && bytes[0] == bytes[399999]);
    }
    session_pair_close(&p);
}

static void it_survives_without_memory(void **state) {
    (void)state;
    testing_alloc_failure_loop(carry_without_memory, NULL);
}

static message *make_patient(uint32_t n) {
    message *m = make(n, 10, 0);
    m->is_patient = true;
    return m;
}

// A filling is urgent if anything in it is.
static bool is_sent_urgently(session_pair *p) {
    assert_true(session_fill(&p->a.session));
    bool is_urgent = p->a.session.is_urgent;
    move_outbox(p);
    assert_false(session_fill(&p->a.session));
    return is_urgent;
}

static void only_patient_messages_are_not_urgent(void **state) {
    (void)state;
    session_pair p;
    gw_error error;
    session_pair_open(&p, true);
    message *both[] = { make_patient(2), make(3, 10, 0), make_patient(4), make_patient(5) };
    session_queue(&p.a.session, make(1, 10, 0), &error);
    assert_true(is_sent_urgently(&p));
    session_queue(&p.a.session, both[0], &error);
    assert_false(is_sent_urgently(&p));
    session_queue(&p.a.session, both[1], &error);
    session_queue(&p.a.session, both[2], &error);
    assert_true(is_sent_urgently(&p));
    p.a.session.ping_wanted = true;
    session_queue(&p.a.session, both[3], &error);
    assert_true(is_sent_urgently(&p));
    assert_int_equal(p.b.inbox_count, 5);
    session_pair_close(&p);
}

GW_TESTS(session_session_send, a_small_message_does_not_wait_for_the_end_of_a_large_one,
         messages_are_announced_in_the_order_in_which_they_were_sent,
         small_and_large_bulks_share_the_connection, small_messages_do_not_starve_bulk,
         every_message_arrives_once_over_broken_connections, damaged_bytes_are_sent_again,
         an_undamaged_error_loses_the_peer, bodies_are_unchecked_on_protected_connections,
         unwanted_bulk_takes_no_memory, only_patient_messages_are_not_urgent,
         a_message_that_is_withdrawn_travels_without_its_segments,
         session_has_sent_works_after_the_end, a_sender_waits_with_more_bulk_than_the_peer_takes,
         a_peer_that_announces_too_much_is_lost, bulk_of_no_message_loses_the_peer,
         it_survives_without_memory);
