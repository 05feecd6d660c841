#include "parallel/crew.h"

#include "agent/pool.h"
#include "base/mem.h"

typedef struct crew crew;

typedef struct crew_job {
    pool_job job;
    crew *crew;
    int number;
} crew_job;

struct crew {
    agent *agent;  // one count
    void (*run)(void *context, int number);
    void (*done)(void *context);
    void *context;
    int missing;  // with the loop lock
    crew_job jobs[];
};

static bool taken(pool_job *j) {
    (void)j;
    return true;
}

static void run(pool_job *j) {
    crew_job *own = list_entry(j, crew_job, job);
    crew *c = own->crew;
    c->run(c->context, own->number);
    env_enter(c->agent->env);
    bool last = --c->missing == 0;
    env_leave(c->agent->env);
    if (!last) return;
    c->done(c->context);
    agent_release(c->agent);
    mem_free(c);
}

bool crew_start(agent *a, int first, int end, void (*each)(void *context, int number),
                void (*done)(void *context), void *context) {
    int count = end - first;
    crew *c = mem_calloc(sizeof *c + (size_t)count * sizeof *c->jobs);
    if (!c) return false;
    *c = (crew){ agent_retain(a), each, done, context, count };
    env_enter(a->env);
    for (int i = 0; i < count; i++) {
        c->jobs[i] = (crew_job){ .crew = c, .number = first + i };
        c->jobs[i].job = (pool_job){ .depth = 1, .taken = taken, .run = run };
    }
    for (int i = 0; i < count; i++) pool_submit_on_loop(&a->pool, &c->jobs[i].job);
    env_leave(a->env);
    return true;
}
