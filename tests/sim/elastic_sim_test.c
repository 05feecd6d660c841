// Elastic training in the simulator: members are lost, leave and join at every moment of a job, and those that are left
// finish all steps with equal weights, as if nothing had happened. docs/protocol/elastic.md.
#include "runtime/runtime.h"
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 6, FOUNDERS = 3, WORKERS_MAX = 5, BATCH = 7, LEAVING_MS = 50000 };

typedef struct scene scene;

// A worker and what it has seen; |job| is of the thread that runs it.
typedef struct worker {
    scene *scene;
    int node;
    int64_t joins_after_ms;   // -1: it is one of those that begin
    int leaves_at;            // the step in which it asks to leave; -1: none
    bool leaves_with_joiner;  // all leave in step 2, once a worker wants to join
    int differs_at;           // the step with .passes backward passes instead of one; 0: none
    int passes;               // -1: it fails there, before its pass
    int dies_at;              // the step in which its node crashes; 0: none
    int64_t steps;            // made when it has ended
    int failed_steps;
    gw_elastic_reason reason;
    double weights[10];
    int64_t opened_ns, over_ns;       // when it was a member, and ended its loop
    uint64_t last_began, last_ended;  // the decisions of the simulator around its last step
    int loaded, saved;                // calls of its functions
    int64_t kept;                     // the state of the program
    gw_error error;
    bool has_ended;
    gw_elastic *job;
    bool has_paused;    // at that moment
    bool never_joined;  // the job
    bool is_member;
} worker;

struct scene {
    sim *sim;
    uint64_t seed;
    int count;
    worker workers[WORKERS_MAX];
    int victims[2], victim_count;
    int64_t crash_ns, ended_ns;
    int64_t meet_every;
    bool keeps_program;
    bool has_hook;   // its passes carry no wishes
    int differs;     // the node that has another option, or model; 0: none
    bool has_model;  // the latter
    int min;
    const char *folder;  // of checkpoints, after each step; NULL: none
};

static bool is_dead(const worker *w) {
    return sim_is_crashed(w->scene->sim, w->node);
}

// ---- What each worker does ------------------------------------------------------------------------

static gw_module *make_model(gw_scope *s, double value, int64_t outputs) {
    gw_module *model = gw_nn_linear(s, 4, outputs);
    gw_scope *t = gw_scope_open(s);
    gw_no_grad(t);
    for (int i = 0; i < gw_module_parameter_count(model); i++)
        gw_fill_(t, gw_module_parameter_at(t, model, i), value);
    gw_scope_close_up(t);
    return model;
}

// The loss of samples |first| to |first| + |count| of the batch of |step|: all follow from the step.
static gw_tensor *loss_of(gw_scope *s, gw_module *model, int64_t step, int64_t first,
                          int64_t count) {
    float *x = gw_alloc(s, (size_t)count * 4 * sizeof *x + 1);
    for (int64_t i = 0; x && i < count * 4; i++)
        x[i] = (float)(((first * 4 + i) * 7919 + step * 10477) % 9973) / 9973 - 0.4F;
    gw_tensor *in = gw_reshape(s, gw_from(s, x, count * 4), count, 4);
    gw_tensor *out = gw_module_call(s, model, in);
    return gw_div(s, gw_sum(s, gw_mul(s, out, out)), (double)count);
}

static void take_share(gw_scope *s, const gw_elastic *job, gw_module *model, const worker *w) {
    int passes = w->differs_at && gw_elastic_step(job) == w->differs_at ? w->passes : 1;
    if (passes < 0) gw_fail(s, GW_INVALID, "there is no batch %d", w->differs_at);
    gw_share part = gw_elastic_share(job, BATCH);
    assert_true(part.count > 0);
    if (!passes) gw_ddp_no_sync(s);
    for (int i = 0; i < (passes > 0 ? passes : 1); i++) {
        gw_tensor *loss = loss_of(s, model, gw_elastic_step(job), part.first, part.count);
        gw_backward(s, gw_mul(s, loss, part.weight));
    }
}

static gw_map *save(gw_scope *s, void *context) {
    worker *w = context;
    gw_map *state = gw_map_open(s);
    gw_map_put(s, state, "kept", w->kept);
    w->saved++;
    return state;
}

static void load(gw_scope *s, void *context, gw_map *state) {
    worker *w = context;
    w->kept = gw_int_of(s, gw_map_get(s, state, "kept"));
    w->loaded++;
}

