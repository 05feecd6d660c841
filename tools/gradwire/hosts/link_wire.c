#include "hosts/link_wire.h"

#include <stdio.h>

gw_map *link_wire_encode(gw_scope *s, const link_message *m) {
    gw_map *out = gw_map_open(s);
    gw_map_put(s, out, "kind", (int)m->kind);
    gw_map_put(s, out, "node", m->node);
    gw_map_put(s, out, "number", m->number);
    gw_map_put(s, out, "rank", m->rank);
    gw_map_put(s, out, "attempt", m->attempt);
    gw_map_put(s, out, "count", m->count);
    gw_map_put(s, out, "flags", m->flags);
    gw_map_put(s, out, "refusal", (int)m->refusal);
    gw_map_put(s, out, "ms", m->ms);
    gw_map_put(s, out, "incarnation", (int64_t)m->incarnation);
    gw_map_put(s, out, "text", (const char *)m->text);
    return out;
}

static int64_t number_in(gw_scope *s, const gw_map *from, const char *name) {
    return gw_int_of(s, gw_map_get(s, from, name));
}

void link_wire_decode(gw_scope *s, const gw_map *from, link_message *out) {
    *out = (link_message){ .kind = (link_kind)number_in(s, from, "kind"),
                           .node = (int)number_in(s, from, "node"),
                           .number = (int)number_in(s, from, "number"),
                           .rank = (int)number_in(s, from, "rank"),
                           .attempt = (int)number_in(s, from, "attempt"),
                           .count = (int)number_in(s, from, "count"),
                           .flags = (int)number_in(s, from, "flags"),
                           .refusal = (budget_decision)number_in(s, from, "refusal"),
                           .ms = number_in(s, from, "ms"),
                           .incarnation = (uint64_t)number_in(s, from, "incarnation") };
    const char *text = gw_string_of(s, gw_map_get(s, from, "text"));
    snprintf(out->text, sizeof out->text, "%s", text ? text : "");
}
