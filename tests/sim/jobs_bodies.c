// The functions and classes of mixed workloads.
#include "base/map.h"
#include "jobs.h"
#include "testing/testing.h"

enum { MAGIC = 0x7e57ab1e };

void jobs_pause(gw_scope *s, int64_t ms) {
    gw_scope *t = gw_scope_open(s);
    gw_scope_set_timeout(t, ms + 1);  // 0 would be none
    gw_wait(t, gw_future_open(t));
    gw_error late = gw_scope_close(t);
    (void)late;
}

static int64_t begin(gw_scope *s, const gw_args *a) {
    int64_t call = gw_arg_int(s, a, 0);
    jobs_body_runs(s, call);
    return call;
}

// A call that the body of another makes.
static int64_t new_call_in(gw_scope *s, const gw_args *a) {
    int64_t call = jobs_new_call();
    jobs_depend(gw_arg_int(s, a, 0), call);
    return call;
}

// ---- Functions ----------------------------------------------------------------------------------

GW_FUNCTION(jobs_next, GW_INLINE, "int, int") {
    begin(s, a);
    return gw_value_of(gw_arg_int(s, a, 1) + 1);
}

GW_FUNCTION(jobs_next_slowly, GW_POOL, "int, int") {
    int64_t call = begin(s, a);
    if (call % 3) jobs_pause(s, call % 7);
    return gw_value_of(gw_arg_int(s, a, 1) + 1);
}

GW_FUNCTION(jobs_add, GW_INLINE, "int, int, int") {
    begin(s, a);
    return gw_value_of(gw_arg_int(s, a, 1) + gw_arg_int(s, a, 2));
}

GW_FUNCTION(jobs_fail, GW_POOL, "int") {
    begin(s, a);
    gw_fail(s, GW_REMOTE, "as requested");
    return gw_none();
}

// Ends when its call is cancelled.
GW_FUNCTION(jobs_spin, GW_POOL, "int, int, int") {
    begin(s, a);
    while (!gw_cancelled(s)) jobs_pause(s, 2);
    return gw_none();
}

GW_FUNCTION(jobs_never, GW_INLINE, "int") {
    begin(s, a);
    return gw_value_of(gw_member_lost(s, NULL, 0));
}

// Calls the next worker, which calls the next, |depth| deep.
GW_FUNCTION(jobs_chain, GW_POOL, "int, int, int") {
    begin(s, a);
    int64_t depth = gw_arg_int(s, a, 1), x = gw_arg_int(s, a, 2), call = new_call_in(s, a);
    gw_target to = gw_to_rank(jobs_choose_rank(s, hash_u64((uint64_t)(x + call))));
    gw_value v = depth > 0
                     ? JOBS_CALL(gw_rpc_sync, s, to, "jobs_chain", V(call), V(depth - 1), V(x))
                     : JOBS_CALL(gw_rpc_sync, s, to, "jobs_next", V(call), V(x));
    return gw_ok(s) ? gw_value_of(gw_int_of(s, v) + 1) : gw_none();
}

static gw_value add_one(gw_scope *s, gw_value v, void *context) {
    (void)context;
    return gw_value_of(gw_int_of(s, v) + 1);
}

// Returns a future, so that no thread waits for it.
GW_FUNCTION(jobs_later, GW_INLINE, "int, int, int") {
    begin(s, a);
    gw_future *f = JOBS_CALL(gw_rpc_async, s, gw_to_rank(gw_arg_int(s, a, 1)), "jobs_next_slowly",
                             V(new_call_in(s, a)), V(gw_arg_int(s, a, 2)));
    return gw_value_of(gw_then(s, f, add_one, NULL));
}

// ---- Values behind references -------------------------------------------------------------------

// The elements of its tensor are its number.
GW_FUNCTION(jobs_make, GW_POOL, "int, int") {
    int64_t call = begin(s, a);
    if (call % 4 == 0) jobs_pause(s, call % 5);
    return gw_value_of(gw_full(s, GW_I64, gw_arg_int(s, a, 1), 2));
}