static void note_weights(gw_scope *s, worker *w, gw_module *model) {
    int at = 0;
    for (int i = 0; i < gw_module_parameter_count(model); i++) {
        gw_tensor *x = gw_module_parameter_at(s, model, i);
        const float *numbers = gw_data(x);
        for (int64_t k = 0; k < gw_numel(x); k++) w->weights[at++] = numbers[k];
    }
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
    assert_int_equal(at, 10);
}

// "steps count up by one": a step that is begun again has not been counted.
static void follow(const worker *w, int64_t step, int64_t *last) {
    if (is_dead(w)) return;
    if (*last >= 0 && step != *last && step != *last + 1)
        fail_msg("w%d: step %d follows step %d", w->node, (int)step, (int)*last);
    *last = step;
}

// A worker that joins a job under way may have made more steps by itself than the job: they do not count.
static void train_before(gw_scope *root, gw_module *model, gw_optimizer *opt) {
    for (int i = 0; i < STEPS + 3; i++) {
        gw_scope *s = gw_scope_open(root);
        gw_backward(s, loss_of(s, model, i, 0, BATCH));
        gw_optimizer_step(s, opt);
        gw_scope_close_up(s);
    }
}

static void leave_with_joiner(gw_scope *s, gw_elastic *job) {
    while (!gw_group_pending(gw_elastic_group(job)) && gw_ok(s)) cluster_pause_ms(s, 5);
    gw_elastic_leave(job);
}

static void learn(gw_scope *root, worker *w) {
    const scene *c = w->scene;
    bool is_other = w->node && w->node == c->differs;
    gw_module *model =
        make_model(root, w->joins_after_ms < 0 ? 0.5 : 9, is_other && c->has_model ? 3 : 2);
    gw_optimizer *opt = gw_sgd(root, gw_parameters(root, model), .lr = 0.7, .momentum = 0.9);
    if (c->workers[0].is_member && c->seed % 2) train_before(root, model, opt);
    bool keeps = c->keeps_program;
    gw_elastic *job = gw_elastic_open(
        root, model, opt, .steps = STEPS + (is_other && !c->has_model), .size = FOUNDERS,
        .min = c->min, .meet_every = c->meet_every, .save = keeps ? save : NULL,
        .load = keeps ? load : NULL, .context = w, .hook = c->has_hook ? gw_hook_all_reduce : NULL,
        .checkpoint = c->folder, .every_steps = c->folder ? 1 : 0);
    w->is_member = gw_elastic_group(job) != NULL;
    w->job = job;
    int64_t last = -1;
    w->opened_ns = sim_now_ns(c->sim);
    for (gw_scope *s; (s = gw_elastic_begin(root, job));) {
        int64_t step = gw_elastic_step(job);
        follow(w, step, &last);
        if (keeps && !is_dead(w)) assert_int_equal(w->kept, step);
        if (step == STEPS - 1) w->last_began = sim_count(c->sim).decisions;
        if (w->dies_at && step == w->dies_at) sim_crash(c->sim, w->node);
        if (step == w->leaves_at) gw_elastic_leave(job);
        if (step == 2 && w->leaves_with_joiner) leave_with_joiner(s, job);
        take_share(s, job, model, w);
        gw_optimizer_step(s, opt);
        bool counts = gw_elastic_end(job, s);
        w->last_ended = sim_count(c->sim).decisions;
        w->failed_steps += !counts;
        if (counts) w->kept = step + 1;
    }
    w->reason = gw_elastic_get_reason(job);
    w->steps = gw_optimizer_steps(opt);
    w->over_ns = sim_now_ns(c->sim);
    if (gw_ok(root)) note_weights(root, w, model);
    if (w->reason == GW_LEAVING)
        cluster_pause_ms(root, LEAVING_MS);  // the others do not wait for it
    w->job = NULL;
    gw_elastic_close(root, job);
}

static void run(void *arg) {
    worker *w = arg;
    gw_scope *root = gw_scope_open(NULL);
    cluster_join(root, sim_env(w->scene->sim, w->node), w->node);
    w->never_joined = !gw_ok(root);
    if (w->joins_after_ms > 0) cluster_pause_ms(root, w->joins_after_ms);
    if (gw_ok(root)) learn(root, w);
    if (w->reason == GW_FINISHED)
        gw_rpc_shutdown(root);
    else
        gw_rpc_leave(root);
    w->error = gw_scope_close(root);
    w->has_ended = true;
    if (!is_dead(w)) w->scene->ended_ns = sim_now_ns(w->scene->sim);
}

