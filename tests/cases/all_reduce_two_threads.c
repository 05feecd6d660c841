// The first all_reduce of a job, while a second thread of each member waits in the library and so receives for both
// threads.
//
//     gradwire run -n N -- all_reduce_two_threads [NUMBERS]
//
// Right: prints nothing, and all ranks end with 0.
#include <gradwire.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_summed, waits;
} here = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, false };

static void set(bool *flag) {
    pthread_mutex_lock(&here.lock);
    *flag = true;
    pthread_cond_broadcast(&here.changed);
    pthread_mutex_unlock(&here.lock);
}

static void await(const bool *flag) {
    pthread_mutex_lock(&here.lock);
    while (!*flag) pthread_cond_wait(&here.changed, &here.lock);
    pthread_mutex_unlock(&here.lock);
}

// Returns when this worker has its sum. Its caller waits in the library meanwhile.
GW_FUNCTION(until_summed, GW_POOL) {
    (void)a;
    (void)s;
    set(&here.waits);
    await(&here.is_summed);
    return gw_none();
}

static gw_scope *other;

static void *wait_for_next(void *next) {
    gw_rpc_sync(other, *(int *)next, "until_summed");
    return NULL;
}

// Returns how many numbers of |sum| are not |right|; prints their positions.
static int64_t count_wrong(const gw_tensor *sum, int rank, float right) {
    const float *p = gw_data(sum);
    int64_t wrong = 0, first = 0, last = 0;
    for (int64_t i = 0; p && i < gw_numel(sum); i++) {
        if (p[i] == right) continue;
        if (!wrong++) first = i;
        last = i;
    }
    if (wrong)
        printf("rank %d: %lld numbers are wrong, from %lld to %lld; %g for %g\n", rank,
               (long long)wrong, (long long)first, (long long)last, p[first], right);
    return wrong;
}

int main(int argc, char **argv) {
    int64_t count = argc > 1 ? strtoll(argv[1], NULL, 10) : 1000000, wrong = 0;
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root);
    other = gw_scope_open(root);
    gw_group *g = gw_group_world(root);
    int rank = gw_group_rank(g), size = gw_group_size(g), next = (rank + 1) % size;
    gw_barrier(root, g);
    if (!gw_ok(root)) return gw_exit_code(gw_scope_close(root));
    pthread_t thread;
    if (pthread_create(&thread, NULL, wait_for_next, &next)) return 1;
    await(&here.waits);  // the call of the previous member has arrived
    gw_tensor *x = gw_full(root, GW_F32, rank + 1.0, count);
    gw_tensor *sum = gw_all_reduce(root, g, x, GW_SUM);
    if (gw_ok(root)) wrong = count_wrong(sum, rank, (float)(size * (size + 1)) / 2);
    set(&here.is_summed);
    pthread_join(thread, NULL);
    gw_scope_close_up(other);
    gw_rpc_shutdown(root);
    int code = gw_exit_code(gw_scope_close(root));
    return wrong ? 1 : code;
}
