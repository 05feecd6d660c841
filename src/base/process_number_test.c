#include "base/process_number.h"

#include "base/mem.h"
#include "base/scope.h"
#include "testing/testing.h"

#include <gradwire/binding.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct thing {
    gw_handle handle;
    int *gone;
} thing;

static void destroy_thing(gw_handle *h) {
    ++*((thing *)h)->gone;
    mem_free(h);
}

static const handle_class thing_class = { .name = "thing", .destroy = destroy_thing };

static thing *thing_open(gw_scope *s, int *gone) {
    thing *t = mem_alloc(sizeof *t);
    assert_non_null(t);
    handle_init(&t->handle, &thing_class);
    t->gone = gone;
    return scope_own(s, t);
}

typedef struct inherited {
    gw_scope *outer, *inner;
    thing *in_outer, *in_inner;
    gw_handle *retained;
    int gone;
} inherited;

static inherited make(void) {
    inherited x = { .outer = gw_scope_open(NULL) };
    x.inner = gw_scope_open(x.outer);
    return x;
}

static void fill(inherited *x) {
    x->in_outer = thing_open(x->outer, &x->gone);
    x->in_inner = thing_open(x->inner, &x->gone);
    gw_scope *s = gw_scope_open(NULL);
    x->retained = gw_retain_handle(&thing_open(s, &x->gone)->handle);
    gw_scope_close_up(s);
}

// The exit code of a process that fork makes, and in which |run| returns true.
static int run_in_child(bool (*run)(inherited *x), inherited *x) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) _exit(run(x) ? 3 : 1);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static bool ends_nothing(inherited *x) {
    gw_release_handle(x->retained);
    gw_drop_handle(x->inner, &x->in_inner->handle);
    gw_fail(x->inner, GW_INVALID, "wrong");
    gw_scope_close_up(x->inner);
    gw_error e = gw_scope_close(x->outer);
    return gw_rpc_is_forked() && !x->gone && !e.status && gw_ok(x->outer);
}

static bool ends_its_own(inherited *x) {
    int own = 0;
    gw_scope *s = gw_scope_open(x->outer), *t = gw_scope_open(NULL);
    thing *dropped = thing_open(s, &own);
    thing_open(s, &own);
    thing_open(t, &own);
    gw_drop_handle(s, &dropped->handle);
    gw_scope_close_up(s);
    gw_scope_close_up(t);
    return own == 3 && !x->gone;
}

static void a_forked_process_releases_nothing_of_its_parent(void **state) {
    (void)state;
    process_number_count();
    assert_false(gw_rpc_is_forked());
    inherited x = make();
    fill(&x);
    assert_int_equal(run_in_child(ends_nothing, &x), 3);
    assert_int_equal(run_in_child(ends_its_own, &x), 3);
    assert_int_equal(x.gone, 0);
    gw_release_handle(x.retained);
    assert_int_equal(x.gone, 1);
    gw_scope_close_up(x.outer);
    assert_int_equal(x.gone, 3);
}

static bool ends_all(inherited *x) {
    gw_release_handle(x->retained);
    gw_scope_close_up(x->outer);
    return !gw_rpc_is_forked() && x->gone == 3;
}

static void a_process_forked_before_it_joins_a_job_is_not_restricted(void **state) {
    (void)state;
    inherited x = make();
    fill(&x);
    assert_int_equal(run_in_child(ends_all, &x), 3);
    gw_release_handle(x.retained);
    gw_scope_close_up(x.outer);
}

static bool is_forked_again(inherited *x) {
    gw_scope *s = gw_scope_open(NULL);
    inherited y = { .outer = s, .inner = gw_scope_open(s) };
    fill(&y);
    (void)x;
    return run_in_child(ends_nothing, &y) == 3;
}

static void each_fork_counts(void **state) {
    (void)state;
    process_number_count();
    inherited x = { 0 };
    assert_int_equal(run_in_child(is_forked_again, &x), 3);
}

GW_TESTS(base_process_number, a_forked_process_releases_nothing_of_its_parent,
         a_process_forked_before_it_joins_a_job_is_not_restricted, each_fork_counts);
