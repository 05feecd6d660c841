#include "observe/sums.h"

#include "observe/show.h"

const char *sums_name(const trace_sum *x) {
    return x->name[0] ? x->name : "other";
}

// ---- Text ---------------------------------------------------------------------------------------

static void write_one(const char *what, const trace_sum *x, FILE *out) {
    const uint64_t *n = x->counters;
    fprintf(out, "    %s %s", what, sums_name(x));
    if (x->in[0]) fprintf(out, " of %s", x->in);
    fprintf(out, ": %llu", (unsigned long long)n[TRACE_SUM_COUNT]);
    if (n[TRACE_SUM_FAILED]) fprintf(out, ", %llu failed", (unsigned long long)n[TRACE_SUM_FAILED]);
    if (n[TRACE_SUM_NS])
        fprintf(out, ", %.3f s, mean %.1f us", (double)n[TRACE_SUM_NS] * 1e-9,
                (double)n[TRACE_SUM_NS] * 1e-3 / (double)n[TRACE_SUM_COUNT]);
    fprintf(out, "\n");
}

void sums_write(const trace_table *t, FILE *out) {
    static const char *const words[TRACE_SUM_KINDS] = { "calls of", "bodies of", "collective" };
    for (int kind = 0; kind < TRACE_SUM_KINDS; kind++)
        for (int i = 0; i < t->sums[kind].count; i++)
            write_one(words[kind], &t->sums[kind].of[i], out);
}

// ---- JSON ---------------------------------------------------------------------------------------

static json_t *one_json(const trace_sum *x, bool is_collective) {
    const uint64_t *n = x->counters;
    json_t *out =
        json_pack("{ss sI sI sf}", is_collective ? "operation" : "function", sums_name(x), "count",
                  (json_int_t)n[TRACE_SUM_COUNT], "failed", (json_int_t)n[TRACE_SUM_FAILED],
                  "seconds", (double)n[TRACE_SUM_NS] * 1e-9);
    if (is_collective) json_object_set_new(out, "group", json_string(x->in));
    return out;
}

static json_t *kind_json(const trace_table *t, trace_sum_kind kind) {
    json_t *out = json_array();
    for (int i = 0; i < t->sums[kind].count; i++)
        json_array_append_new(out, one_json(&t->sums[kind].of[i], kind == TRACE_SUMS_COLLECTIVES));
    return out;
}

json_t *sums_json(const trace_table *t) {
    return json_pack("{so so so}", "made", kind_json(t, TRACE_SUMS_MADE), "served",
                     kind_json(t, TRACE_SUMS_SERVED), "collectives",
                     kind_json(t, TRACE_SUMS_COLLECTIVES));
}
