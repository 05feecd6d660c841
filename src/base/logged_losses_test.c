// The log has one line about the death of a worker, from whatever it is found first.
#include "base/logged_losses.h"
#include "base/log.h"
#include "testing/testing.h"

#include <string.h>

static int lines;

static void count_line(const char *line) {
    testing_note("%s", line);
    lines++;
}

static gw_error make_error(gw_loss how, uint64_t incarnation, const char *text) {
    gw_error e;
    error_set(&e, GW_DISCONNECTED, "%s", text);
    error_set_lost(&e, how, 1, incarnation, "w1");
    return e;
}

static void a_death_is_one_line(void **state) {
    (void)state;
    env e[2] = { 0 };
    gw_error why = make_error(GW_LOSS_ENDED, 18, "w1 (rank 1) is gone");
    gw_error same =
        make_error(GW_LOSS_SILENT, 18, "group \"world\": w1 (rank 1) has sent nothing to");
    log_hook = count_line;
    lines = 0;
    logged_losses_log(&e[0], &why);
    assert_false(logged_losses_log_root(&e[0], "w0", &same));
    logged_losses_log(&e[0], &why);
    assert_int_equal(lines, 1);
    assert_false(logged_losses_log_root(&e[1], "w2", &same));
    logged_losses_log(&e[1], &why);
    assert_int_equal(lines, 2);
    log_hook = NULL;
}

static void other_errors_are_lines_of_their_own(void **state) {
    (void)state;
    env e = { 0 };
    gw_error errors[] = {
        make_error(GW_LOSS_ENDED, 18, "w1 (rank 1) is gone"),
        make_error(GW_LOSS_ENDED, 22, "w1 (rank 1) is gone"),  // another worker of that name
        make_error(GW_LOSS_LEFT, 26, "w1 (rank 1) has left"),
        make_error(GW_LOSS_LEFT, 26, "w1 (rank 1) has left"),
        make_error(GW_LOSS_NONE, 0, "w1 (rank 1) broke the protocol"),
        make_error(GW_LOSS_NONE, 0, "w1 (rank 1) broke the protocol"),
    };
    int count = sizeof errors / sizeof errors[0];
    log_hook = count_line;
    lines = 0;
    for (int i = 0; i < count; i++) logged_losses_log_root(&e, "w0", &errors[i]);
    assert_int_equal(lines, count);
    logged_losses_forget(&e);
    logged_losses_log_root(&e, "w0", &errors[0]);
    assert_int_equal(lines, count + 1);
    log_hook = NULL;
}

static void a_worker_is_named_once(void **state) {
    (void)state;
    gw_error e = make_error(GW_LOSS_ENDED, 18, "w1 (rank 1) is gone");
    error_prefix_worker(&e, "w1");
    assert_string_equal(e.text, "w1 (rank 1) is gone");
    error_prefix_worker(&e, "w");
    assert_string_equal(e.text, "w: w1 (rank 1) is gone");
}

GW_TESTS(base_logged_losses, a_death_is_one_line, other_errors_are_lines_of_their_own,
         a_worker_is_named_once);
