// The environment of the CartPole example against a trajectory computed by an independent program
// from the published equations, and its published limits.
#include "../../examples/common/cartpole.h"
#include "testing/testing.h"

#include <math.h>

static const double start[4] = { 0.01, -0.02, 0.03, 0.04 };
static const int actions[10] = { 1, 0, 1, 1, 0, 1, 0, 1, 1, 0 };
static const double expected[10][4] = {
    { 0.0096000000000000009, 0.17467919574755525, 0.030799999999999998, -0.24306871796000809 },
    { 0.013093583914951107, -0.020868848948191993, 0.025938625640799837, 0.059167999939416599 },
    { 0.012676206935987267, 0.17387177487348129, 0.027121985639588168, -0.22521957255967326 },
    { 0.016153642433456895, 0.36859581150093934, 0.022617594188394704, -0.50922531831221896 },
    { 0.023525558663475683, 0.17316263692575581, 0.012433087822150324, -0.20950152868114708 },
    { 0.0269888114019908, 0.3681046253751335, 0.0082430572485273825, -0.49823667715635572 },
    { 0.034350903909493469, 0.17286742898935659, -0.0017216762945997319, -0.20296740061676449 },
    { 0.037808252489280603, 0.36801395999645059, -0.0057810243069350217, -0.49619293587254953 },
    { 0.045168531689209618, 0.56321695176848374, -0.015704883024386013, -0.79069214242509867 },
    { 0.056432870724579295, 0.36831413293030768, -0.031518725872887988, -0.5029910128498154 },
};

static void it_follows_the_published_equations(void **state) {
    (void)state;
    cartpole c = { .x = start[0], .x_dot = start[1], .theta = start[2], .theta_dot = start[3] };
    for (int i = 0; i < 10; i++) {
        bool done;
        assert_true(cartpole_step(&c, actions[i], &done) == 1.0);
        assert_false(done);
        const double now[4] = { c.x, c.x_dot, c.theta, c.theta_dot };
        for (int j = 0; j < 4; j++) assert_true(fabs(now[j] - expected[i][j]) < 1e-12);
    }
}

static void it_ends_when_the_pole_leans_over_12_degrees(void **state) {
    (void)state;
    cartpole c = { 0 };
    bool done = false;
    int steps = 0;
    while (!done) {
        cartpole_step(&c, 1, &done);
        steps++;
    }
    assert_int_equal(steps, 9);  // pushed right from rest
    assert_true(c.theta < -12 * 3.14159265358979 / 180);
}

static void it_ends_when_the_cart_leaves_the_track(void **state) {
    (void)state;
    bool done;
    cartpole inside = { .x = 2.39, .x_dot = 0.4 }, outside = { .x = 2.39, .x_dot = 0.6 };
    cartpole_step(&inside, 1, &done);
    assert_false(done);
    cartpole_step(&outside, 1, &done);
    assert_true(done);
}

static void it_ends_after_500_steps(void **state) {
    (void)state;
    cartpole c = { 0 };
    bool done = false;
    for (int i = 1; i <= CARTPOLE_STEPS_MAX; i++) {
        c.x = c.x_dot = c.theta = c.theta_dot = 0;  // reset to upright
        cartpole_step(&c, i % 2, &done);
        assert_int_equal(done, i == CARTPOLE_STEPS_MAX);
    }
}

static void it_starts_near_the_middle(void **state) {
    (void)state;
    cartpole c;
    cartpole_reset(&c, (const float[4]){ 0, 0.5f, 0.999f, 0.25f });
    assert_true(c.x == -0.05 && c.x_dot == 0 && c.theta < 0.05 && fabs(c.theta_dot + 0.025) < 1e-9);
    float observed[4];
    cartpole_observe(&c, observed);
    assert_true(observed[0] == -0.05f && observed[3] == (float)c.theta_dot);
}

GW_TESTS(cartpole, it_follows_the_published_equations, it_ends_when_the_pole_leans_over_12_degrees,
         it_ends_when_the_cart_leaves_the_track, it_ends_after_500_steps,
         it_starts_near_the_middle);
