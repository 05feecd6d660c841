#include "parallel/thread_team.h"

#include "agent/state/pool.h"
#include "base/mem.h"

typedef struct thread_team thread_team;

typedef struct thread_team_job {
    pool_job job;
    thread_team *team;
    int number;
} thread_team_job;

struct thread_team {
    agent *agent;  // one count
    void (*run)(void *context, int number);
    void (*done)(void *context);
    void *context;
    int missing;  // with the loop lock
    thread_team_job jobs[];
};

static bool taken(pool_job *j) {
    (void)j;
    return true;
}

static void run(pool_job *j) {
    thread_team_job *own = list_entry(j, thread_team_job, job);
    thread_team *c = own->team;
    c->run(c->context, own->number);
    env_enter(c->agent->env);
    bool last = --c->missing == 0;
    env_leave(c->agent->env);
    if (!last) return;
    c->done(c->context);
    agent_release(c->agent);
    mem_free(c);
}

bool thread_team_start(agent *a, int first, int end, void (*each)(void *context, int number),
                       void (*done)(void *context), void *context) {
    int count = end - first;
    thread_team *c = mem_calloc(sizeof *c + (size_t)count * sizeof *c->jobs);
    if (!c) return false;
    *c = (thread_team){ agent_retain(a), each, done, context, count };
    env_enter(a->env);
    for (int i = 0; i < count; i++) {
        c->jobs[i] = (thread_team_job){ .team = c, .number = first + i };
        c->jobs[i].job = (pool_job){ .depth = 1, .taken = taken, .run = run };
    }
    for (int i = 0; i < count; i++) pool_submit_on_loop(&a->pool, &c->jobs[i].job);
    env_leave(a->env);
    return true;
}
