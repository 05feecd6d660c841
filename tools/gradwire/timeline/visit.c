#include "timeline/visit.h"

const char *visit_argument_text(visit_argument_name name) {
    static const char *const texts[] = { "bytes", "number",  "group",     "status",
                                         "rank",  "members", "step",      "duration_ns",
                                         "count", "device",  "begin",     "end",
                                         "note",  "method",  "offset_ns", "uncertainty_ns" };
    _Static_assert(sizeof texts / sizeof texts[0] == VISIT_ARGUMENT_NAMES, "a text for each");
    return texts[name];
}

static void ignore_start(void *state, int64_t at_ns, int64_t wall_ns) {
    (void)state, (void)at_ns, (void)wall_ns;
}

static void ignore_name(void *state, uint32_t number, const char *text) {
    (void)state, (void)number, (void)text;
}

static void ignore_track(void *state, const visit_track *t) {
    (void)state, (void)t;
}

static void ignore_event(void *state, const visit_event *e) {
    (void)state, (void)e;
}

static void ignore_counter(void *state, uint32_t t, int64_t at_ns, double value, const char *note) {
    (void)state, (void)t, (void)at_ns, (void)value, (void)note;
}

visitor visitor_ignoring(void *state) {
    return (visitor){ .state = state,
                      .start = ignore_start,
                      .name = ignore_name,
                      .track = ignore_track,
                      .slice = ignore_event,
                      .instant = ignore_event,
                      .counter = ignore_counter };
}
