#include "observe/json.h"

#include <inttypes.h>
#include <stdlib.h>

#include "observe/show.h"
#include "trace/kinds.h"

// Numbers of 64 bits do not fit into those of JSON everywhere.
static json_t *hexadecimal(uint64_t x) {
    return json_sprintf("%" PRIx64, x);
}

json_t *json_of_activity(const image *x, const trace_activity *a) {
    json_t *ranks = json_array();
    int listed = a->rank_count < TRACE_RANKS_MAX ? a->rank_count : TRACE_RANKS_MAX;
    for (int i = 0; i < listed; i++) json_array_append_new(ranks, json_integer(a->ranks[i]));
    return json_pack("{ss ss ss ss sI sI sI sI so si}", "kind", show_kind(a->kind), "what", a->what,
                     "in", a->in, "site", a->site, "for_ms",
                     (json_int_t)(image_activity_age_ns(x, a) / 1000000), "caller",
                     (json_int_t)a->caller, "call", (json_int_t)a->call, "number",
                     (json_int_t)a->number, "ranks", ranks, "rank_count", a->rank_count);
}

json_t *json_of_record(const image *x, const image_record *r) {
    char text[SHOW_SIZE];
    show_record(x, r, text, sizeof text);
    return json_pack("{sf ss ss so so ss}", "before_s",
                     (double)(x->taken.monotonic_ns - r->at_ns) * 1e-9, "kind",
                     trace_kinds[r->kind].text, "name", image_name(x, r), "id", hexadecimal(r->id),
                     "value", hexadecimal(r->value), "text", text);
}

void json_write(json_t *all, FILE *out) {
    char *text = all ? json_dumps(all, JSON_INDENT(1)) : NULL;
    fprintf(out, "%s\n", text ? text : "null");
    free(text);
    json_decref(all);
}
