// The functions of gradwire/elastic.h on a job of one worker, and arguments that are refused.
#include "base/log.h"
#include "collective/group/group.h"
#include "elastic/elastic.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct alone {
    gw_scope *root;
    gw_module *model;
    gw_optimizer *opt;
} alone;

static alone open_alone(void) {
    alone a = { .root = gw_scope_open(NULL) };
    gw_rpc_init(a.root, .rank = 0, .world_size = 1);
    a.model = gw_nn_linear(a.root, 2, 1);
    a.opt = gw_sgd(a.root, gw_parameters(a.root, a.model), .lr = 0.1);
    assert_string_equal(gw_scope_error(a.root)->text, "");
    return a;
}

static void expect(alone a, gw_status status, const char *text) {
    const gw_error *e = gw_scope_error(a.root);
    if (e->status != status || !strstr(e->text, text))
        fail_msg("\"%s\" (%s) instead of \"%s\"", e->text, gw_status_name(e->status), text);
    gw_scope_clear(a.root);
}

static void close_alone(alone a) {
    gw_rpc_shutdown(a.root);
    assert_string_equal(gw_scope_close(a.root).text, "");
}

static void take_step(gw_scope *s, alone a) {
    gw_backward(s, gw_sum(s, gw_module_call(s, a.model, gw_ones(s, GW_F32, 1, 2))));
    gw_optimizer_step(s, a.opt);
}

static void one_worker_makes_all_steps(void **state) {
    (void)state;
    alone a = open_alone();
    gw_elastic *job = gw_elastic_open(a.root, a.model, a.opt, .steps = 3);
    int steps = 0;
    for (gw_scope *s; (s = gw_elastic_begin(a.root, job)); steps++) {
        assert_int_equal(gw_elastic_step(job), steps);
        take_step(s, a);
        assert_true(gw_elastic_end(job, s));
    }
    assert_int_equal(steps, 3);
    assert_int_equal(gw_elastic_get_reason(job), GW_FINISHED);
    assert_int_equal(gw_elastic_rank(job), 0);
    assert_int_equal(gw_elastic_size(job), 1);
    assert_null(gw_elastic_begin(a.root, job));
    gw_elastic_close(a.root, job);
    gw_elastic_close(a.root, job);
    assert_int_equal(gw_elastic_step(job), 3);
    close_alone(a);
}

static void options_that_cannot_be_are_refused(void **state) {
    (void)state;
    alone a = open_alone();
    gw_scope *r = a.root;
#define REFUSED(text, ...)                                                                         \
    gw_elastic_open(r, a.model, a.opt, __VA_ARGS__);                                               \
    expect(a, GW_INVALID, text)
    REFUSED(".steps is 0, but must be at least 1", .min = 1);
    REFUSED(".min is -1, but must be at least 0", .steps = 1, .min = -1);
    REFUSED(".min is 2, but the job begins with 1 members", .steps = 1, .min = 2);
    REFUSED(".size is -2, but must be at least 0", .steps = 1, .size = -2);
    REFUSED(".keep is 0, but must be at least 1", .steps = 1, .keep = 0);
    REFUSED(".every_ms is -1,", .steps = 1, .every_ms = -1);
    REFUSED(".every_steps is -1,", .steps = 1, .every_steps = -1);
    REFUSED(".meet_every is 0,", .steps = 1, .meet_every = 0);
    REFUSED(".timeout_ms is -1,", .steps = 1, .timeout_ms = -1);
    REFUSED(".name is empty", .steps = 1, .name = "");
    REFUSED(".on_term is 7, which is not a gw_on_term", .steps = 1, .on_term = (gw_on_term)7);
    REFUSED(".save and .load are set together", .steps = 1, .save = (gw_elastic_save *)1);
#undef REFUSED
    gw_elastic *none = gw_elastic_open(r, NULL, a.opt, .steps = 1);
    expect(a, GW_INVALID, "gw_elastic_open: model is NULL");
    gw_module *other = gw_nn_linear(a.root, 2, 1);
    gw_elastic_open(a.root, a.model, gw_sgd(a.root, gw_parameters(a.root, other), .lr = 0.1),
                    .steps = 1);
    expect(a, GW_INVALID,
           "gw_elastic_open: the optimizer has 2 parameters, of which 2 are not parameters of the "
           "model");
    assert_null(gw_elastic_begin(r, none));
    expect(a, GW_INVALID, "gw_elastic_begin: the job could not be opened");
    assert_null(gw_elastic_begin(r, NULL));
    expect(a, GW_INVALID, "gw_elastic_begin: job is NULL");
    assert_int_equal(gw_elastic_size(none), 1);
    assert_int_equal(gw_elastic_get_reason(none), GW_FAILED);
    gw_elastic_close(r, NULL);
    expect(a, GW_INVALID, "gw_elastic_close: job is NULL");
    close_alone(a);
}

