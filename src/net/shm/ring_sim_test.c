// Two ends of a pair of rings, in an order that a seed decides: each may be stopped for a while, killed, or act
// between any two accesses of the other to the shared words (in the build with mutations; else between two calls).
// A wake-up takes a while, is merged with others, or is spurious.
#include "net/shm/ring.h"

#include <string.h>

#include "base/mem.h"
#include "testing/testing.h"

enum { SIDES = 2, STEPS = 400, PIECE_MAX = 40 * 1024 };

typedef struct side {
    struct world *world;
    ring_out out;
    ring_in in;
    uint8_t *bytes;  // of its out

    bool is_asleep;  // until a wake-up
    bool is_away;    // asleep, except for urgent bytes; it checks once by itself
    bool is_rung;    // a wake-up byte is in transit to it, or has arrived
    bool is_blocked;
    bool is_killed;
    uint64_t put, taken;
} side;

typedef struct world {
    uint64_t random;
    ring_words words[SIDES];
    side sides[SIDES];
    side *running;  // the one whose call is in progress
    bool nests;     // the other one acts inside it
    bool is_over;
    uint8_t buffer[SIDES][PIECE_MAX];
} world;

static uint64_t draw(world *w, uint64_t below) {
    w->random = w->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (w->random >> 33) % below;
}

static side *other(side *x) {
    return &x->world->sides[x == x->world->sides];
}

static uint8_t byte_at(uint64_t position) {
    return (uint8_t)(position * 7 + position / 251);
}

static bool resize(void *user, bool large) {
    (void)user;
    (void)large;
    return true;
}

static void wake(side *x) {
    other(x)->is_rung = true;
}

static uint8_t *buffer_of(side *x) {
    return x->world->buffer[x - x->world->sides];
}

static void put(side *x) {
    world *w = x->world;
    size_t size = 1 + draw(w, draw(w, 8) ? 2000 : PIECE_MAX);
    uint8_t *bytes = buffer_of(x);
    for (size_t i = 0; i < size; i++) bytes[i] = byte_at(x->put + i);
    struct iovec parts[2] = { { bytes, size / 3 }, { bytes + size / 3, size - size / 3 } };
    bool is_all;
    x->put += ring_put(&x->out, parts, 2, &is_all);
    bool is_patient = draw(w, 2), waits = is_patient && is_all && ring_out_is_away(&x->out);
    if (!waits && ring_out_wakes(&x->out)) wake(x);
    if (!is_all) x->is_blocked = ring_out_sleeps(&x->out);
}

static void take(side *x) {
    world *w = x->world;
    uint8_t *bytes = buffer_of(x);
    size_t taken = ring_take(&x->in, bytes, 1 + draw(w, PIECE_MAX));
    for (size_t i = 0; i < taken; i++)
        if (bytes[i] != byte_at(x->taken + i))
            fail_msg("byte %llu is another", (unsigned long long)(x->taken + i));
    x->taken += taken;
    if (taken == 0 && ring_in_wakes(&x->in)) wake(x);
    if (x->is_blocked && ring_has_room(&x->out)) x->is_blocked = false;
    assert_false(x->in.is_broken || x->out.is_broken);
}

static void fall_asleep(side *x) {
    while (ring_has_bytes(&x->in)) take(x);
    if (ring_in_wakes(&x->in)) wake(x);
    x->is_asleep = ring_in_sleeps(&x->in);
    x->is_away = false;
}

static void leave(side *x) {
    while (ring_has_bytes(&x->in)) take(x);
    if (ring_in_wakes(&x->in)) wake(x);
    x->is_asleep = x->is_away = ring_in_leaves(&x->in);
}

static void act(side *x) {
    world *w = x->world;
    if (x->is_killed) return;
    if (x->is_asleep && x->is_away && draw(w, 4) == 0) {  // something is expected now
        x->is_away = false;
        x->is_asleep = ring_in_sleeps(&x->in);
        return;
    }
    if (x->is_asleep) {
        bool looks = x->is_rung || (x->is_away && draw(w, 4) == 0);
        if (!looks || draw(w, 3) == 0) return;
        x->is_rung = x->is_asleep = false;
        ring_in_awake(&x->in);
        x->is_blocked = x->is_blocked && !ring_has_room(&x->out);
        return;
    }
    side *before = w->running;
    w->running = x;
    switch (draw(w, 7)) {
    case 0: fall_asleep(x); break;
    case 6: leave(x); break;
    case 1:
    case 2:
        if (!x->is_blocked && !w->is_over) put(x);
        break;
    case 3: ring_shrink(&x->out); break;
    default: take(x);
    }
    w->running = before;
}

