// A ring carries bytes in order, none lost, none twice, and no end sleeps while it could continue;
// whatever the other end writes, no memory outside the ring is touched.
#include "net/shm/ring.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "base/mem.h"
#include "testing/testing.h"

static uint64_t draw(uint64_t *random, uint64_t below) {
    *random += UINT64_C(0x9E3779B97F4A7C15);
    uint64_t x = (*random ^ (*random >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return (x ^ (x >> 31)) % below;
}

typedef struct pipe_ {
    ring_words words;
    uint8_t *bytes;
    ring_out out;
    ring_in in;
    bool refuses_to_grow;
    int grown_count, shrunk_count;
    uint64_t put, taken;  // bytes so far
} pipe_;

static bool resize(void *user, bool large) {
    pipe_ *p = user;
    if (large && p->refuses_to_grow) return false;
    if (!large) memset(p->bytes + RING_SMALL_BYTES, 0xee, RING_BYTES - RING_SMALL_BYTES);
    *(large ? &p->grown_count : &p->shrunk_count) += 1;
    return true;
}

static pipe_ *open_pipe(void) {
    pipe_ *p = mem_reserve(64, sizeof *p);
    assert_non_null(p);
    memset(p, 0, sizeof *p);
    p->bytes = mem_alloc(RING_BYTES);  // allocated, so that a sanitizer detects accesses beyond it
    assert_non_null(p->bytes);
    p->out = (ring_out){ .words = &p->words, .bytes = p->bytes, .resize = resize, .user = p };
    p->in = (ring_in){ .words = &p->words, .bytes = p->bytes };
    return p;
}

static void close_pipe(pipe_ *p) {
    mem_free(p->bytes);
    mem_unreserve(p);
}

static uint8_t byte_at(uint64_t position) {
    return (uint8_t)(position * 7 + position / 251);
}

// In two parts, like headers and bodies.
static size_t put(pipe_ *p, size_t size) {
    static uint8_t bytes[2 * RING_BYTES];
    for (size_t i = 0; i < size; i++) bytes[i] = byte_at(p->put + i);
    struct iovec parts[2] = { { bytes, size / 3 }, { bytes + size / 3, size - size / 3 } };
    bool is_all;
    size_t taken = ring_put(&p->out, parts, 2, &is_all);
    assert_true(taken <= size);
    assert_true(is_all == (taken == size));
    p->put += taken;
    return taken;
}

static size_t take(pipe_ *p, size_t size) {
    static uint8_t bytes[RING_BYTES];
    size_t taken = ring_take(&p->in, bytes, size);
    assert_true(taken <= size);
    for (size_t i = 0; i < taken; i++)
        if (bytes[i] != byte_at(p->taken + i))
            fail_msg("byte %llu", (unsigned long long)p->taken + i);
    p->taken += taken;
    return taken;
}

// After this the ring is used little.
static void drain(pipe_ *p) {
    while (take(p, RING_BYTES) > 0) {
    }
    while (!ring_shrink(&p->out)) {
    }
}

static void bytes_arrive_in_order_in_any_pieces(void **state) {
    (void)state;
    uint64_t r = 1;
    pipe_ *p = open_pipe();
    for (int i = 0; i < 2000; i++) {
        size_t most = draw(&r, 20) ? 3000 : RING_BYTES + 1000;
        put(p, 1 + draw(&r, most));
        for (uint64_t k = draw(&r, 3); k > 0; k--) take(p, 1 + draw(&r, most));
        if (draw(&r, 50) == 0) ring_shrink(&p->out);
        if (draw(&r, 100) == 0) drain(p);
    }
    drain(p);
    assert_int_equal(p->taken, p->put);
    assert_false(p->in.is_broken || p->out.is_broken);
    assert_true(p->grown_count > 0 && p->shrunk_count > 0);
    close_pipe(p);
}

static void it_holds_its_capacity_and_no_more(void **state) {
    (void)state;
    pipe_ *p = open_pipe();
    assert_int_equal(put(p, 2 * RING_BYTES), RING_BYTES);
    assert_int_equal(put(p, 1), 0);
    assert_false(ring_has_room(&p->out));
    assert_int_equal(take(p, 100), 100);
    assert_int_equal(put(p, 1000), 100);
    close_pipe(p);
}

// "A ring that is used little stays in its first pages."
static void small_use_stays_in_the_first_pages(void **state) {
    (void)state;
    pipe_ *p = open_pipe();
    memset(p->bytes + RING_SMALL_BYTES, 0x55, RING_BYTES - RING_SMALL_BYTES);
    for (int i = 0; i < 10000; i++) {
        assert_int_equal(put(p, 1000), 1000);
        assert_int_equal(put(p, 500), 500);
        assert_int_equal(take(p, 4096), 1500);
    }
    assert_int_equal(p->grown_count, 0);
    for (int i = RING_SMALL_BYTES; i < RING_BYTES; i++) assert_int_equal(p->bytes[i], 0x55);
    close_pipe(p);
}

static void without_memory_it_uses_the_first_pages(void **state) {
    (void)state;
    pipe_ *p = open_pipe();
    p->refuses_to_grow = true;
    for (int i = 0; i < 100; i++) {
        put(p, RING_BYTES);
        take(p, RING_BYTES);
    }
    assert_in_range(p->put, 100 * RING_REWIND_BYTES, 100 * RING_SMALL_BYTES);
    assert_int_equal(p->taken, p->put);
    close_pipe(p);
}

static void it_frees_pages_unused_since_the_last_shrink(void **state) {
    (void)state;
    pipe_ *p = open_pipe();
    put(p, 100000);
    assert_false(ring_shrink(&p->out));  // it holds bytes
    take(p, 100000);
    put(p, 100000);
    take(p, 100000);
    assert_false(ring_shrink(&p->out));  // it has been used
    put(p, 1000);
    take(p, 1000);
    assert_true(ring_shrink(&p->out));
    put(p, 1000);
    assert_int_equal(take(p, 4096), 1000);
    assert_int_equal(p->shrunk_count, 1);
    close_pipe(p);
}

// ---- Waking -------------------------------------------------------------------------------------

static void a_sleeping_consumer_is_woken_once_for_a_burst(void **state) {
    (void)state;
    pipe_ *p = open_pipe();
    assert_true(ring_in_sleeps(&p->in));
    put(p, 10);
    assert_true(ring_out_wakes(&p->out));
    for (int i = 0; i < 10; i++) {
        put(p, 10);
        assert_false(ring_out_wakes(&p->out));
    }
    assert_false(ring_in_sleeps(&p->in));  // there are bytes
    ring_in_awake(&p->in);
    take(p, 1000);
    put(p, 10);
    assert_false(ring_out_wakes(&p->out));
    close_pipe(p);
}

static void a_consumer_that_checks_by_itself_is_not_woken(void **state) {
    (void)state;
    pipe_ *p = open_pipe();
    put(p, 10);
    assert_false(ring_out_waits(&p->out));  // it checks
    assert_false(ring_in_sleeps(&p->in));
    assert_true(ring_out_waits(&p->out));
    assert_true(ring_out_waits(&p->out));
    ring_in_awake(&p->in);
    assert_false(ring_out_waits(&p->out));
    take(p, 10);
    assert_true(ring_in_sleeps(&p->in));
    assert_false(ring_out_waits(&p->out));  // it has read all
    put(p, 10);
    assert_true(ring_out_waits(&p->out));
    assert_true(ring_out_wakes(&p->out));
    assert_false(ring_out_waits(&p->out));
    close_pipe(p);
}

static void a_sleeping_producer_is_woken_when_there_is_room(void **state) {
    (void)state;
    pipe_ *p = open_pipe();
    put(p, 2 * RING_BYTES);
    assert_true(ring_out_sleeps(&p->out));
    take(p, RING_BYTES);
    assert_true(ring_in_wakes(&p->in));
    assert_false(ring_in_wakes(&p->in));
    assert_true(ring_has_room(&p->out));
    assert_false(ring_out_sleeps(&p->out));
    close_pipe(p);
}

typedef struct bell {
    pthread_mutex_t lock;
    pthread_cond_t rung;
    bool is_rung;
} bell;

static void ring_bell(bell *b) {
    pthread_mutex_lock(&b->lock);
    b->is_rung = true;
    pthread_cond_signal(&b->rung);
    pthread_mutex_unlock(&b->lock);
}

static void wait_for_bell(bell *b) {
    pthread_mutex_lock(&b->lock);
    while (!b->is_rung) pthread_cond_wait(&b->rung, &b->lock);
    b->is_rung = false;
    pthread_mutex_unlock(&b->lock);
}

typedef struct two_threads {
    pipe_ *pipe;
    bell bytes, room;
    uint64_t size;
} two_threads;

// A lost wake-up leaves both asleep, which the time limit of the test reports.
static void *produce(void *arg) {
    two_threads *t = arg;
    uint64_t r = 2;
    while (t->pipe->put < t->size) {
        size_t size = 1 + draw(&r, draw(&r, 10) ? 100 : 100000);
        if (size > t->size - t->pipe->put) size = t->size - t->pipe->put;
        size_t done = put(t->pipe, size);
        if (ring_out_wakes(&t->pipe->out)) ring_bell(&t->bytes);
        if (done < size && ring_out_sleeps(&t->pipe->out)) wait_for_bell(&t->room);
        if (draw(&r, 3) == 0) sched_yield();
    }
    return NULL;
}

static void no_end_sleeps_while_bytes_or_room_are_available(void **state) {
    (void)state;
    two_threads t = { .pipe = open_pipe(),
                      .bytes = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false },
                      .room = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false },
                      .size = (uint64_t)testing_scaled(20) << 20 };
    pthread_t producer;
    assert_int_equal(pthread_create(&producer, NULL, produce, &t), 0);
    uint64_t r = 3;
    while (t.pipe->taken < t.size) {
        size_t size = 1 + draw(&r, 30000);
        if (take(t.pipe, size) > 0) {
            ring_in_awake(&t.pipe->in);
        } else if (ring_in_wakes(&t.pipe->in)) {
            ring_bell(&t.room);
        } else if (ring_in_sleeps(&t.pipe->in)) {
            wait_for_bell(&t.bytes);
        }
    }
    pthread_join(producer, NULL);
    close_pipe(t.pipe);
}