static void steps_that_do_not_follow_the_loop_are_refused(void **state) {
    (void)state;
    alone a = open_alone();
    gw_elastic *job = gw_elastic_open(a.root, a.model, a.opt, .steps = 9);
    assert_false(gw_elastic_end(job, a.root));
    expect(a, GW_WRONG_STATE, "gw_elastic_end: no step has begun");
    gw_scope *s = gw_elastic_begin(a.root, job);
    assert_non_null(s);
    assert_false(gw_elastic_end(job, a.root));
    expect(a, GW_INVALID, "gw_elastic_end: this is not the scope of the step");
    take_step(s, a);
    assert_true(gw_elastic_end(job, s));
    s = gw_elastic_begin(a.root, job);
    assert_false(gw_elastic_end(job, s));
    expect(a, GW_INVALID, "gw_elastic_end: step 1 has called gw_optimizer_step 0 times, not once");
    s = gw_elastic_begin(a.root, job);
    take_step(s, a);
    take_step(s, a);
    assert_false(gw_elastic_end(job, s));
    expect(a, GW_INVALID, "gw_elastic_end: step 1 has called gw_optimizer_step 2 times, not once");
    s = gw_elastic_begin(a.root, job);
    gw_ddp_no_sync(s);
    take_step(s, a);
    assert_false(gw_elastic_end(job, s));
    expect(a, GW_INVALID, "gw_elastic_end: step 3 has made no backward pass of the replicas");
    s = gw_elastic_begin(a.root, job);
    assert_null(gw_elastic_begin(a.root, job));
    expect(a, GW_WRONG_STATE, "gw_elastic_begin: step 4 has not ended");
    assert_int_equal(gw_elastic_get_reason(job), GW_FAILED);
    gw_elastic_close(a.root, job);
    expect(a, GW_WRONG_STATE, "gw_elastic_close: step 4 has not ended");
    close_alone(a);
}

static void only_gw_elastic_end_closes_the_scope_of_a_step(void **state) {
    (void)state;
    alone a = open_alone();
    gw_elastic *job = gw_elastic_open(a.root, a.model, a.opt, .steps = 2);
    gw_scope *s = gw_elastic_begin(a.root, job);
    take_step(s, a);
    gw_error e = gw_scope_close(s);
    assert_int_equal(e.status, GW_WRONG_STATE);
    assert_non_null(
        strstr(e.text, "this scope stays open: the function that ends its step closes it"));
    gw_scope_close_up(s);
    assert_true(gw_ok(s) && gw_ok(a.root));
    assert_true(gw_elastic_end(job, s));
    s = gw_elastic_begin(a.root, job);
    assert_int_equal(gw_elastic_step(job), 1);
    gw_scope_close_up(s);
    assert_null(gw_elastic_begin(a.root, job));
    expect(a, GW_WRONG_STATE, "gw_elastic_begin: step 1 has not ended");
    gw_elastic_close(a.root, job);
    expect(a, GW_WRONG_STATE, "gw_elastic_close: step 1 has not ended");
    close_alone(a);
}

static void a_job_is_opened_once_for_a_model(void **state) {
    (void)state;
    alone a = open_alone();
    gw_elastic *job = gw_elastic_open(a.root, a.model, a.opt, .steps = 9);
    gw_elastic_open(a.root, a.model, a.opt, .steps = 9, .name = "others");
    expect(a, GW_DUPLICATE, "");
    gw_module *other = gw_nn_linear(a.root, 2, 1);
    gw_optimizer *opt = gw_sgd(a.root, gw_parameters(a.root, other), .lr = 0.1);
    gw_elastic_open(a.root, other, opt, .steps = 9);
    expect(a, GW_DUPLICATE, " has another open job \"trainers\": each needs a .name of its own");
    gw_elastic *second = gw_elastic_open(a.root, other, opt, .steps = 9, .name = "others");
    assert_true(gw_ok(a.root));
    gw_elastic_close(a.root, second);
    gw_elastic_close(a.root, job);
    close_alone(a);
}

