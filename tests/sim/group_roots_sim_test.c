// Members that name different roots of a collective, in the simulator: each gets the mismatch, by its next collective of
// the group or, if there is none, by gw_rpc_shutdown (GRP-6, GRP-24); members open the group and call at any time.
#include "base/map.h"
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>

enum { MEMBERS_MAX = 5, CALLS_MAX = 3, SEEDS = 2000, LATE_MS = 40 };

typedef struct member {
    int root;                             // that it names
    int64_t open_ms, call_ms[CALLS_MAX];  // pauses before it opens the group, and before each call
    gw_error error[CALLS_MAX];            // of each call
    int called;
} member;

typedef struct job {
    int members, operation, barriers;
    member of[MEMBERS_MAX];
} job;

static void enter(gw_scope *s, gw_group *g, int operation, int root) {
    gw_tensor *x = gw_full(s, GW_F32, gw_group_rank(g), 3);
    gw_list *all = gw_list_open(s);
    for (int i = 0; i < gw_group_size(g); i++) gw_list_add(s, all, x);
    switch (operation) {
    case 0: gw_broadcast(s, g, x, root); break;
    case 1: gw_reduce(s, g, x, GW_SUM, root); break;
    case 2: gw_gather_to(s, g, x, root); break;
    default: gw_scatter_from(s, g, gw_group_rank(g) == root ? all : NULL, root);
    }
}

static void play(gw_scope *root, int rank, void *context) {
    job *j = context;
    member *m = &j->of[rank];
    if (m->open_ms) cluster_pause_ms(root, m->open_ms);
    gw_group *g = gw_group_world(root);
    for (int i = 0; i <= j->barriers; i++) {
        if (m->call_ms[i]) cluster_pause_ms(root, m->call_ms[i]);
        gw_scope *s = gw_scope_open(root);
        if (i == 0)
            enter(s, g, j->operation, m->root);
        else
            gw_barrier(s, g);
        m->error[i] = gw_scope_close(s);
        m->called++;
        if (m->error[i].status) return;
    }
}

static int draw(uint64_t *random, int below) {
    *random = hash_u64(*random + 1);
    return (int)(*random % (uint64_t)below);
}

static void name_roots(uint64_t seed, void *context) {
    (void)context;
    uint64_t r = hash_u64(seed);
    job j = { .members = 2 + draw(&r, MEMBERS_MAX - 1),
              .operation = draw(&r, 4),
              .barriers = draw(&r, CALLS_MAX) };
    int different = 0;
    for (int i = 0; i < j.members; i++) {
        member *m = &j.of[i];
        m->root = draw(&r, 2);
        if (i == j.members - 1 && !different) m->root = !j.of[0].root;
        different += m->root != j.of[0].root;
        m->open_ms = draw(&r, 2) ? 0 : draw(&r, LATE_MS);
        for (int k = 0; k < CALLS_MAX; k++) m->call_ms[k] = draw(&r, 2) ? 0 : draw(&r, LATE_MS);
    }
    testing_note("seed %d: operation %d, %d members, %d barriers", (int)seed, j.operation,
                 j.members, j.barriers);
    cluster_outcome out = cluster_run(
        seed,
        (cluster_options){ .world_size = j.members, .fails = true, .network = sim_varied(seed, 0) },
        play, &j);
    for (int i = 0; i < j.members; i++) {
        const member *m = &j.of[i];
        gw_status by = m->error[0].status ? m->error[0].status
                       : j.barriers       ? m->error[1].status
                                          : out.errors[i].status;
        if (by != GW_MISMATCH)
            fail_msg("w%d (root %d): \"%s\", \"%s\", shutdown \"%s\"", i, m->root, m->error[0].text,
                     m->error[1].text, out.errors[i].text);
    }
}

static void different_roots_are_found_by_the_next_call_of_each(void **state) {
    (void)state;
    testing_for_seeds(SEEDS, name_roots, NULL);
}

GW_TESTS(group_roots_sim, different_roots_are_found_by_the_next_call_of_each);