// ---- What is expected ------------------------------------------------------------------------------

static void compute_alone(double out[10]) {
    gw_scope *s = gw_scope_open(NULL);
    gw_module *model = make_model(s, 0.5, 2);
    gw_optimizer *opt = gw_sgd(s, gw_parameters(s, model), .lr = 0.7, .momentum = 0.9);
    for (int step = 0; step < STEPS; step++) {
        gw_scope *t = gw_scope_open(s);
        gw_backward(t, loss_of(t, model, step, 0, BATCH));
        gw_optimizer_step(t, opt);
        gw_scope_close_up(t);
    }
    worker w = { 0 };
    note_weights(s, &w, model);
    memcpy(out, w.weights, sizeof w.weights);
    assert_string_equal(gw_scope_close(s).text, "");
}

// Those that are alive have finished, with the weights of the batch as a whole, equal bit for bit.
static int expect_finished(const scene *c) {
    double alone[10];
    const worker *first = NULL;
    int finished = 0;
    compute_alone(alone);
    for (int i = 0; i < c->count; i++) {
        const worker *w = &c->workers[i];
        if (is_dead(w)) continue;
        if (c->differs && i == c->differs) continue;
        if (i >= FOUNDERS && w->never_joined) continue;  // it was too late
        if (w->error.status) fail_msg("w%d: %s", i, w->error.text);
        if (w->leaves_at >= 0) continue;
        assert_string_equal(gw_elastic_reason_name(w->reason), "finished");
        if (!w->is_member) continue;  // it was too late to join
        assert_int_equal(w->steps, STEPS);
        finished++;
        if (!first) first = w;
        assert_memory_equal(w->weights, first->weights, sizeof w->weights);
        for (int k = 0; k < 10; k++)
            if (fabs(w->weights[k] - alone[k]) > 1e-5)
                fail_msg("w%d: weight %d is %g, not %g", i, k, w->weights[k], alone[k]);
    }
    return finished;
}

static void crash(sim *s, void *context) {
    sim_crash(s, *(const int *)context);
}

// Runs |count| workers; those beyond FOUNDERS join later.
static void open_scene(scene *c, uint64_t seed, int count) {
    c->sim = sim_open(seed, (sim_options){ 0 });
    c->seed = seed;
    c->count = count;
    if (!c->meet_every) c->meet_every = 100;
    for (int i = 0; i < count; i++) {
        worker *w = &c->workers[i];
        w->scene = c;
        w->node = i;
        if (!w->joins_after_ms) w->joins_after_ms = -1;
        if (!w->leaves_at) w->leaves_at = -1;
        assert_true(sim_spawn(c->sim, i, run, w));
    }
}

static int play(scene *c) {
    assert_true(sim_run(c->sim, 3600 * SIM_SECOND));
    int finished = expect_finished(c);
    sim_close(c->sim);
    return finished;
}

// ---- Tests -----------------------------------------------------------------------------------------

static void take_all_steps(uint64_t seed, void *context) {
    (void)context;
    scene c = { 0 };
    open_scene(&c, seed, FOUNDERS);
    assert_int_equal(play(&c), FOUNDERS);
    for (int i = 0; i < FOUNDERS; i++) assert_int_equal(c.workers[i].failed_steps, 0);
}

static void members_train_as_one(void **state) {
    (void)state;
    testing_for_seeds(20, take_all_steps, NULL);
}

// The time that the job takes with this seed and these joins, without losses.
static int64_t measure(uint64_t seed, const scene *like, int count) {
    scene c = *like;
    open_scene(&c, seed, count);
    play(&c);
    return c.ended_ns;
}