// A step that fails since a worker is lost which is no member fails again and again.
static void a_lost_worker_that_is_no_member_fails_the_third_step(void **state) {
    (void)state;
    alone a = open_alone();
    gw_elastic *job = gw_elastic_open(a.root, a.model, a.opt, .steps = 9);
    int tries = 0;
    for (gw_scope *s; (s = gw_elastic_begin(a.root, job)); tries++) {
        gw_fail(s, GW_DISCONNECTED, "the parameter server is gone");
        assert_false(gw_elastic_end(job, s));
        assert_true(gw_ok(a.root));
    }
    assert_int_equal(tries, 3);
    expect(a, GW_DISCONNECTED, "the parameter server is gone");
    gw_elastic_close(a.root, job);
    close_alone(a);
}

static void a_member_leaves_when_it_is_asked_to(void **state) {
    (void)state;
    alone a = open_alone();
    gw_elastic *job = gw_elastic_open(a.root, a.model, a.opt, .steps = 9);
    gw_scope *s = gw_elastic_begin(a.root, job);
    gw_elastic_leave(job);
    take_step(s, a);
    assert_true(gw_elastic_end(job, s));
    assert_null(gw_elastic_begin(a.root, job));
    assert_int_equal(gw_elastic_get_reason(job), GW_LEAVING);
    assert_int_equal(gw_elastic_step(job), 1);
    gw_elastic_close(a.root, job);
    close_alone(a);
}

static void a_request_to_leave_is_observed_at_once(void **state) {
    (void)state;
    for (int by_signal = 0; by_signal < 2; by_signal++) {
        alone a = open_alone();
        gw_elastic *job = gw_elastic_open(a.root, a.model, a.opt, .steps = 9);
        gw_scope *s = gw_elastic_begin(a.root, job);
        gw_future *asked = gw_elastic_asked(s, job);
        assert_false(gw_elastic_leaving(job) || gw_future_done(asked));
        if (by_signal)
            raise(SIGTERM);
        else
            gw_elastic_leave(job);
        assert_true(gw_elastic_leaving(job));
        gw_wait(s, asked);
        assert_true(gw_ok(s));
        take_step(s, a);
        assert_true(gw_elastic_end(job, s));
        assert_null(gw_elastic_begin(a.root, job));
        assert_int_equal(gw_elastic_get_reason(job), GW_LEAVING);
        gw_elastic_close(a.root, job);
        close_alone(a);
    }
}

static void a_wait_for_a_request_to_leave_ends_with_the_job(void **state) {
    (void)state;
    alone a = open_alone();
    gw_elastic *job = gw_elastic_open(a.root, a.model, a.opt, .steps = 9);
    gw_future *asked = gw_elastic_asked(a.root, job);
    gw_elastic_close(a.root, job);
    gw_wait(a.root, asked);
    expect(a, GW_CANCELLED, "the elastic job has closed");
    gw_elastic_asked(a.root, NULL);
    expect(a, GW_INVALID, "gw_elastic_asked: job is NULL");
    close_alone(a);
}

// ---- Checkpoints ----------------------------------------------------------------------------------

static int64_t position;

static gw_map *save(gw_scope *s, void *context) {
    (void)context;
    gw_map *state = gw_map_open(s);
    gw_map_put(s, state, "position", position);
    return state;
}

static void load(gw_scope *s, void *context, gw_map *state) {
    (void)context;
    position = gw_int_of(s, gw_map_get(s, state, "position"));
}

// Makes steps up to |until|, and returns the first one.
static int64_t train_until(const char *folder, int64_t until, float *out_weight) {
    alone a = open_alone();
    gw_elastic *job = gw_elastic_open(a.root, a.model, a.opt, .steps = 9, .checkpoint = folder,
                                      .every_steps = 2, .every_ms = 0, .save = save, .load = load);
    assert_string_equal(gw_scope_error(a.root)->text, "");
    int64_t first = gw_elastic_step(job);
    for (gw_scope *s; gw_elastic_step(job) < until && (s = gw_elastic_begin(a.root, job));) {
        take_step(s, a);
        assert_true(gw_elastic_end(job, s));
        position += 10;
    }
    *out_weight = *(const float *)gw_data(gw_module_parameter_at(a.root, a.model, 0));
    gw_elastic_close(a.root, job);
    close_alone(a);
    return first;
}

static void a_job_continues_with_its_newest_checkpoint(void **state) {
    (void)state;
    char folder[] = "/tmp/gradwire-elastic-XXXXXX", command[64];
    float first, again, whole;
    assert_non_null(mkdtemp(folder));
    position = 0;
    assert_int_equal(train_until(NULL, 9, &whole), 0);
    position = 0;
    assert_int_equal(train_until(folder, 6, &first), 0);  // checkpoints of 2 and 4
    position = 0;
    assert_int_equal(train_until(folder, 9, &again), 4);
    assert_int_equal(position, 90);
    assert_memory_equal(&again, &whole, sizeof whole);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
}

