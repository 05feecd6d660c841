#include "server.h"

#include "../common/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

GW_CLASS(server, server_open);  // width, lr

static void server_open(gw_scope *own, server *self, const gw_args *a) {
    self->own = own;
    self->width = gw_arg_int(own, a, 0);
    self->model = digits_model(own, self->width);
    self->optimizer = gw_sgd(own, gw_parameters(own, self->model), .lr = gw_arg_float(own, a, 1));
}

// ---- Members ------------------------------------------------------------------------------------

gw_rref *server_start(gw_scope *root, const options *o) {
    int64_t width = 1;
    while (digits_model_parameters(width) < o->parameters) width++;
    gw_rref *me = gw_remote(root, gw_rpc_self(root), "server", width, o->lr);
    gw_rref_set_name(root, me, "server");  // clients find it so
    return me;
}

// Clients call this to become members.
GW_METHOD(server, enlist, GW_INLINE, "rref, int") {
    if (self->member_count + self->dismissal_count == MEMBERS_MAX) {
        gw_fail(s, GW_LIMIT, "%d clients are enlisted already", MEMBERS_MAX);
        return gw_none();
    }
    member *m = &self->members[self->member_count++];
    *m = (member){ .client = gw_keep(self->own, gw_arg_rref(s, a, 0)),
                   .number = gw_arg_int(s, a, 1),
                   .dismissal = gw_future_open(self->own),
                   .name = gw_arg_caller(a).name };
    printf("%s joins\n", m->name);
    if (self->arrival && !gw_future_done(self->arrival)) gw_future_set(s, self->arrival, true);
    return gw_none();
}

// Clients call this; it resolves when the caller is dismissed.
GW_METHOD(server, await_dismissal, GW_INLINE, "") {
    const char *name = gw_arg_caller(a).name;
    for (int i = 0; i < self->member_count; i++)
        if (strcmp(self->members[i].name, name) == 0)
            return gw_value_of(self->members[i].dismissal);
    return gw_none();
}

static bool is_enlisted(const server *self, int64_t number) {
    for (int i = 0; i < self->member_count; i++)
        if (self->members[i].number == number) return true;
    return false;
}

void server_await(gw_scope *s, server *self, int64_t number, gw_process *process,
                  int64_t timeout_s) {
    gw_scope *wait = gw_scope_open(s);
    gw_scope_label(wait, "waiting for client%d", (int)number);
    gw_scope_set_timeout(wait, timeout_s * 1000);
    while (!is_enlisted(self, number) && gw_ok(wait)) {
        gw_set(self->own, &self->arrival, gw_future_open(self->own));
        gw_future *either[] = { self->arrival, gw_process_ended(process) };
        // While this waits, the loop serves calls of clients.
        if (gw_wait_any(wait, either, process ? 2 : 1) != 1 || is_enlisted(self, number)) continue;
        int code = (int)gw_int_of(wait, gw_wait(wait, either[1]));
        if (code < 128) gw_fail(wait, GW_REMOTE, "client%d exited with code %d", (int)number, code);
        if (gw_ok(wait)) printf("client%d is lost: killed by signal %d\n", (int)number, code - 128);
        break;
    }
    gw_scope_close_up(wait);
}

static int by_number(const void *a, const void *b) {
    const member *left = a, *right = b;
    return left->number < right->number ? -1 : left->number > right->number;
}

void server_dismiss(server *self, int index) {
    member dismissed = self->members[index];
    memmove(&self->members[index], &self->members[index + 1],
            (size_t)(--self->member_count - index) * sizeof dismissed);
    gw_drop(self->own, dismissed.client);  // the object lives in the process of the client
    self->dismissals[self->dismissal_count++] = dismissed.dismissal;
}

void server_farewell(gw_scope *s, server *self) {
    while (self->dismissal_count > 0) {
        gw_future *dismissal = self->dismissals[--self->dismissal_count];
        gw_future_set(s, dismissal, true);
        gw_drop(self->own, dismissal);
    }
}

