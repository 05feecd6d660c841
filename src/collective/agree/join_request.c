// The requests of other workers to join groups, which this worker has received.
#include "base/mem.h"
#include "collective/agree/agree.h"
#include "collective/group/groups_state.h"

#include <stdio.h>
#include <string.h>

typedef struct join_request {
    list_node link;
    int rank;
    char name[LIMIT_NAME_BYTES + 1];
} join_request;

static join_request *find(const groups *x, int rank, const char *name) {
    list_each(l, &x->join_requests) {
        join_request *k = list_entry(l, join_request, link);
        if (k->rank == rank && strcmp(k->name, name) == 0) return k;
    }
    return NULL;
}

static int count_of(const groups *x, int rank) {
    int count = 0;
    list_each(l, &x->join_requests) count += list_entry(l, join_request, link)->rank == rank;
    return count;
}

bool join_request_keep_on_loop(const agent *a, int from, const char *name, bool *out_is_new) {
    groups *x = groups_of(a);
    *out_is_new = false;
    if (find(x, from, name)) return true;
    if (count_of(x, from) >= LIMIT_JOIN_REQUESTS) return false;
    join_request *k = mem_calloc(sizeof *k);
    if (!k) return true;  // it is not admitted while this worker leads
    k->rank = from;
    snprintf(k->name, sizeof k->name, "%s", name);
    list_append(&x->join_requests, &k->link);
    *out_is_new = true;
    return true;
}

void join_request_drop_on_loop(const agent *a, int rank, const char *name) {
    list_each(l, &groups_of(a)->join_requests) {
        join_request *k = list_entry(l, join_request, link);
        if (k->rank != rank || (name && strcmp(k->name, name) != 0)) continue;
        list_remove(&k->link);
        mem_free(k);
    }
}

int join_request_next_on_loop(const gw_group *g, int after) {
    int next = -1;
    list_each(l, &groups_of(g->agent)->join_requests) {
        const join_request *k = list_entry(l, join_request, link);
        bool is_one = k->rank > after && (next < 0 || k->rank < next);
        if (is_one && strcmp(k->name, g->name) == 0 && group_index_of(g, k->rank) < 0)
            next = k->rank;
    }
    return next;
}

int join_request_count_on_loop(const gw_group *g) {
    int count = 0;
    for (int rank = -1; (rank = join_request_next_on_loop(g, rank)) >= 0;) count++;
    return count;
}

int gw_group_pending(const gw_group *g) {
    if (!g || g == &group_poison || agent_is_closed(g->agent)) return 0;
    env_enter(g->agent->env);
    int count = join_request_count_on_loop(g);
    env_leave(g->agent->env);
    return count;
}

void join_request_free(list_node *requests) {
    for (list_node *l; (l = list_take(requests));) mem_free(list_entry(l, join_request, link));
}
