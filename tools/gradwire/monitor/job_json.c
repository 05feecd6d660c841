#include "monitor/job_json.h"

#include <math.h>
#include <stdlib.h>

static const char *state_name(model_state state) {
    static const char *const names[] = { "starting", "runs", "stuck", "ended" };
    return names[state];
}

static json_t *workers_json(const model *m) {
    json_t *out = json_array();
    for (int i = 0; i < m->count; i++) {
        const model_worker *w = m->workers[i];
        json_t *one = live_row_json(&w->row);
        if (one && w->ended_ms)
            json_object_set_new(one, "ended_before_ms", json_integer(m->now_ms - w->ended_ms));
        json_array_append_new(out, one);
    }
    return out;
}

static json_t *hang_json(const model *m) {
    json_t *out = json_array();
    for (int i = 0; i < m->finding_count; i++) {
        const model_finding *f = &m->findings[i];
        json_array_append_new(
            out, json_pack("{si sb ss}", "depth", f->depth, "cycle", f->is_cycle, "text", f->text));
    }
    return out;
}

static json_t *events_json(const model *m) {
    json_t *out = json_array();
    const model_event *e;
    for (int i = 0; (e = model_event_at(m, i)); i++)
        json_array_append_new(
            out, json_pack("{sI sI sb ss}", "before_ms", (json_int_t)(m->now_ms - e->at_ms),
                           "time_s", (json_int_t)e->wall_s, "bad", e->is_bad, "text", e->text));
    return out;
}

// A step without a value is null.
static json_t *steps_json(const model *m, history_span span, history_series series) {
    json_t *out = json_array();
    for (int age = history_steps(span); age-- > 0;) {
        double x = history_value(&m->total, span, series, m->now_ms / 1000, age);
        json_array_append_new(out, isnan(x) ? json_null() : json_real(x));
    }
    return out;
}

static json_t *history_json(const model *m, history_span span) {
    static const char *const names[HISTORY_SERIES] = { "calls_per_s",       "served_per_s",
                                                       "collectives_per_s", "received_bytes_per_s",
                                                       "sent_bytes_per_s",  "resident_bytes",
                                                       "processors" };
    json_t *out = json_object();
    for (int s = 0; s < HISTORY_SERIES; s++)
        json_object_set_new(out, names[s], steps_json(m, span, (history_series)s));
    return out;
}

void job_json_write(const model *m, FILE *out) {
    char sentence[MODEL_TEXT_SIZE];
    model_describe(m, sentence, sizeof sentence);
    json_t *all = json_pack(
        "{ss ss ss sI sI si so so so s{so so}}", "job", m->job, "state",
        state_name(model_state_of(m)), "text", sentence, "time_s", (json_int_t)m->wall_s,
        "unmoved_ms", (json_int_t)model_unmoved_ms(m), "left_out", m->left_out, "workers",
        workers_json(m), "hang", hang_json(m), "events", events_json(m), "history", "seconds",
        history_json(m, HISTORY_BY_SECOND), "minutes", history_json(m, HISTORY_BY_MINUTE));
    char *text = all ? json_dumps(all, JSON_COMPACT | JSON_REAL_PRECISION(6)) : NULL;
    fprintf(out, "%s\n", text ? text : "null");
    free(text);
    json_decref(all);
}