// Any member at any moment, while members found the group too: a fourth worker completes it. But the one that founds it
// is needed until it has: then its launcher starts all again.
static void lose_some(uint64_t seed, void *context) {
    int losses = *(const int *)context;
    scene like = { .keeps_program = seed % 2 };
    for (int i = FOUNDERS; i < WORKERS_MAX; i++)
        like.workers[i].joins_after_ms = 1 + (int64_t)(seed * 13 + (uint64_t)i * 7) % 40;
    int64_t took_ns = measure(seed, &like, WORKERS_MAX);
    scene c = like;
    open_scene(&c, seed, WORKERS_MAX);
    uint64_t random = seed * 2654435761U;
    for (int i = 0; i < losses; i++) {
        c.victims[i] = 1 + (int)((seed + (uint64_t)i) % (FOUNDERS - 1));
        int64_t at_ns = (int64_t)(random % (uint64_t)took_ns);
        assert_true(sim_at(c.sim, at_ns, crash, &c.victims[i]));
    }
    assert_true(play(&c) >= 1);
}

static void a_member_is_lost_at_any_moment(void **state) {
    (void)state;
    int losses = 1;
    testing_for_seeds(150, lose_some, &losses);
}

static void two_members_are_lost_at_once(void **state) {
    (void)state;
    int losses = 2;
    testing_for_seeds(100, lose_some, &losses);
}

// ---- Checkpoints ----------------------------------------------------------------------------------

// The newest has the result, if a member has finished.
static void expect_result(const char *folder) {
    double alone[10];
    int at = 0;
    compute_alone(alone);
    gw_scope *s = gw_scope_open(NULL);
    gw_map *all = gw_checkpoint_restore(s, folder, NULL);
    assert_non_null(all);
    assert_int_equal(gw_int_of(s, gw_map_get(s, all, "step")), STEPS);
    gw_map *model = gw_map_of(s, gw_map_get(s, all, "model"));
    for (int i = 0; i < gw_map_count(model); i++) {
        gw_tensor *x = gw_tensor_of(s, gw_map_get(s, model, gw_map_key(s, model, i)));
        const float *numbers = gw_data(x);
        for (int64_t k = 0; k < gw_numel(x); k++, at++)
            if (fabs(numbers[k] - alone[at]) > 1e-5)
                fail_msg("weight %d is %g, not %g", at, numbers[k], alone[at]);
    }
    assert_int_equal(at, 10);
    assert_string_equal(gw_scope_close(s).text, "");
}

// A checkpoint begins after each step, so that losses, joins and leaves meet each place of one.
static void lose_while_saving(uint64_t seed, void *context) {
    (void)context;
    char folder[] = "/tmp/gradwire-elastic-XXXXXX", command[64];
    scene c = {
        .keeps_program = seed % 2, .has_hook = seed % 5 == 0, .meet_every = 1, .folder = folder
    };
    assert_non_null(mkdtemp(folder));
    for (int i = FOUNDERS; i < WORKERS_MAX; i++)
        c.workers[i].joins_after_ms = 1 + (int64_t)(seed * 13 + (uint64_t)i * 7) % 40;
    scene like = c;
    int64_t took_ns = measure(seed, &like, WORKERS_MAX);
    expect_result(folder);
    snprintf(command, sizeof command, "rm -rf %s/*", folder);
    assert_int_equal(system(command), 0);
    open_scene(&c, seed, WORKERS_MAX);
    c.victims[0] = 1 + (int)(seed % (FOUNDERS - 1));
    int64_t at_ns = (int64_t)(seed * 2654435761U % (uint64_t)took_ns);
    assert_true(sim_at(c.sim, at_ns, crash, &c.victims[0]));
    assert_true(play(&c) >= 1);
    expect_result(folder);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
}

static void checkpoints_are_whole_whichever_member_is_lost(void **state) {
    (void)state;
    testing_for_seeds(40, lose_while_saving, NULL);
}

// Those that have joined need neither the worker that has founded the group nor the coordinator of the job.
static void lose_the_founder(uint64_t seed, void *context) {
    (void)context;
    scene like = { .keeps_program = true };
    for (int i = FOUNDERS; i < WORKERS_MAX; i++)
        like.workers[i].joins_after_ms = 1 + (int64_t)(seed * 13 + (uint64_t)i * 7) % 40;
    scene c = like;
    open_scene(&c, seed, WORKERS_MAX);
    play(&c);
    int64_t from_ns = 0, until_ns = c.ended_ns;
    for (int i = 0; i < FOUNDERS; i++)
        if (c.workers[i].opened_ns > from_ns) from_ns = c.workers[i].opened_ns;
    c = like;
    open_scene(&c, seed, WORKERS_MAX);
    c.victims[0] = 0;
    int64_t at_ns = from_ns + 1 + (int64_t)(seed * 2654435761U % (uint64_t)(until_ns - from_ns));
    assert_true(sim_at(c.sim, at_ns, crash, &c.victims[0]));
    assert_true(play(&c) >= 1);
}

