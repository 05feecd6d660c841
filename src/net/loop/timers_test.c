#include "net/loop/timers.h"

#include "testing/testing.h"

enum { TIMER_COUNT = 500 };

static uint64_t mix(uint64_t *state) {
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static void timers_are_taken_when_due_and_in_order(void **state) {
    (void)state;
    timers all = { 0 };
    timer a = { 0 }, b = { 0 }, c = { 0 };
    assert_true(timers_due_ns(&all) == ENV_NEVER);
    timers_set(&all, &a, 30);
    timers_set(&all, &b, 10);
    timers_set(&all, &c, 20);
    assert_int_equal(timers_due_ns(&all), 10);
    assert_null(timers_take_due(&all, 9));
    assert_ptr_equal(timers_take_due(&all, 20), &b);
    assert_false(b.armed);
    assert_ptr_equal(timers_take_due(&all, 20), &c);
    assert_null(timers_take_due(&all, 20));
    assert_ptr_equal(timers_take_due(&all, 30), &a);
    assert_true(timers_due_ns(&all) == ENV_NEVER);
}

static void timers_due_together_fire_in_the_order_of_arming(void **state) {
    (void)state;
    timers all = { 0 };
    timer t[9] = { 0 };
    for (int i = 0; i < 9; i++) timers_set(&all, &t[i], 5);
    timers_set(&all, &t[4], 5);
    const int expected[9] = { 0, 1, 2, 3, 5, 6, 7, 8, 4 };
    for (int i = 0; i < 9; i++) assert_ptr_equal(timers_take_due(&all, 5), &t[expected[i]]);
}

static void one_can_be_armed_again_and_disarmed(void **state) {
    (void)state;
    timers all = { 0 };
    timer a = { 0 }, b = { 0 };
    timers_set(&all, &a, 1);
    timers_set(&all, &b, 2);
    timers_set(&all, &a, 3);
    assert_int_equal(timers_due_ns(&all), 2);
    timers_set(&all, &b, ENV_NEVER);
    timers_set(&all, &b, ENV_NEVER);
    assert_false(b.armed);
    assert_ptr_equal(timers_take_due(&all, 100), &a);
    assert_null(timers_take_due(&all, 100));
}

typedef struct bell {
    timer timer;
    timers *all;
    int count;
    bool again;
} bell;

static void strike(timer *t) {
    bell *b = (bell *)t;
    b->count++;
    if (b->again) timers_set(b->all, t, 0);
}

static void a_timer_that_rearms_itself_lets_others_fire(void **state) {
    (void)state;
    timers all = { 0 };
    bell endless = { .timer.fire = strike, .all = &all, .again = true };
    bell other = { .timer.fire = strike, .all = &all };
    timers_set(&all, &endless.timer, 0);
    timers_set(&all, &other.timer, 15);
    timers_fire_due(&all, 10);
    assert_int_equal(endless.count, 1);
    timers_fire_due(&all, 20);
    assert_int_equal(other.count, 1);
    assert_int_equal(endless.count, 2);
}

// Compared with a linear search through an array.
static void timers_agree_with_a_linear_search(uint64_t seed, void *context) {
    (void)context;
    timers all = { 0 };
    timer t[TIMER_COUNT] = { 0 };
    int64_t now_ns = 0;
    for (int step = 0; step < 4000; step++) {
        uint64_t r = mix(&seed);
        timer *chosen = &t[(r >> 8) % TIMER_COUNT];
        if (r % 8 < 5) {
            timers_set(&all, chosen, now_ns + (int64_t)(r >> 32) % 1000);
        } else if (r % 8 < 7) {
            timers_set(&all, chosen, ENV_NEVER);
        } else {
            now_ns += (int64_t)(r >> 32) % 300;
            for (timer *due; (due = timers_take_due(&all, now_ns));) {
                assert_false(due->armed);
                for (int i = 0; i < TIMER_COUNT; i++)
                    assert_false(t[i].armed && t[i].due_ns < due->due_ns);
            }
            for (int i = 0; i < TIMER_COUNT; i++) assert_false(t[i].armed && t[i].due_ns <= now_ns);
        }
    }
}

static void any_sequence_agrees_with_a_plain_search(void **state) {
    (void)state;
    testing_for_seeds(50, timers_agree_with_a_linear_search, NULL);
}

GW_TESTS(net_timers, timers_are_taken_when_due_and_in_order,
         timers_due_together_fire_in_the_order_of_arming, one_can_be_armed_again_and_disarmed,
         a_timer_that_rearms_itself_lets_others_fire, any_sequence_agrees_with_a_plain_search);