// ---- A hostile end ------------------------------------------------------------------------------

static uint64_t nonsense(uint64_t *r, const pipe_ *p) {
    switch (draw(r, 5)) {
    case 0: return draw(r, UINT64_MAX);
    case 1: return p->in.head + draw(r, 3 * RING_BYTES);
    case 2: return p->in.head - draw(r, 3 * RING_BYTES);
    case 3: return p->out.tail + draw(r, 10);
    default: return UINT64_MAX - draw(r, 10);
    }
}

static void scribble(uint64_t *r, pipe_ *p) {
    ring_words *w = &p->words;
    switch (draw(r, 6)) {
    case 0: atomic_store(&w->tail, nonsense(r, p)); break;
    case 1: atomic_store(&w->head, nonsense(r, p)); break;
    case 2: atomic_store(&w->skip, nonsense(r, p)); break;
    case 3: atomic_store(&w->skip, p->in.head); break;
    case 4: atomic_store(&w->armed, (uint32_t)draw(r, 3)); break;
    default: atomic_store(&w->wants_room, (uint32_t)draw(r, 3)); break;
    }
}

// Sanitizers detect any access beyond the ring.
static void corrupt_words_touch_no_other_memory(void **state) {
    (void)state;
    static uint8_t bytes[RING_BYTES];
    int broken_count = 0;
    for (uint64_t seed = 1; seed <= (uint64_t)testing_scaled(3000); seed++) {
        uint64_t r = seed;
        pipe_ *p = open_pipe();
        for (int i = 0; i < 50; i++) {
            bool is_all;
            struct iovec part = { bytes, 1 + draw(&r, RING_BYTES - 1) };
            scribble(&r, p);
            assert_true(ring_put(&p->out, &part, 1, &is_all) <= part.iov_len);
            ring_out_wakes(&p->out);
            ring_out_sleeps(&p->out);
            scribble(&r, p);
            size_t size = 1 + draw(&r, RING_BYTES - 1);
            assert_true(ring_take(&p->in, bytes, size) <= size);
            ring_in_wakes(&p->in);
            ring_in_sleeps(&p->in);
            if (draw(&r, 10) == 0) ring_shrink(&p->out);
        }
        broken_count += p->in.is_broken && p->out.is_broken;
        close_pipe(p);
    }
    assert_true(broken_count > testing_scaled(3000) / 2);  // most corruptions are detected
}

