#include "memory.h"

#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

static double mb_of(const gw_tensor *x) {
    return (double)gw_numel(x) * (double)gw_dtype_size(gw_dtype_of(x)) / 1e6;
}

double memory_of_weights(gw_scope *s, gw_module *model) {
    double sum = 0;
    for (int i = 0; i < gw_module_parameter_count(model); i++)
        sum += mb_of(gw_module_parameter_at(s, model, i));
    return sum;
}

double memory_of_gradients(gw_scope *s) {
    double sum = 0;
    for (int i = 0; i < gw_grads_count(s); i++) sum += mb_of(gw_grads_get(s, i).grad);
    return sum;
}

double memory_now(void) {
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%*d %ld", &pages) != 1) pages = 0;
    if (f) fclose(f);
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / 1e6;
}

double memory_peak(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)used.ru_maxrss * 1024 / 1e6;
}