static void the_founder_is_lost_at_any_moment(void **state) {
    (void)state;
    testing_for_seeds(100, lose_the_founder, NULL);
}

// ELAS-9: some members have made the last step, and others have not.
static void lose_in_the_last_step(uint64_t seed, void *context) {
    (void)context;
    scene c = { 0 };
    open_scene(&c, seed, FOUNDERS);
    play(&c);
    uint64_t from = UINT64_MAX, until = 0;
    for (int i = 0; i < FOUNDERS; i++) {
        if (c.workers[i].last_began < from) from = c.workers[i].last_began;
        if (c.workers[i].last_ended > until) until = c.workers[i].last_ended;
    }
    assert_true(from < until);
    c = (scene){ 0 };
    open_scene(&c, seed, FOUNDERS);
    c.victims[0] = (int)(seed % FOUNDERS);
    uint64_t at = from + 1 + seed * 2654435761U % (until - from);
    assert_true(sim_at_decision(c.sim, at, crash, &c.victims[0]));
    assert_int_equal(play(&c), FOUNDERS - 1);
}

static void a_member_is_lost_in_the_last_step(void **state) {
    (void)state;
    testing_for_seeds(300, lose_in_the_last_step, NULL);
}

// ---- Joining --------------------------------------------------------------------------------------

typedef struct arrivals {
    int joined, late;
} arrivals;

// At any time of the job, and after it: a worker becomes a member, or the job has finished.
static void join_at_any_time(uint64_t seed, void *context) {
    arrivals *all = context;
    scene like = { .keeps_program = true };
    int64_t took_ms = measure(seed, &like, FOUNDERS) / 1000000;
    scene c = like;
    c.workers[3].joins_after_ms =
        1 + (int64_t)(seed * 7919 % (uint64_t)(took_ms + took_ms / 2 + 1));
    c.workers[4].joins_after_ms =
        1 + (int64_t)(seed * 104729 % (uint64_t)(took_ms + took_ms / 2 + 1));
    open_scene(&c, seed, WORKERS_MAX);
    assert_true(play(&c) >= FOUNDERS);
    for (int i = 0; i < WORKERS_MAX; i++) {
        const worker *w = &c.workers[i];
        assert_int_equal(w->failed_steps, 0);
        if (i < FOUNDERS) assert_int_equal(w->loaded, i > 0);
        if (i >= FOUNDERS) assert_int_equal(w->loaded, w->is_member);
        if (i >= FOUNDERS) all->joined += w->is_member;
        if (i >= FOUNDERS) all->late += !w->is_member;
    }
}

static void a_worker_joins_at_any_time(void **state) {
    (void)state;
    arrivals all = { 0 };
    testing_for_seeds(60, join_at_any_time, &all);
    testing_note("%d have joined, %d were too late", all.joined, all.late);
    if (!getenv("SEED")) assert_true(all.joined > 0 && all.late > 0);
}

// ELAS-6.
static void join_with_another(uint64_t seed, void *context) {
    scene c = { .differs = 3, .has_model = *(const bool *)context };
    c.workers[3].joins_after_ms = 1;
    open_scene(&c, seed, 4);
    assert_int_equal(play(&c), FOUNDERS);
    const gw_error *e = &c.workers[3].error;
    if (!e->status || c.workers[3].never_joined) return;  // it was too late to join
    assert_int_equal(e->status, GW_MISMATCH);
    if (!strstr(e->text, "gw_elastic_open: this member has a model of 2 parameters (") ||
        !strstr(e->text, c.has_model ? ", 6 steps, " : ", 7 steps, ") ||
        !strstr(e->text, "; w0 has a model of 2 parameters (") || !strstr(e->text, ", 6 steps, "))
        fail_msg("%s", e->text);
}

static void a_member_with_other_options_fails_alone(void **state) {
    (void)state;
    bool has_model = false;
    testing_for_seeds(20, join_with_another, &has_model);
}

static void a_member_with_another_model_fails_alone(void **state) {
    (void)state;
    bool has_model = true;
    testing_for_seeds(20, join_with_another, &has_model);
}

// ---- Members whose steps differ -------------------------------------------------------------------