static int64_t number_behind(gw_scope *s, gw_rref *r) {
    gw_value v = gw_to_here_value(s, r);
    // A reference to a reference.
    if (gw_ok(s) && v.kind == GW_RREF) v = gw_to_here_value(s, v.as.rref);
    return gw_ok(s) ? gw_item_int(s, gw_select(s, gw_tensor_of(s, v), 0, 1)) : 0;
}

GW_FUNCTION(jobs_read, GW_POOL, "int, rref") {
    begin(s, a);
    return gw_value_of(number_behind(s, gw_arg_rref(s, a, 1)));
}

GW_FUNCTION(jobs_read_list, GW_POOL, "int, list") {
    begin(s, a);
    gw_list *list = gw_arg_list(s, a, 1);
    int64_t sum = 0;
    for (int i = 0; i < gw_list_count(list); i++)
        sum += number_behind(s, gw_rref_of(s, gw_list_get(s, list, i)));
    return gw_value_of(sum);
}

GW_FUNCTION(jobs_read_through, GW_POOL, "int, rref, int") {
    begin(s, a);
    return JOBS_CALL(gw_rpc_sync, s, gw_to_rank(gw_arg_int(s, a, 2)), "jobs_read",
                     V(new_call_in(s, a)), V(gw_arg_rref(s, a, 1)));
}

GW_FUNCTION(jobs_same, GW_INLINE, "int, any") {
    begin(s, a);
    return gw_arg(s, a, 1);
}

// Takes references and does nothing with them.
GW_FUNCTION(jobs_ignore, GW_INLINE, "int, any") {
    begin(s, a);
    return gw_none();
}

// ---- Objects ------------------------------------------------------------------------------------

typedef struct jobs_shelf {
    int64_t magic;
    gw_scope *own;
    int thing;
    bool is_busy;
    int64_t sum;
    gw_rref *held[JOBS_HELD];
} jobs_shelf;

GW_CLASS(jobs_shelf, jobs_shelf_open, jobs_shelf_close, "int, int");

static void jobs_shelf_open(gw_scope *own, jobs_shelf *self, const gw_args *a) {
    int64_t call = begin(own, a);
    if (call % 3 == 0) jobs_pause(own, call % 5);
    if (gw_arg_int(own, a, 1)) {
        gw_fail(own, GW_REMOTE, "as requested");
        return;
    }
    self->magic = MAGIC;
    self->own = own;
    self->thing = jobs_open_thing(own);
}

static void jobs_shelf_close(jobs_shelf *self) {
    assert_int_equal(self->magic, MAGIC);
    jobs_close_thing(self->own, self->thing);
    self->magic = 0;
}

static void enter(gw_scope *s, jobs_shelf *self, const gw_args *a) {
    begin(s, a);
    assert_int_equal(self->magic, MAGIC);
    assert_false(self->is_busy);
    jobs_use_thing(s, self->thing);
    self->is_busy = true;
}

static gw_value leave(jobs_shelf *self, gw_value v) {
    assert_true(self->is_busy && self->magic == MAGIC);
    self->is_busy = false;
    return v;
}

GW_METHOD(jobs_shelf, put, GW_INLINE, "int, int, rref") {
    enter(s, self, a);
    gw_set(self->own, &self->held[gw_arg_int(s, a, 1)], gw_arg_rref(s, a, 2));
    return leave(self, gw_none());
}

GW_METHOD(jobs_shelf, get, GW_INLINE, "int, int") {
    enter(s, self, a);
    gw_rref *r = self->held[gw_arg_int(s, a, 1)];
    return leave(self, r ? gw_value_of(r) : gw_none());
}

// The body releases the turn while it waits, and takes it again afterwards.
GW_METHOD(jobs_shelf, count, GW_POOL, "int, int") {
    enter(s, self, a);
    int64_t call = gw_arg_int(s, a, 0), x = gw_arg_int(s, a, 1);
    self->sum += x;
    if (call % 2) {
        self->is_busy = false;
        jobs_pause(s, call % 4);
        assert_int_equal(self->magic, MAGIC);
        jobs_use_thing(s, self->thing);
        self->is_busy = true;
    }
    return leave(self, gw_value_of(self->sum));
}
