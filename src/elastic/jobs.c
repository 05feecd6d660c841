// The open jobs of this process. SIGTERM is a request to leave each of those that take it.
#include "elastic/elastic.h"

#include "base/mutation.h"
#include "base/process_lock.h"

#include <gradwire/rpc.h>

#include <string.h>

// While it is held, the jobs of the list exist.
PROCESS_LOCK(lock, PROCESS_LOCK_LEAF, NULL);
static gw_elastic *first;

static bool is_same(const gw_elastic *a, const gw_elastic *b) {
    return a->agent == b->agent && !strcmp(a->options.name, b->options.name);
}

bool jobs_add(gw_elastic *j) {
    bool is_new = true;
    process_lock_take(&lock);
    for (const gw_elastic *x = first; x; x = x->next_job)
        is_new &= !is_same(x, j) || has_mutation(MUTATION_JOB_OPENED_TWICE);
    if (is_new) {
        j->next_job = first;
        first = j;
    }
    process_lock_release(&lock);
    return is_new;
}

void jobs_remove(gw_elastic *j) {
    process_lock_take(&lock);
    for (gw_elastic **at = &first; *at; at = &(*at)->next_job) {
        if (*at != j) continue;
        *at = j->next_job;
        break;
    }
    process_lock_release(&lock);
}

void asked_complete(agent *a, gw_future *f) {
    gw_scope *t = agent_scope_open(a, 0, 0, ENV_NEVER);
    gw_future_set_with(t, f, gw_none());
    scope_close_unread(t);
}

// One job that has not been notified: the caller has counts on both.
static bool take_next(agent **out_agent, gw_future **out_future) {
    bool found = false;
    process_lock_take(&lock);
    for (gw_elastic *x = first; x && !found; x = x->next_job) {
        if (!atomic_load(&x->takes_term) || atomic_exchange(&x->leaves, true)) continue;
        *out_agent = agent_retain(x->agent);
        *out_future = handle_retain(x->asked);
        found = true;
    }
    process_lock_release(&lock);
    return found;
}

void jobs_term_arrived(void) {
    agent *a;
    gw_future *f;
    while (take_next(&a, &f)) {
        asked_complete(a, f);
        handle_release(f);
        agent_release(a);
    }
}