static const char unequal[] = "members have made unequal numbers of backward passes in a step: ";

// ELAS-12: no gradient of one step is added to one of another step. Where all others meet only that member fails: after the
// last step, and if one of them leaves.
static void make_other_passes(uint64_t seed, void *context) {
    int passes = *(const int *)context, at = 1 + (int)(seed / FOUNDERS % (STEPS - 1));
    int node = (int)(seed % FOUNDERS);
    int leaver = seed % 5 == 3 && at > 1 ? (node + 1) % FOUNDERS : -1;
    bool fails_alone = passes == 0 || at == STEPS - 1 || leaver >= 0;
    scene c = { .has_hook = seed % 5 == 4 };
    c.workers[node].differs_at = at;
    c.workers[node].passes = passes;
    if (leaver >= 0) c.workers[leaver].leaves_at = at - 1;
    open_scene(&c, seed, FOUNDERS);
    assert_true(sim_run(c.sim, 3600 * SIM_SECOND));
    for (int i = 0; i < FOUNDERS; i++) {
        const worker *w = &c.workers[i];
        const gw_error *e = &w->error;
        char step[64];
        snprintf(step, sizeof step, passes ? "in step %d" : "step %d has made no backward pass",
                 at);
        if (i != node && fails_alone) {
            if (e->status) fail_msg("w%d: %s", i, e->text);
            if (i != leaver) assert_int_equal(w->steps, STEPS);
            continue;
        }
        testing_note("w%d: %s", i, e->text);
        assert_int_equal(e->status, passes ? GW_MISMATCH : GW_INVALID);
        if (passes && (!strstr(e->text, unequal) || (!fails_alone && !strstr(e->text, "pass 2 "))))
            fail_msg("w%d: %s", i, e->text);
        if (!fails_alone || !passes) assert_non_null(strstr(e->text, step));
        assert_in_range(w->steps, at, at + 2);
    }
    sim_close(c.sim);
}

static void a_pass_more_is_an_error_of_all_members(void **state) {
    (void)state;
    int passes = 2;
    testing_for_seeds(40, make_other_passes, &passes);
}

static void a_step_without_a_pass_is_an_error(void **state) {
    (void)state;
    int passes = 0;
    testing_for_seeds(40, make_other_passes, &passes);
}

// Its program fails; the others repeat the step without it.
static void fail_one(uint64_t seed, void *context) {
    (void)context;
    scene c = { .keeps_program = true };
    int node = (int)(seed % FOUNDERS), at = 1 + (int)(seed / FOUNDERS % (STEPS - 1));
    c.workers[node].differs_at = at;
    c.workers[node].passes = -1;
    open_scene(&c, seed, FOUNDERS);
    assert_true(sim_run(c.sim, 3600 * SIM_SECOND));
    for (int i = 0; i < FOUNDERS; i++) {
        const worker *w = &c.workers[i];
        if (i == node) {
            assert_int_equal(w->error.status, GW_INVALID);
            assert_non_null(strstr(w->error.text, "there is no batch"));
            continue;
        }
        if (w->error.status) fail_msg("w%d: %s", i, w->error.text);
        assert_string_equal(gw_elastic_reason_name(w->reason), "finished");
        assert_int_equal(w->steps, STEPS);
        assert_int_equal(w->failed_steps, 1);
    }
    sim_close(c.sim);
}

static void an_error_of_one_member_is_its_loss(void **state) {
    (void)state;
    testing_for_seeds(40, fail_one, NULL);
}

// ---- Leaving --------------------------------------------------------------------------------------

// No step of the others fails, and all make all steps.
static void leave_in_between(uint64_t seed, void *context) {
    const scene *like = context;
    scene c = *like;
    int leaver = (int)(seed % FOUNDERS), at = (int)(seed / FOUNDERS % 3) + 1;
    c.workers[leaver].leaves_at = at;
    open_scene(&c, seed, FOUNDERS);
    assert_int_equal(play(&c), FOUNDERS - 1);
    const worker *w = &c.workers[leaver];
    assert_string_equal(gw_elastic_reason_name(w->reason), "leaving");
    assert_in_range(w->steps, at + 1, like->meet_every > 2 ? at + 2 : at + 3);
    for (int i = 0; i < FOUNDERS; i++) {
        assert_int_equal(c.workers[i].failed_steps, 0);
        assert_true(c.workers[i].over_ns < w->over_ns + LEAVING_MS * INT64_C(1000000));
    }
}

