// Several agents in one process that lend to each other, and pass on what was lent to them: memory lent to one agent is
// released on threads of the others.
#include "agent/state/agent.h"
#include "lend/lend.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { AGENTS = 3, NUMBERS = 512 * 1024, ROUNDS = 400 };

GW_FUNCTION(agents_make, GW_POOL, "int") {
    return gw_value_of(gw_full(s, GW_F32, (float)gw_arg_int(s, a, 0), NUMBERS));
}

GW_FUNCTION(agents_sum, GW_POOL, "tensor") {
    return gw_value_of(gw_item(s, gw_sum(s, gw_arg_tensor(s, a, 0))));
}

// Tensors passed between agents; each thread has its turn.
static struct {
    pthread_mutex_t lock;
    gw_scope *scope;
    gw_tensor *slots[AGENTS];
    double sums[AGENTS];
} board = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void put(int slot, gw_tensor *x, double sum) {
    pthread_mutex_lock(&board.lock);
    gw_set(board.scope, &board.slots[slot], x);
    board.sums[slot] = sum;
    pthread_mutex_unlock(&board.lock);
}

// Removes a tensor from the board: it is the caller's alone.
static gw_tensor *take(gw_scope *s, int slot, double *out_sum) {
    pthread_mutex_lock(&board.lock);
    gw_tensor *x = board.slots[slot] ? gw_keep(s, board.slots[slot]) : NULL;
    gw_set(board.scope, &board.slots[slot], NULL);
    *out_sum = board.sums[slot];
    pthread_mutex_unlock(&board.lock);
    return x;
}

typedef struct peer {
    int rank;
    const char *url;
    uint64_t borrowed;
    gw_error error;
    pthread_t thread;
} peer;

static lend_counts counts_of(gw_scope *s) {
    agent *a = agent_of(s);
    env_enter(a->env);
    lend_counts counts = lend_count_on_loop(a);
    env_leave(a->env);
    return counts;
}

static void exchange(gw_scope *root, int rank) {
    for (int i = 0, count = testing_scaled(ROUNDS); i < count && gw_ok(root); i++) {
        gw_scope *s = gw_scope_open(root);
        int from = (rank + 1 + i % (AGENTS - 1)) % AGENTS, to = (from + 1) % AGENTS;
        gw_tensor *x = gw_tensor_of(s, gw_rpc_sync(s, from, "agents_make", i % 30));
        put(rank, x, (double)(i % 30) * NUMBERS);
        double sum;
        gw_tensor *y = take(s, (rank + 1) % AGENTS, &sum);
        gw_future *f = y ? gw_rpc_async(s, to, "agents_sum", y) : NULL;
        if (f && i % 2) assert_true(gw_float_of(s, gw_wait(s, f)) == sum);
        gw_scope_close_up(s);
    }
}

static void *run_peer(void *arg) {
    peer *p = arg;
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root, .rank = p->rank, .world_size = AGENTS, .init_method = p->url);
    exchange(root, p->rank);
    p->borrowed = counts_of(root).held;
    gw_rpc_shutdown(root);
    p->error = gw_scope_close(root);
    return NULL;
}

static void agents_of_one_process_lend_to_each_other(void **state) {
    (void)state;
    char url[64];
    snprintf(url, sizeof url, "file:///tmp/gradwire-agents-%d", (int)getpid());
    board.scope = gw_scope_open(NULL);
    peer peers[AGENTS];
    for (int i = 0; i < AGENTS; i++) {
        peers[i] = (peer){ .rank = i, .url = url };
        assert_int_equal(pthread_create(&peers[i].thread, NULL, run_peer, &peers[i]), 0);
    }
    for (int i = 0; i < AGENTS; i++) pthread_join(peers[i].thread, NULL);
    for (int i = 0; i < AGENTS; i++) {
        assert_string_equal(peers[i].error.text, "");
        assert_true(peers[i].borrowed > 0);
    }
    assert_string_equal(gw_scope_close(board.scope).text, "");
    unlink(url + 7);
}

GW_TESTS(lend_agents, agents_of_one_process_lend_to_each_other);
