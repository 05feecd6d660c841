#include "timeline/visit.h"

const char *visit_argument_text(visit_argument_name name) {
    static const char *const texts[] = { "bytes",  "number",    "group",         "status",
                                         "rank",   "members",   "step",          "duration_ns",
                                         "count",  "begin",     "end",           "note",
                                         "method", "offset_ns", "uncertainty_ns" };
    _Static_assert(sizeof texts / sizeof texts[0] == VISIT_ARGUMENT_NAMES, "a text for each");
    return texts[name];
}