static void a_member_leaves_while_the_others_step(void **state) {
    (void)state;
    scene like = { .keeps_program = true, .meet_every = 100 };
    testing_for_seeds(30, leave_in_between, &like);
}

// Without a place for wishes in their passes the members meet after some steps.
static void members_whose_passes_carry_no_wishes_meet_regularly(void **state) {
    (void)state;
    scene like = { .has_hook = true, .meet_every = 2 };
    testing_for_seeds(20, leave_in_between, &like);
}

// One leaves, another one is lost.
static void leave_and_lose(uint64_t seed, void *context) {
    (void)context;
    scene like = { .keeps_program = true };
    like.workers[1].leaves_at = 2;
    like.workers[3].joins_after_ms = 1 + (int64_t)(seed % 20);
    int64_t took_ns = measure(seed, &like, 4);
    scene c = like;
    open_scene(&c, seed, 4);
    c.victims[0] = 2;
    assert_true(
        sim_at(c.sim, (int64_t)(seed * 2654435761U % (uint64_t)took_ns), crash, &c.victims[0]));
    play(&c);
}

static void a_member_leaves_while_another_one_is_lost(void **state) {
    (void)state;
    testing_for_seeds(80, leave_and_lose, NULL);
}

static void leave_all(uint64_t seed, void *context) {
    (void)context;
    scene c = { .keeps_program = true };
    for (int i = 0; i < FOUNDERS; i++) c.workers[i].leaves_at = 1 + i % 2;
    open_scene(&c, seed, FOUNDERS);
    play(&c);
    for (int i = 0; i < FOUNDERS; i++) {
        assert_string_equal(gw_elastic_reason_name(c.workers[i].reason), "leaving");
        assert_int_equal(c.workers[i].failed_steps, 0);
    }
}

// The worker that joins gets their state before they leave, and makes the other steps alone.
static void leave_all_to_one(uint64_t seed, void *context) {
    (void)context;
    scene c = { .keeps_program = true };
    for (int i = 0; i < FOUNDERS; i++) c.workers[i].leaves_with_joiner = true;
    for (int i = 0; i < FOUNDERS; i++) c.workers[i].leaves_at = STEPS;
    c.workers[3].joins_after_ms = 1000;
    open_scene(&c, seed, 4);
    assert_int_equal(play(&c), 1);
    for (int i = 0; i < FOUNDERS; i++)
        assert_string_equal(gw_elastic_reason_name(c.workers[i].reason), "leaving");
    assert_int_equal(c.workers[3].loaded, 1);
}

static void all_members_leave_the_job_to_one_that_joins(void **state) {
    (void)state;
    testing_for_seeds(20, leave_all_to_one, NULL);
}

static void all_members_leave(void **state) {
    (void)state;
    testing_for_seeds(20, leave_all, NULL);
}

// ---- Fewer members than .min ----------------------------------------------------------------------

// The others wait for the worker that joins, and continue with it.
static void wait_for_members(uint64_t seed, void *context) {
    (void)context;
    scene like = { .min = FOUNDERS, .keeps_program = true };
    int64_t took_ns = measure(seed, &like, FOUNDERS);
    scene c = like;
    c.workers[3].joins_after_ms = 20000;
    open_scene(&c, seed, 4);
    c.victims[0] = 1 + (int)(seed % 2);
    assert_true(
        sim_at(c.sim, (int64_t)(seed * 2654435761U % (uint64_t)took_ns), crash, &c.victims[0]));
    play(&c);
    const worker *w = &c.workers[3];
    if (w->is_member) assert_int_equal(w->loaded, 1);
}

static void note_pause(sim *s, void *context) {
    worker *w = context;
    (void)s;
    w->has_paused = w->job && gw_elastic_get_reason(w->job) == GW_PAUSED;
}

