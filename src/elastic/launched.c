#include "elastic/launched.h"

#include "base/limits.h"
#include "base/variables.h"

#include <stdlib.h>
#include <string.h>

// "MIN:MAX".
static bool parse_range(const char *text, int *min, int *max) {
    char first[16];
    const char *colon = strchr(text, ':');
    size_t size = colon ? (size_t)(colon - text) : 0;
    if (size == 0 || size >= sizeof first) return false;
    memcpy(first, text, size);
    first[size] = '\0';
    return variable_number(first, LIMIT_WORKERS, min) &&
           variable_number(colon + 1, LIMIT_WORKERS, max) && *min >= 1 && *min <= *max;
}

bool launched_read(gw_scope *s, char *(*variable)(const char *name), launched *out) {
    const char *range = variable("GW_ELASTIC"), *creates = variable("GW_ELASTIC_CREATE");
    gw_launch place = gw_rpc_launched();
    *out = (launched){ .slot = place.rank, .attempt = place.attempt };
    if (place.world_size > 0) out->size = place.world_size;
    if (!range || !*range) return true;
    if (!parse_range(range, &out->min, &out->max))
        return scope_fail(s, GW_INVALID,
                          "GW_ELASTIC is \"%.60s\", not MIN:MAX with 1 <= MIN <= MAX <= %d", range,
                          LIMIT_WORKERS);
    out->is_elastic = true;
    // Other launchers start all ranks alike, and may start one again alone.
    bool is_given = creates && *creates;
    out->creates = is_given ? !strcmp(creates, "1") : place.rank == 0 && place.attempt == 0;
    return true;
}

// A predecessor may still be a member when its successor joins, and a name can be used again only after that.
const char *launched_name(gw_scope *s, const launched *at) {
    const char *role = getenv("GW_NAME");
    const char *name = role && *role ? role : gw_format(s, "worker%d", at->slot);
    if (at->slot < 0) return NULL;
    return at->attempt == 0 ? name : gw_format(s, "%s.%d", name, at->attempt);
}

bool launched_settle(gw_scope *s, const launched *at, int world_size, gw_elastic_options *o) {
    if (!o->min) o->min = at->is_elastic ? at->min : 1;
    if (world_size)
        o->size = world_size;
    else if (!o->size)
        o->size = !at->is_elastic ? o->min : at->size ? at->size : at->max;
    if (o->min <= o->size) return true;
    return scope_fail(s, GW_INVALID,
                      "gw_elastic_open: .min is %d, but the job begins with %d members", o->min,
                      o->size);
}
