// The sum of large tensors, and the memory that it takes in addition.
//
//     gradwire run -n 2 -- case-large_sum MIB [TIMES]
//
// |MIB| of f32 on each member. Right: "ok" of each rank, and 0: all numbers are the sums, and the process has used no
// more than the result and a constant; |TIMES| as much under a sanitizer, whose shadow of this memory counts too.
#include <gradwire.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONSTANT_KIB = 320 << 10 };

static long peak_kib(void) {
    char line[256];
    long kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, "VmHWM:", 6) == 0) kib = strtol(line + 6, NULL, 10);
    if (f) fclose(f);
    return kib;
}

static bool is_full_of(const gw_tensor *x, float number) {
    const float *at = gw_data(x);
    for (int64_t i = 0; at && i < gw_numel(x); i++)
        if (at[i] != number) return false;
    return at;
}

int main(int argc, char **argv) {
    int64_t mib = argc > 1 ? strtol(argv[1], NULL, 10) : 192;
    long times = argc > 2 ? strtol(argv[2], NULL, 10) : 1;
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root);
    gw_group *g = gw_group_world(root);
    int n = gw_group_size(g);
    gw_tensor *x = gw_full(root, GW_F32, gw_group_rank(g) + 1, (mib << 18) + 1);
    long before_kib = peak_kib();
    gw_all_reduce(root, g, x, GW_SUM, .into = x);
    long taken_kib = peak_kib() - before_kib;
    if (gw_ok(root) && !is_full_of(x, (float)(n * (n + 1) / 2)))
        gw_fail(root, GW_INVALID, "some numbers are no sums");
    if (gw_ok(root) && taken_kib > ((mib << 10) + CONSTANT_KIB) * times)
        gw_fail(root, GW_LIMIT, "the sum of %ld MiB has taken %ld MiB", (long)mib, taken_kib >> 10);
    if (gw_ok(root)) printf("ok, %ld MiB\n", taken_kib >> 10);
    gw_rpc_shutdown(root);
    return gw_exit_code(gw_scope_close(root));
}
