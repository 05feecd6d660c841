// The first all_reduce of a job: each number is the sum of the members' inputs.
//
//     gradwire run -n N -- all_reduce_zeros [NUMBERS] [ROUNDS]
//
// Right: prints nothing, and all ranks end with 0.
#include <gradwire.h>
#include <stdio.h>
#include <stdlib.h>

static float number_of(int rank, int64_t i) {
    return (float)(rank + 1 + i % 7);
}

static gw_tensor *input_of(gw_scope *s, int rank, int64_t count) {
    gw_tensor *x = gw_empty(s, GW_F32, count);
    float *p = gw_data_for_write(s, x);
    for (int64_t i = 0; p && i < count; i++) p[i] = number_of(rank, i);
    return x;
}

// Returns how many numbers of |sum| are wrong; prints their positions.
static int64_t count_wrong(const gw_tensor *sum, int rank, int size) {
    const float *p = gw_data(sum);
    int64_t wrong = 0, first = 0, last = 0;
    for (int64_t i = 0; p && i < gw_numel(sum); i++) {
        float right = 0;
        for (int k = 0; k < size; k++) right += number_of(k, i);
        if (p[i] == right) continue;
        if (!wrong++) first = i;
        last = i;
    }
    if (wrong)
        printf("rank %d: %lld numbers are wrong, from %lld to %lld; the first is %g\n", rank,
               (long long)wrong, (long long)first, (long long)last, p[first]);
    return wrong;
}

int main(int argc, char **argv) {
    int64_t count = argc > 1 ? strtoll(argv[1], NULL, 10) : 1000000, wrong = 0;
    int64_t rounds = argc > 2 ? strtoll(argv[2], NULL, 10) : 1;
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root);
    gw_group *g = gw_group_world(root);
    int rank = gw_group_rank(g), size = gw_group_size(g);
    for (int64_t i = 0; i < rounds && gw_ok(root); i++) {
        gw_scope *s = gw_scope_open(root);
        gw_tensor *sum = gw_all_reduce(s, g, input_of(s, rank, count), GW_SUM);
        if (gw_ok(s)) wrong += count_wrong(sum, rank, size);
        gw_scope_close_up(s);
    }
    gw_rpc_shutdown(root);
    int code = gw_exit_code(gw_scope_close(root));
    return wrong ? 1 : code;
}
