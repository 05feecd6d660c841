#include "board.h"

#include <stdio.h>

GW_CLASS(board, board_open, board_close, NULL);

static void board_open(gw_scope *own, board *self, const gw_args *a) {
    (void)a;
    self->own = own;
    self->end = gw_future_open(own);
    curve_open(
        &self->progress, stdout,
        (curve_options){ .title = "test accuracy", .x_label = "epoch", .max = 1, .goal = 0.97 });
}

static void board_close(board *self) {
    curve_close(&self->progress);
}

gw_rref *board_start(gw_scope *root) {
    gw_rref *me = gw_remote(root, gw_rpc_self(root), "board");
    gw_rref_set_name(root, me, "board");
    return me;
}

static bool is_number(const board *self, int64_t number) {
    return number >= 1 && number <= self->started;
}

// The oldest trainer is the founder of the group.
static void kill_oldest(board *self) {
    int number = 1;
    while (number < self->started && !self->workers[number].process) number++;
    if (!self->workers[number].process) return;
    printf("worker%d is killed\n", number);
    gw_process_kill(self->workers[number].process);
    self->killed++;
}

static bool is_kill_due(const board *self) {
    const options *o = self->o;
    return self->killed < o->losses && self->size == o->world_size &&
           self->epoch >= (self->killed + 1) * o->epochs / (o->losses + 1);
}

// All trainers call this when they have a group, and after each epoch: number, epoch, members, test accuracy. The first
// report of an epoch counts.
GW_METHOD(board, report, GW_INLINE, "int, int, int, float") {
    int64_t number = gw_arg_int(s, a, 0), epoch = gw_arg_int(s, a, 1), size = gw_arg_int(s, a, 2);
    if (!gw_ok(s) || !is_number(self, number)) return gw_none();
    worker *w = &self->workers[number];
    if (!w->has_reported) {
        printf("worker%d is admitted: %d members\n", (int)number, (int)size);
        self->admitted += number > self->o->world_size;
    }
    w->has_reported = self->has_group = true;
    if (epoch <= self->epoch) return gw_none();
    self->epoch = epoch;
    self->size = size;
    self->accuracy = gw_arg_float(s, a, 3);
    const char *line = gw_format(s, "epoch %3d  %d members  test accuracy %.2f %%", (int)epoch,
                                 (int)size, self->accuracy * 100);
    curve_add(&self->progress, self->accuracy, line);
    if (epoch % 5 == 0) curve_print(&self->progress, line);
    if (is_kill_due(self)) kill_oldest(self);
    return gw_none();
}

// Each trainer calls this at the end: number, hash of its weights.
GW_METHOD(board, finish, GW_INLINE, "int, int") {
    int64_t number = gw_arg_int(s, a, 0);
    if (!gw_ok(s) || !is_number(self, number)) return gw_none();
    self->workers[number].has_finished = true;
    self->workers[number].hash = gw_arg_int(s, a, 1);
    board_consider(s, self);
    return gw_value_of(self->end);
}

void board_consider(gw_scope *s, board *self) {
    int finished = 0;
    for (int i = 1; i <= self->started; i++) {
        if (self->workers[i].process && !self->workers[i].has_finished) return;
        finished += self->workers[i].has_finished;
    }
    if (finished && !gw_future_done(self->end)) gw_future_set(s, self->end, true);
}

void board_conclude(gw_scope *s, board *self) {
    int first = 0, count = 0;
    for (int i = 1; i <= self->started; i++) {
        if (!self->workers[i].has_finished) continue;
        if (!first) first = i;
        count++;
        if (self->workers[i].hash != self->workers[first].hash)
            gw_fail(s, GW_INVALID, "worker%d has other weights than worker%d", i, first);
    }
    if (self->progress.count != self->o->epochs)
        gw_fail(s, GW_INVALID, "%d of %d epochs were reported", self->progress.count,
                (int)self->o->epochs);
    if (!gw_ok(s)) return;
    printf("%d lost, %d admitted: %.2f %% of the test digits after %d epochs\n", self->lost,
           self->admitted, self->accuracy * 100, self->progress.count);
    printf("%d members have the same weights, %016llx\n", count,
           (unsigned long long)self->workers[first].hash);
}