// RING-13. The caller of ring_put decides which bytes are patient.
static void a_consumer_is_away_until_it_sleeps_or_checks(void **state) {
    (void)state;
    pipe_ *p = open_pipe();
    assert_false(ring_out_is_away(&p->out));
    assert_true(ring_in_leaves(&p->in));
    assert_true(ring_out_is_away(&p->out));
    put(p, 10);
    assert_true(ring_out_waits(&p->out));
    assert_false(ring_in_sleeps(&p->in));  // there are bytes
    assert_false(ring_out_is_away(&p->out));
    take(p, 10);
    assert_true(ring_in_leaves(&p->in));
    put(p, 10);
    assert_true(ring_out_wakes(&p->out));
    assert_false(ring_in_leaves(&p->in));
    ring_in_awake(&p->in);
    assert_false(ring_out_is_away(&p->out) || ring_out_waits(&p->out));
    close_pipe(p);
}

static void a_tail_out_of_reach_breaks_it(void **state) {
    (void)state;
    pipe_ *p = open_pipe();
    put(p, 10);
    atomic_store(&p->words.tail, RING_BYTES + 1);
    assert_int_equal(take(p, 100), 0);
    assert_true(p->in.is_broken);
    close_pipe(p);
}

static void a_head_that_goes_back_breaks_it(void **state) {
    (void)state;
    pipe_ *p = open_pipe();
    put(p, RING_BYTES);
    take(p, 1000);
    put(p, RING_BYTES);
    atomic_store(&p->words.head, 999);
    assert_int_equal(put(p, 1), 0);
    assert_true(p->out.is_broken);
    close_pipe(p);
}

GW_TESTS(net_ring, bytes_arrive_in_order_in_any_pieces, it_holds_its_capacity_and_no_more,
         small_use_stays_in_the_first_pages, without_memory_it_uses_the_first_pages,
         it_frees_pages_unused_since_the_last_shrink, a_sleeping_consumer_is_woken_once_for_a_burst,
         a_consumer_that_checks_by_itself_is_not_woken,
         a_sleeping_producer_is_woken_when_there_is_room,
         a_consumer_is_away_until_it_sleeps_or_checks,
         no_end_sleeps_while_bytes_or_room_are_available, corrupt_words_touch_no_other_memory,
         a_tail_out_of_reach_breaks_it, a_head_that_goes_back_breaks_it);