static void a_checkpoint_of_another_model_is_refused(void **state) {
    (void)state;
    char folder[] = "/tmp/gradwire-elastic-XXXXXX", command[64];
    float weight;
    assert_non_null(mkdtemp(folder));
    train_until(folder, 3, &weight);
    alone a = open_alone();
    gw_module *model = gw_nn_linear(a.root, 3, 1);
    gw_optimizer *opt = gw_sgd(a.root, gw_parameters(a.root, model), .lr = 0.1);
    gw_elastic_open(a.root, model, opt, .steps = 9, .checkpoint = folder);
    expect(a, GW_INVALID, "gw_elastic_open: the newest checkpoint: ");
    close_alone(a);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
}

// ---- Shares ---------------------------------------------------------------------------------------

static gw_share share_of(int rank, int size, int64_t count) {
    gw_group g = { .self = rank, .count = size };
    gw_elastic job = { .group = &g };
    return gw_elastic_share(&job, count);
}

static void shares_are_a_whole_batch_and_its_mean(void **state) {
    (void)state;
    for (int size = 1; size <= 5; size++) {
        for (int64_t count = 0; count <= 12; count++) {
            int64_t next = 0, least = 99, most = 0;
            double mean = 0;
            for (int rank = 0; rank < size; rank++) {
                gw_share part = share_of(rank, size, count);
                assert_int_equal(part.first, count ? next : 0);
                next += part.count;
                if (part.count < least) least = part.count;
                if (part.count > most) most = part.count;
                mean += part.weight / size;
                if (count && count % size == 0) assert_true(part.weight == 1);
            }
            assert_int_equal(next, count);
            assert_true(most - least <= 1);
            assert_true(!count || (mean > 1 - 1e-9 && mean < 1 + 1e-9));
        }
    }
}

static void a_job_without_replicas_has_requests_and_no_steps(void **state) {
    (void)state;
    alone a = open_alone();
    gw_elastic *job = gw_elastic_join(a.root);
    assert_int_equal(gw_elastic_get_reason(job), GW_RUNNING);
    assert_int_equal(gw_elastic_step(job), 0);
    assert_int_equal(gw_elastic_size(job), 1);
    assert_null(gw_elastic_begin(a.root, job));
    expect(a, GW_WRONG_STATE, "gw_elastic_begin: a job of gw_elastic_join has no replicas");
    gw_elastic_join(a.root);
    expect(a, GW_DUPLICATE, "gw_elastic_join: ");
    gw_future *asked = gw_elastic_asked(a.root, job);
    assert_false(gw_elastic_leaving(job));
    raise(SIGTERM);
    gw_wait(a.root, asked);
    assert_true(gw_elastic_leaving(job));
    gw_elastic_close(a.root, job);
    assert_int_equal(gw_elastic_get_reason(job), GW_LEAVING);
    gw_elastic_close(a.root, job);
    close_alone(a);
}

static void options_of_a_job_without_replicas_are_checked(void **state) {
    (void)state;
    alone a = open_alone();
    gw_elastic *none = gw_elastic_join(a.root, .timeout_ms = -1);
    expect(a, GW_INVALID, "gw_elastic_join: .timeout_ms is -1, but must be at least 0");
    gw_elastic_join(a.root, .on_term = (gw_on_term)7);
    expect(a, GW_INVALID, "gw_elastic_join: .on_term is 7, which is not a gw_on_term");
    assert_int_equal(gw_elastic_get_reason(none), GW_FAILED);
    close_alone(a);
}

GW_TESTS(elastic, a_job_without_replicas_has_requests_and_no_steps,
         options_of_a_job_without_replicas_are_checked,
         only_gw_elastic_end_closes_the_scope_of_a_step, a_request_to_leave_is_observed_at_once,
         a_wait_for_a_request_to_leave_ends_with_the_job, one_worker_makes_all_steps,
         options_that_cannot_be_are_refused, steps_that_do_not_follow_the_loop_are_refused,
         a_job_is_opened_once_for_a_model, a_lost_worker_that_is_no_member_fails_the_third_step,
         a_member_leaves_when_it_is_asked_to, a_job_continues_with_its_newest_checkpoint,
         a_checkpoint_of_another_model_is_refused, shares_are_a_whole_batch_and_its_mean);
