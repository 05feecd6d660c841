// Gradients that a pass inside a hook leaves in the scope of the outer pass, in the checked mode, each
// in a process of its own. See Note [Gradients of a pass inside a hook].
#include "base/check.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

typedef enum reading { READS_NONE, READS_X, READS_ALL, NAMES_X } reading;

typedef struct inner {
    gw_tensor *x, *w;
    reading reading;
} inner;

static gw_tensor *walk_inside(gw_scope *s, gw_tensor *dy, void *context) {
    const inner *c = context;
    gw_scope *t = gw_scope_open(s);
    gw_enable_grad(t);
    gw_tensor *x = gw_requires_grad(t, gw_detach(t, c->x)), *y = gw_mul(t, x, c->w);
    if (c->reading == NAMES_X)
        gw_backward(s, y, .gradient = dy, .inputs = &x, .input_count = 1);
    else
        gw_backward(s, y, .gradient = dy);
    gw_tensor *dx = c->reading == READS_NONE ? NULL : gw_keep(s, gw_grad(s, x));
    if (c->reading == READS_ALL) gw_grad(s, c->w);
    gw_scope_close_up(t);
    return dx;
}

static void pass_with(reading r) {
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *w = gw_requires_grad(s, gw_ones(s, GW_F32, 2));
    inner c = { gw_ones(s, GW_F32, 2), w, r };
    gw_tensor *y = gw_requires_grad(s, gw_ones(s, GW_F32, 2));
    gw_register_hook(s, y, walk_inside, &c);
    gw_backward(s, gw_sum(s, y));
    gw_scope_close_up(s);
}

static const char *output_of(reading r) {
    static char text[1024];
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
        signal(SIGABRT, SIG_DFL);
        dup2(ends[1], STDERR_FILENO);
        check_enabled = true;
        pass_with(r);
        _exit(0);
    }
    close(ends[1]);
    ssize_t size = read(ends[0], text, sizeof text - 1);
    text[size > 0 ? size : 0] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return text;
}

static void unread_gradients_abort_a_checked_program(void **state) {
    (void)state;
    assert_non_null(
        strstr(output_of(READS_NONE), "a backward pass inside a hook left 2 gradients"));
    assert_non_null(strstr(output_of(READS_X), "a backward pass inside a hook left 1 gradients"));
}

static void gradients_that_are_read_or_named_do_not(void **state) {
    (void)state;
    assert_string_equal(output_of(READS_ALL), "");
    assert_string_equal(output_of(NAMES_X), "");
}

GW_TESTS(autograd_inner_pass, unread_gradients_abort_a_checked_program,
         gradients_that_are_read_or_named_do_not);
