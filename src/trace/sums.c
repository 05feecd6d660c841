#include "trace/sums.h"

#include <stdio.h>
#include <string.h>

static uint32_t hash_of(const char *text, uint32_t h) {
    for (; *text; text++) h = (h ^ (unsigned char)*text) * 16777619u;
    return h;
}

static bool has_text(const char *kept, size_t size, const char *text) {
    return strncmp(kept, text, size - 1) == 0;
}

static trace_sum *find(trace_sums *s, const char *name, const char *in) {
    uint32_t hash = hash_of(in, hash_of(name, 2166136261u) * 16777619u);
    int listed = s->count < TRACE_SUMS_MAX ? s->count : TRACE_SUMS_MAX;
    for (int i = 0; i < listed; i++) {
        trace_sum *x = &s->of[i];
        if (x->hash == hash && has_text(x->name, sizeof x->name, name) &&
            has_text(x->in, sizeof x->in, in))
            return x;
    }
    if (s->count > TRACE_SUMS_MAX) return &s->of[TRACE_SUMS_MAX];
    trace_sum *x = &s->of[s->count++];
    *x = (trace_sum){ .hash = hash };
    if (s->count > TRACE_SUMS_MAX) return x;
    snprintf(x->name, sizeof x->name, "%s", name[0] ? name : "?");
    snprintf(x->in, sizeof x->in, "%s", in);
    return x;
}

void trace_sums_add(trace_sums *s, const char *name, const char *in, bool has_failed, int64_t ns) {
    trace_sum *x = find(s, name, in);
    x->counters[TRACE_SUM_COUNT]++;
    x->counters[TRACE_SUM_FAILED] += has_failed;
    if (ns > 0) x->counters[TRACE_SUM_NS] += (uint64_t)ns;
}