// None joins: after .timeout_ms all end with an error. One that is asked to leave, does.
static void pause_for_ever(uint64_t seed, void *context) {
    (void)context;
    scene c = { .min = FOUNDERS, .keeps_program = true };
    int victim = 1 + (int)(seed % 2), other = 3 - victim;
    c.workers[other].leaves_at = seed % 3 ? 0 : STEPS - 2;
    open_scene(&c, seed, FOUNDERS);
    c.victims[0] = victim;
    c.workers[victim].dies_at = STEPS - 2;
    for (int i = 0; i < FOUNDERS; i++)
        assert_true(sim_at(c.sim, 100 * SIM_SECOND, note_pause, &c.workers[i]));
    assert_true(sim_run(c.sim, 3600 * SIM_SECOND));
    for (int i = 0; i < FOUNDERS; i++) {
        const worker *w = &c.workers[i];
        if (is_dead(w)) continue;
        assert_in_range(w->steps, STEPS - 2, STEPS - 1);
        if (w->leaves_at > 0) {
            if (w->error.status) fail_msg("%s", w->error.text);
            assert_string_equal(gw_elastic_reason_name(w->reason), "leaving");
            continue;
        }
        assert_true(w->has_paused);
        assert_int_equal(w->error.status, GW_TIMEOUT);
        assert_non_null(strstr(w->error.text, "fewer than .min = 3, for 300 s"));
        assert_in_range(w->over_ns, 300 * SIM_SECOND, 310 * SIM_SECOND);
    }
    sim_close(c.sim);
}

static void a_pause_ends_after_the_timeout(void **state) {
    (void)state;
    testing_for_seeds(12, pause_for_ever, NULL);
}

static void members_wait_while_they_are_too_few(void **state) {
    (void)state;
    testing_for_seeds(40, wait_for_members, NULL);
}

// ---- A job of a world size ------------------------------------------------------------------------

static void learn_in_fixed_job(gw_scope *root, int rank, void *context) {
    scene *c = context;
    worker *w = &c->workers[rank];
    learn(root, w);
    if (!is_dead(w)) {
        if (!gw_ok(root)) fail_msg("w%d: %s", rank, gw_scope_error(root)->text);
        assert_string_equal(gw_elastic_reason_name(w->reason), "finished");
        assert_int_equal(w->steps, STEPS);
    }
    gw_scope_clear(root);
}

static void direct(sim *s, void *context) {
    scene *c = context;
    c->sim = s;
    if (c->crash_ns) assert_true(sim_at(s, c->crash_ns, crash, &c->victims[0]));
}

static void run_fixed_job(scene *c, uint64_t seed) {
    c->seed = seed;
    c->meet_every = 100;
    for (int i = 0; i < FOUNDERS; i++)
        c->workers[i] = (worker){ .scene = c, .node = i, .joins_after_ms = -1, .leaves_at = -1 };
    cluster_run(seed, (cluster_options){ .world_size = FOUNDERS, .fails = true, .direct = direct },
                learn_in_fixed_job, c);
}

static void lose_in_fixed_job(uint64_t seed, void *context) {
    (void)context;
    scene c = { 0 };
    run_fixed_job(&c, seed);
    int64_t from_ns = c.workers[0].opened_ns, until_ns = c.workers[0].over_ns;
    int victim = (int)(seed % FOUNDERS);
    c = (scene){ .victims = { victim } };
    c.crash_ns = from_ns + (int64_t)(seed * 2654435761U % (uint64_t)(until_ns - from_ns));
    run_fixed_job(&c, seed);
    const worker *a = &c.workers[(victim + 1) % FOUNDERS], *b = &c.workers[(victim + 2) % FOUNDERS];
    assert_memory_equal(a->weights, b->weights, sizeof a->weights);
}

static void a_job_of_a_world_size_survives_losses(void **state) {
    (void)state;
    testing_for_seeds(60, lose_in_fixed_job, NULL);
}

GW_TESTS(elastic_sim, a_pass_more_is_an_error_of_all_members, a_step_without_a_pass_is_an_error,
         an_error_of_one_member_is_its_loss, a_job_of_a_world_size_survives_losses,
         members_train_as_one, checkpoints_are_whole_whichever_member_is_lost,
         a_member_is_lost_at_any_moment, two_members_are_lost_at_once,
         the_founder_is_lost_at_any_moment, a_member_is_lost_in_the_last_step,
         a_worker_joins_at_any_time, a_member_with_other_options_fails_alone,
         a_member_with_another_model_fails_alone, a_member_leaves_while_the_others_step,
         members_whose_passes_carry_no_wishes_meet_regularly,
         a_member_leaves_while_another_one_is_lost, all_members_leave,
         all_members_leave_the_job_to_one_that_joins, a_pause_ends_after_the_timeout,
         members_wait_while_they_are_too_few);
