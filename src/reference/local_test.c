#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <string.h>

typedef struct local_box {
    int64_t n;
} local_box;

typedef struct local_other {
    int64_t n;
} local_other;

GW_CLASS(local_box, local_box_open);
GW_CLASS(local_other, local_other_open);

static void local_box_open(gw_scope *own, local_box *self, const gw_args *a) {
    (void)own, (void)a;
    self->n = 7;
}

static void local_other_open(gw_scope *own, local_other *self, const gw_args *a) {
    (void)own, (void)a;
    self->n = 8;
}

static void expect(gw_scope *s, gw_status status, const char *text) {
    assert_string_equal(gw_scope_error(s)->text, text);
    assert_int_equal(gw_scope_error(s)->status, status);
    gw_scope_clear(s);
}

static void enter(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_rref *box = gw_remote(root, 0, "local_box"), *far = gw_remote(root, 1, "local_box");
    gw_scope *s = gw_scope_open(root);
    assert_int_equal(gw_local(s, box, local_box)->n, 7);
    assert_null(gw_local(s, box, local_other));
    expect(s, GW_INVALID, "gw_local: the reference is to a local_box, not to a local_other");
    assert_null(gw_local(s, far, local_box));
    expect(s, GW_INVALID, "the reference is to a value of w1, not of w0");
    assert_null(gw_local(s, gw_rref_open(s, 3), local_box));
    expect(s, GW_INVALID, "the reference is to a value, not to an object with methods");
    gw_rref_local_value(s, box);
    expect(s, GW_INVALID, "the reference is to a local_box, an object: use gw_local for it");
    gw_to_here_value(s, gw_remote(s, 0, "local_never"));
    assert_int_equal(gw_scope_error(s)->status, GW_NOT_FOUND);
    gw_scope_clear(s);
    gw_scope_close_up(s);
}

static void it_enters_objects_of_this_worker_and_of_the_class(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 2 }, enter, NULL);
}

GW_TESTS(reference_local, it_enters_objects_of_this_worker_and_of_the_class);