// The other end acts in the middle of a call of this end; it is not interrupted itself, to limit the depth of the
// stack.
static void between_steps(void *context) {
    world *w = context;
    if (!w->running || w->nests || draw(w, 3)) return;
    w->nests = true;
    for (uint64_t i = draw(w, 4); i > 0; i--) act(other(w->running));
    w->nests = false;
}

static void open_side(world *w, int number) {
    side *x = &w->sides[number];
    x->world = w;
    x->bytes = mem_calloc(RING_BYTES);
    assert_non_null(x->bytes);
}

static world *open_world(uint64_t seed) {
    world *w = mem_reserve(64, sizeof *w);
    assert_non_null(w);
    memset(w, 0, sizeof *w);
    w->random = seed;
    for (int i = 0; i < SIDES; i++) open_side(w, i);
    for (int i = 0; i < SIDES; i++) {
        side *x = &w->sides[i];
        x->out = (ring_out){ .words = &w->words[i], .bytes = x->bytes, .resize = resize };
        x->in = (ring_in){ .words = &w->words[1 - i], .bytes = w->sides[1 - i].bytes };
    }
#ifdef GW_MUTATIONS
    ring_between_steps = between_steps;
    ring_steps_context = w;
#else
    (void)between_steps;
#endif
    return w;
}

static void close_world(world *w) {
#ifdef GW_MUTATIONS
    ring_between_steps = NULL;
#endif
    for (int i = 0; i < SIDES; i++) mem_free(w->sides[i].bytes);
    mem_unreserve(w);
}

static void run(world *w, int steps) {
    for (int i = 0; i < steps; i++) {
        side *x = &w->sides[draw(w, SIDES)];
        if (draw(w, 20) == 0) x->is_rung = true;  // spurious
        int stopped = draw(w, 30) == 0 ? (int)draw(w, 50) : 0;
        while (stopped-- > 0) act(other(x));
        act(x);
    }
}

// No side starts anything any more: all bytes are taken, though each side sleeps whenever it may, and is woken only if
// it was rung, or is away.
static void let_both_finish(world *w) {
    w->is_over = true;
    for (int i = 0; i < 2000; i++)
        for (int k = 0; k < SIDES; k++) {
            side *x = &w->sides[k];
            x->is_rung = x->is_rung && x->is_asleep;
            if (x->is_asleep && !x->is_rung && !x->is_away) continue;
            x->is_asleep = x->is_rung = false;
            ring_in_awake(&x->in);
            fall_asleep(x);
        }
    for (int k = 0; k < SIDES; k++)
        if (w->sides[k].taken != other(&w->sides[k])->put)
            fail_msg("side %d sleeps with %llu bytes before it", k,
                     (unsigned long long)(other(&w->sides[k])->put - w->sides[k].taken));
}

static void exchange(uint64_t seed, void *context) {
    (void)context;
    world *w = open_world(seed);
    run(w, STEPS);
    let_both_finish(w);
    close_world(w);
}

static void bytes_arrive_once_and_no_wake_up_is_missed(void **state) {
    (void)state;
    testing_for_seeds(300, exchange, NULL);
}

// Killed in the middle of a call: the bytes that it had announced are readable, and no others.
static void kill_one(uint64_t seed, void *context) {
    (void)context;
    world *w = open_world(seed);
    run(w, (int)(seed % STEPS));
    side *dead = &w->sides[0], *left = &w->sides[1];
    dead->is_killed = true;
    uint64_t announced = dead->put;
    left->is_asleep = false;  // the end of its socket wakes it
    fall_asleep(left);
    assert_int_equal(left->taken, announced);
    run(w, 50);
    assert_int_equal(left->taken, announced);
    close_world(w);
}

static void bytes_announced_by_a_killed_end_are_readable(void **state) {
    (void)state;
    testing_for_seeds(100, kill_one, NULL);
}

// The other end writes an impossible tail: no bytes are taken for it.
static void lie(uint64_t seed, void *context) {
    (void)context;
    world *w = open_world(seed);
    run(w, (int)(seed % STEPS));
    side *x = &w->sides[0];
    while (ring_has_bytes(&x->in)) take(x);
    uint64_t beyond = RING_BYTES + 1 + draw(w, 1000000);
    uint64_t tail = draw(w, 2) ? x->in.head + 2 * beyond : x->in.head - 1 - draw(w, 1000);
    atomic_store(&x->in.words->tail, tail);
    assert_int_equal(ring_take(&x->in, buffer_of(x), PIECE_MAX), 0);
    assert_true(x->in.is_broken);
    close_world(w);
}

static void an_impossible_tail_is_refused(void **state) {
    (void)state;
    testing_for_seeds(100, lie, NULL);
}

GW_TESTS(ring_sim, bytes_arrive_once_and_no_wake_up_is_missed,
         bytes_announced_by_a_killed_end_are_readable, an_impossible_tail_is_refused);
