#include "options/binding.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

enum { PROCESSORS_MAX = 8192 };  // as Linux

typedef union mask {
    cpu_set_t set;  // the first of them
    unsigned char bytes[PROCESSORS_MAX / 8];
} mask;

static bool has(const mask *m, int processor) {
    return CPU_ISSET_S((size_t)processor, sizeof *m, &m->set);
}

static bool find_share(int index, int count, mask *out) {
    mask all;
    memset(&all, 0, sizeof all);
    memset(out, 0, sizeof *out);
    if (sched_getaffinity(0, sizeof all, &all.set) != 0) return false;
    int processors = CPU_COUNT_S(sizeof all, &all.set), seen = 0;
    int first = index % processors, end = first + 1;
    if (count <= processors) {
        first = (int)((long)index * processors / count);
        end = (int)(((long)index + 1) * processors / count);
    }
    for (int i = 0; i < PROCESSORS_MAX; i++) {
        if (!has(&all, i)) continue;
        if (seen >= first && seen < end) CPU_SET_S((size_t)i, sizeof *out, &out->set);
        seen++;
    }
    return true;
}

int binding_processors(void) {
    mask all;
    memset(&all, 0, sizeof all);
    bool is_known = sched_getaffinity(0, sizeof all, &all.set) == 0;
    return is_known ? CPU_COUNT_S(sizeof all, &all.set) : 1;
}

bool binding_set(int index, int count) {
    mask own;
    return find_share(index, count, &own) && sched_setaffinity(0, sizeof own, &own.set) == 0;
}

void binding_describe(int index, int count, char *out, size_t size) {
    mask own;
    size_t used = 0;
    *out = '\0';
    if (!find_share(index, count, &own)) return;
    for (int i = 0; i < PROCESSORS_MAX && used < size; i++) {
        int first = i;
        if (!has(&own, i)) continue;
        while (i + 1 < PROCESSORS_MAX && has(&own, i + 1)) i++;
        int n = snprintf(out + used, size - used, i > first ? "%s%d-%d" : "%s%d", used ? "," : "",
                         first, i);
        used += (size_t)n;
    }
}
