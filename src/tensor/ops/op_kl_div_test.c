#include "testing/op_expect.h"

static void kl_div_is_the_divergence_of_distributions(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *p = gw_from(s, ((double[]){ 0.5, 0.5, 0, 0.25, 0.25, 0.5 }), 2, 3);
    gw_tensor *q = gw_from(s, ((double[]){ 0.25, 0.25, 0.5, 0.25, 0.25, 0.5 }), 2, 3);
    gw_loss_options o = GW_OPTIONS(gw_loss_options, .reduction = GW_SUM_REDUCTION);
    gw_tensor *log_q = gw_log(s, q);
    expect_near(gw_item(s, gw_kl_div_with(s, log_q, p, o)), log(2), 1e-15);
    expect_near(gw_item(s, gw_kl_div_with(s, log_q, q, o)), 0, 1e-15);
    expect_near(gw_item(s, gw_kl_div(s, log_q, p)), log(2) / 6, 1e-15);
    o.reduction = GW_BATCH_MEAN;
    expect_near(gw_item(s, gw_kl_div_with(s, log_q, p, o)), log(2) / 2, 1e-15);
    o.log_target = true;
    double other_way = gw_item(s, gw_kl_div_with(s, gw_log(s, gw_add(s, p, 1e-9)), log_q, o));
    expect_near(other_way, (0.5 * log(0.5 / 1e-9) + 0.5 * log(0.5)) / 2, 1e-6);
    gw_scope_close_up(s);
}

static void it_refuses_other_reductions(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_zeros(s, GW_F32, 2);
    gw_kl_div(s, x, x, .reduction = (gw_reduction)4);
    expect_fails(s, "gw.kl_div: reduction 4, but it must be 0 (mean), 1 (sum) or 2 (none)");
    gw_scope_close_up(s);
}

GW_TESTS(tensor_op_kl_div, kl_div_is_the_divergence_of_distributions, it_refuses_other_reductions);