// ---- Rounds -------------------------------------------------------------------------------------

// Sum of numbers times the number of digits they are computed from.
typedef struct average {
    gw_tensor **sums;
    int64_t count;  // digits
    double loss_sum;
} average;

static void add_answer(gw_scope *s, average *total, gw_map *answer, round_report *report) {
    gw_scope *one = gw_scope_open(s);
    gw_list *numbers = gw_list_of(one, gw_map_get(one, answer, "numbers"));
    int64_t count = gw_int_of(one, gw_map_get(one, answer, "count"));
    double seconds = gw_float_of(one, gw_map_get(one, answer, "seconds"));
    total->loss_sum += (double)count * gw_float_of(one, gw_map_get(one, answer, "loss"));
    for (int i = 0; i < gw_list_count(numbers) && gw_ok(one); i++) {
        gw_tensor *x = gw_tensor_of(one, gw_list_get(one, numbers, i));
        gw_tensor *weighted = gw_mul(one, x, (double)count);
        gw_set(s, &total->sums[i], total->count ? gw_add(one, total->sums[i], weighted) : weighted);
    }
    total->count += count;
    report->updates++;
    if (seconds > report->computing_s) report->computing_s = seconds;
    gw_scope_close_up(one);
}

// New weights are the average of the received weights (FedAvg), or a step along the average gradient (FedSGD).
static void improve(gw_scope *s, server *self, const average *total, bool is_gradient) {
    gw_list *means = gw_list_open(s);
    for (int i = 0; i < gw_module_parameter_count(self->model); i++)
        gw_list_add(s, means, gw_div(s, total->sums[i], (double)total->count));
    if (is_gradient) {
        gradients_add(s, self->model, means);
        gw_optimizer_step(s, self->optimizer);
    } else {
        weights_load(s, self->model, means);
    }
}

round_report server_round(gw_scope *s, server *self, const options *o,
                          void (*in_flight)(void *context), void *context) {
    round_report report = { 0 };
    int count = self->member_count;  // clients that enlist meanwhile join the next round
    if (!count) gw_fail(s, GW_DISCONNECTED, "no client is left");
    gw_future *answers[MEMBERS_MAX];
    gw_error errors[MEMBERS_MAX];
    gw_call_options call = GW_OPTIONS(gw_call_options, .timeout_ms = o->timeout_s * 1000);
    gw_list *weights = weights_of(s, self->model);
    // Sorted, so that sums do not depend on the order of arrival.
    qsort(self->members, (size_t)count, sizeof *self->members, by_number);
    for (int i = 0; i < count; i++)
        answers[i] = gw_rpc_async_with(s, gw_to(self->members[i].client), o->method,
                                       GW_ARGS(weights, o->epochs, o->batch, o->lr), call);
    if (in_flight) in_flight(context);

    average total = { .sums = gw_alloc(s, (size_t)gw_list_count(weights) * sizeof(gw_tensor *)) };
    for (int i = 0; i < count && gw_ok(s); i++) {
        gw_scope *one = gw_scope_open(s);
        gw_map *answer = gw_map_of(one, gw_wait(one, answers[i]));
        if (gw_ok(one)) add_answer(s, &total, answer, &report);
        errors[i] = gw_scope_close(one);
        gw_drop(s, answers[i]);
    }
    for (int i = count - 1; i >= 0 && gw_ok(s); i--) {
        if (errors[i].status == GW_OK) continue;
        printf("%s is lost: %s\n", self->members[i].name, errors[i].text);
        report.lost[report.lost_count++] = self->members[i].number;
        server_dismiss(self, i);
    }
    if (report.updates) improve(s, self, &total, strcmp(o->method, "sgd") == 0);
    server_farewell(s, self);
    report.loss = total.loss_sum / (double)(total.count ? total.count : 1);
    return report;
}
