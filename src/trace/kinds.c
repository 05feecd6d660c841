#include "trace/kinds.h"

#include <string.h>

const trace_kind_info trace_kinds[TRACE_KIND_COUNT] = {
    [TRACE_NONE] = { "nothing", 0, TRACE_INSTANT },
#define TRACE_KIND(kind, level, phase, text) [TRACE_##kind] = { text, level, phase },
    TRACE_KINDS(TRACE_KIND)
#undef TRACE_KIND
};

static const struct {
    const char *name;
    uint32_t level;
} levels[] = {
    { "job", TRACE_JOB },   { "coll", TRACE_COLL }, { "pass", TRACE_PASS }, { "step", TRACE_STEP },
    { "slow", TRACE_SLOW }, { "call", TRACE_CALL }, { "user", TRACE_USER }, { "ref", TRACE_REF },
    { "wire", TRACE_WIRE }, { "ops", TRACE_OPS },   { "all", TRACE_ALL },
};

uint32_t trace_level_of(const char *name, size_t size) {
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++)
        if (strlen(levels[i].name) == size && memcmp(levels[i].name, name, size) == 0)
            return levels[i].level;
    return 0;
}

const char *trace_level_names(void) {
    return "job, coll, pass, step, slow, call, user, ref, wire, ops, all";
}

bool trace_levels_parse(const char *text, uint32_t *out, const char **out_wrong, size_t *out_size) {
    uint32_t sum = 0;
    for (const char *at = text;; at++) {
        size_t size = strcspn(at, ",");
        uint32_t level = trace_level_of(at, size);
        if (!level) {
            *out_wrong = at;
            *out_size = size;
            return false;
        }
        sum |= level;
        at += size;
        if (!*at) break;
    }
    *out = sum;
    return true;
}
