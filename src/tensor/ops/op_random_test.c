#include "testing/op_expect.h"

// Whether |count| of |n| draws fits the probability |p|, within five standard deviations.
static void expect_share(int64_t count, int64_t n, double p) {
    double deviation = sqrt((double)n * p * (1 - p));
    if (!(fabs((double)count - (double)n * p) <= 5 * deviation + 0.5))
        fail_msg("%lld of %lld at %g", (long long)count, (long long)n, p);
}

static int64_t count_of(const gw_tensor *x, double value) {
    int64_t count = 0;
    for (int64_t i = 0; i < x->numel; i++) count += element(x, i) == value;
    return count;
}

// ---- bernoulli ----------------------------------------------------------------------------------
static void bernoulli_draws_ones_with_their_probability(void **state) {
    (void)state;
    static const gw_dtype dtypes[] = { GW_F32, GW_F64, GW_BF16 };
    gw_scope *s = gw_scope_open(NULL);
    for (int d = 0; d < 3; d++) {
        gw_tensor *x = gw_bernoulli(s, gw_full(s, dtypes[d], 0.25, 101, 99));
        assert_int_equal(x->dtype, dtypes[d]);
        expect_shape(s, x, "101x99");
        expect_share(count_of(x, 1), x->numel, 0.25);
        assert_int_equal(count_of(x, 0) + count_of(x, 1), x->numel);
    }
    gw_tensor *sure = gw_from(s, ((float[]){ 0, 1, 1, 0 }), 4);
    expect_text(s, gw_bernoulli(s, sure), GW_F32, "tensor([0., 1., 1., 0.])");
    gw_scope_close_up(s);
}

static void bernoulli_refuses_invalid_probabilities(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_bernoulli(s, gw_full(s, GW_F32, 1.5, 2));
    expect_fails(s, "gw.bernoulli: the probability 1.5 must be between 0 and 1");
    gw_bernoulli(s, gw_full(s, GW_F32, NAN, 2));
    expect_fails(s, "gw.bernoulli: the probability nan must be between 0 and 1");
    gw_bernoulli(s, gw_ones(s, GW_I64, 2));
    expect_fails(
        s, "gw.bernoulli: i64 is not a float dtype, but must be one; gw_to_dtype converts it");
    gw_scope_close_up(s);
}

// ---- multinomial --------------------------------------------------------------------------------
static void multinomial_draws_classes_by_their_weight(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *p = gw_from(s, ((float[]){ 1, 0, 3, 6 }), 4);
    gw_tensor *x = gw_multinomial(s, p, 10000, .replacement = true);
    expect_shape(s, x, "10000");
    assert_int_equal(x->dtype, GW_I64);
    expect_share(count_of(x, 0), 10000, 0.1);
    assert_int_equal(count_of(x, 1), 0);
    expect_share(count_of(x, 2), 10000, 0.3);
    expect_share(count_of(x, 3), 10000, 0.6);
    // One at a time goes another way.
    gw_tensor *rows = gw_expand(s, gw_reshape(s, p, 1, 4), 10000, 4);
    gw_tensor *one = gw_multinomial(s, rows, 1);
    expect_shape(s, one, "10000x1");
    expect_share(count_of(one, 0), 10000, 0.1);
    assert_int_equal(count_of(one, 1), 0);
    expect_share(count_of(one, 3), 10000, 0.6);
    gw_scope_close_up(s);
}

