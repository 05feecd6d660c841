#include "agent/state/pool.h"

#include "testing/sim.h"
#include "testing/testing.h"

enum { JOBS = 40 };

typedef struct work work;

typedef struct job {
    pool_job job;
    work *work;
    int number;
} job;

struct work {
    env *env;
    pool pool;
    job jobs[JOBS];
    bool waits;  // each job waits once for |gate|
    waiter gates[JOBS];
    int waiting;
    int running, running_max, done;
    int order[JOBS];  // in which they were taken
    int taken;
    waiter *finished;
};

static bool job_taken(pool_job *j) {
    job *x = (job *)(void *)j;
    x->work->order[x->work->taken++] = x->number;
    return true;
}

static void run_job(pool_job *j) {
    job *x = (job *)(void *)j;
    work *w = x->work;
    env_enter(w->env);
    w->running++;
    if (w->running > w->running_max) w->running_max = w->running;
    if (w->waits) {
        w->running--;
        pool_give_place_on_loop(&w->pool);
        if (++w->waiting == JOBS) env_wake(w->env, &w->gates[0]);
        env_wait(w->env, &w->gates[x->number], ENV_NEVER);
        pool_regain_place_on_loop(&w->pool);
        // One after the other, so that only waits need a thread each.
        if (x->number + 1 < JOBS) env_wake(w->env, &w->gates[x->number + 1]);
    } else {
        waiter a_while = { .what = "a while" };
        env_wait(w->env, &a_while, env_now_ns(w->env) + SIM_SECOND);
        w->running--;
    }
    if (++w->done == JOBS) env_wake(w->env, w->finished);
    env_leave(w->env);
}

static void run_all(void *arg) {
    work *w = arg;
    waiter finished = { .what = "all jobs" };
    w->finished = &finished;
    env_enter(w->env);
    assert_int_equal(pool_add_thread_on_loop(&w->pool, NULL), GW_OK);
    for (int i = 0; i < JOBS; i++) {
        w->jobs[i] = (job){ .job = { .depth = 1, .taken = job_taken, .run = run_job },
                            .work = w,
                            .number = i };
        pool_submit_on_loop(&w->pool, &w->jobs[i].job);
    }
    assert_true(env_wait(w->env, &finished, ENV_NEVER));
    pool_end_on_loop(&w->pool);
    pool_join_on_loop(&w->pool);
    env_leave(w->env);
    env_close(w->env);
}

static work run(uint64_t seed, int slots, bool waits) {
    sim *s = sim_open(seed, (sim_options){ 0 });
    work w = { .env = sim_env(s, 0), .waits = waits };
    pool_init(&w.pool, w.env, slots);
    assert_true(sim_spawn(s, 0, run_all, &w));
    assert_true(sim_run(s, 1000 * SIM_SECOND));
    sim_close(s);
    assert_int_equal(w.done, JOBS);
    return w;
}

static void run_in_slots(uint64_t seed, void *context) {
    (void)context;
    for (int slots = 1; slots <= 4; slots++) {
        work w = run(seed, slots, false);
        assert_int_equal(w.running_max, slots);
        for (int i = 0; i < JOBS; i++) assert_int_equal(w.order[i], i);
    }
}

static void it_runs_as_many_jobs_as_there_are_slots(void **state) {
    (void)state;
    testing_for_seeds(20, run_in_slots, NULL);
}

static void wait_in_one_slot(uint64_t seed, void *context) {
    (void)context;
    work w = run(seed, 1, true);
    assert_int_equal(w.running_max, 1);
}

static void a_waiting_job_releases_its_slot(void **state) {
    (void)state;
    testing_for_seeds(20, wait_in_one_slot, NULL);
}

GW_TESTS(agent_pool, it_runs_as_many_jobs_as_there_are_slots, a_waiting_job_releases_its_slot);
