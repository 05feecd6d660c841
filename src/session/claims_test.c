// A peer that claims sizes: memory is allocated for received bytes, whatever size was announced.
#include "session/session.h"

#include "base/limits.h"
#include "base/mem.h"
#include "testing/testing.h"

#include <string.h>

enum { STEP_BYTES = 64 * 1024, HANDLE_BYTES = 1024 };

static size_t largest, taken;

static int note_size(size_t size) {
    if (size > largest) largest = size;
    taken += size;
    return size > (256u << 20);  // so that a failing test needs no gigabytes
}

static uint64_t draw(uint64_t *random, uint64_t below) {
    *random = *random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (*random >> 33) % below;
}

static void drop_message(void *user, message *m) {
    (void)user;
    message_release(m);
}

// Heads of any claimed size, of which a few bytes arrive in frames of any size.
static void claim(uint64_t seed, void *context) {
    (void)context;
    uint64_t random = seed;
    static uint8_t body[LIMIT_FRAME_BYTES];
    session s;
    gw_error error = { 0 };
    session_init(&s, drop_message, NULL);
    assert_int_equal(session_resume(&s, 0, &error), GW_OK);
    uint32_t head_size = (uint32_t)1 << (8 + draw(&random, 24));
    size_t arrived = 0;
    largest = taken = 0;
    mem_fail_hook = note_size;
    gw_status status = GW_OK;
    for (uint64_t number = 1; number <= 4 && !status; number++) {
        uint8_t raw[FRAME_HEADER_BYTES];
        frame f = { .type = FRAME_DATA,
                    .number = number,
                    .first = number == 1,
                    .body_size = (uint32_t)(1 + draw(&random, 100)) };
        if (f.first) f.kind = 1, f.head_size = head_size;
        frame_encode(raw, &f);
        status = session_feed(&s, raw, sizeof raw, &error);
        if (!status) status = session_feed(&s, body, f.body_size, &error);
        arrived += f.body_size;
        if (arrived >= head_size) break;
    }
    mem_fail_hook = NULL;
    session_fini(&s);
    assert_in_range(largest, 0, STEP_BYTES + 2 * arrived);
    assert_in_range(taken, 0, STEP_BYTES + HANDLE_BYTES + 3 * arrived);
}

static void it_takes_memory_as_bytes_arrive(void **state) {
    (void)state;
    testing_for_seeds(1000, claim, NULL);
}

GW_TESTS(session_claims, it_takes_memory_as_bytes_arrive);