// Classes 0, 1, 2 of weights 1, 2, 3: the first is 2 with 1/2; then 0 or 1 of the rest.
static void without_replacement_no_class_is_drawn_twice(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *p = gw_from(s, ((double[]){ 1, 2, 0, 3 }), 4);
    gw_tensor *x = gw_multinomial(s, gw_expand(s, gw_reshape(s, p, 1, 4), 6000, 4), 3);
    int64_t first[4] = { 0 }, second_after_3[4] = { 0 };
    for (int64_t r = 0; r < 6000; r++) {
        int64_t a = (int64_t)element(x, 3 * r), b = (int64_t)element(x, 3 * r + 1);
        int64_t c = (int64_t)element(x, 3 * r + 2);
        assert_true(a != b && b != c && a != c && a + b + c == 4);
        first[a]++;
        if (a == 3) second_after_3[b]++;
    }
    expect_share(first[0], 6000, 1.0 / 6);
    expect_share(first[1], 6000, 1.0 / 3);
    expect_share(first[3], 6000, 1.0 / 2);
    expect_share(second_after_3[0], first[3], 1.0 / 3);
    gw_scope_close_up(s);
}

static void without_replacement_everything_can_be_drawn(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    for (int64_t n = 1; n < 40; n++) {
        gw_tensor *x = gw_multinomial(s, gw_rand(s, GW_F32, n), n - n / 3);
        assert_true(gw_ok(s));
        bool seen[40] = { false };
        for (int64_t i = 0; i < x->numel; i++) {
            int64_t class = (int64_t)element(x, i);
            assert_true(class >= 0 && class < n && !seen[class]);
            seen[class] = true;
        }
    }
    gw_scope_close_up(s);
}

static void the_seed_decides(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *p = gw_rand(s, GW_F32, 50, 20);
    for (int replacement = 0; replacement < 2; replacement++) {
        gw_seed(s, 9);
        gw_tensor *x = gw_multinomial(s, p, 5, .replacement = replacement),
                  *y = gw_multinomial(s, p, 5, .replacement = replacement);
        gw_seed(s, 9);
        assert_true(same_bits(x, gw_multinomial(s, p, 5, .replacement = replacement)));
        assert_false(same_bits(x, y));
    }
    gw_scope_close_up(s);
}

static void multinomial_refuses_invalid_weights(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *p = gw_from(s, ((float[]){ 0.5f, 0.5f, 0 }), 3);
    gw_multinomial(s, gw_neg(s, p), 1, .replacement = true);
    expect_fails(s, "gw.multinomial: the probability -0.5 must not be negative, infinite or NaN");
    gw_multinomial(s, gw_full(s, GW_F32, INFINITY, 2), 1, .replacement = true);
    expect_fails(s, "gw.multinomial: the probability inf must not be negative, infinite or NaN");
    gw_multinomial(s, gw_full(s, GW_F32, NAN, 2), 1, .replacement = true);
    expect_fails(s, "gw.multinomial: the probability nan must not be negative, infinite or NaN");
    gw_multinomial(s, gw_zeros(s, GW_F32, 2), 1);
    expect_fails(s,
                 "gw.multinomial: the probabilities add up to 0, but must add up to more than 0");
    gw_multinomial(s, p, 4);
    expect_fails(s, "gw.multinomial: samples is 4, but must be at most 3, the number of classes, "
                    "without replacement");
    gw_multinomial(s, p, 3);
    expect_fails(s, "gw.multinomial: samples is 3, but must be at most 2, the number of "
                    "probabilities above 0, without replacement");
    gw_multinomial(s, p, 0, .replacement = true);
    expect_fails(s, "gw.multinomial: samples is 0, but must be 1 or more");
    gw_multinomial(s, gw_ones(s, GW_F32, 2, 2, 2), 1, .replacement = true);
    expect_fails(s, "gw.multinomial: probabilities are 2x2x2, but must have 1 or 2 dimensions");
    gw_multinomial(s, gw_zeros(s, GW_F32, 0), 1, .replacement = true);
    expect_fails(s,
                 "gw.multinomial: the probabilities add up to 0, but must add up to more than 0");
    gw_scope_close_up(s);
}

GW_TESTS(tensor_op_random, bernoulli_draws_ones_with_their_probability,
         bernoulli_refuses_invalid_probabilities, multinomial_draws_classes_by_their_weight,
         without_replacement_no_class_is_drawn_twice, without_replacement_everything_can_be_drawn,
         the_seed_decides, multinomial_refuses_invalid_weights);
