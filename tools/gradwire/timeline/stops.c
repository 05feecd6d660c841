#include "timeline/stops.h"

#include <stdlib.h>

// Room for one more at powers of two.
static void *grow(void *array, int count, size_t size) {
    if (count & (count - 1)) return array;
    return realloc(array, (size_t)(count ? 2 * count : 1) * size);
}

static stops_sequence *find_sequence(stops *s, uint32_t id, int64_t number) {
    uint32_t *index = table_put(&s->by_id, id, 0, (uint32_t)s->count);
    if (!index) return NULL;
    if (*index < (uint32_t)s->count) return &s->sequences[*index];
    stops_sequence *larger = grow(s->sequences, s->count, sizeof *larger);
    if (!larger) return NULL;
    s->sequences = larger;
    s->sequences[s->count] = (stops_sequence){ .id = id, .first_begun = number };
    return &s->sequences[s->count++];
}

static stops_member *find_member(stops *s, stops_sequence *x, int image) {
    uint32_t *index =
        table_put(&s->members, x->id, (uint64_t)(uint32_t)image, (uint32_t)x->member_count);
    if (!index) return NULL;
    if (*index < (uint32_t)x->member_count) return &x->members[*index];
    stops_member *larger = grow(x->members, x->member_count, sizeof *larger);
    if (!larger) return NULL;
    x->members = larger;
    x->members[x->member_count] =
        (stops_member){ .image = image, .last_entered = -1, .last_ended = -1, .last_failed = -1 };
    return &x->members[x->member_count++];
}

bool stops_add(stops *s, const visit_event *e) {
    int64_t number = (uint32_t)e->id;
    stops_sequence *x = find_sequence(s, (uint32_t)(e->id >> 32), number);
    stops_member *m = x ? find_member(s, x, e->image) : NULL;
    if (!m) return false;
    if (e->group) x->group = e->group;
    if (number < x->first_begun) x->first_begun = number;
    if (number > x->last_begun) x->last_begun = number;
    if (number > m->last_entered) m->last_entered = number;
    int64_t *end = e->has_failed ? &m->last_failed : &m->last_ended;
    if (e->has_end && number > *end) *end = number;
    return true;
}

void stops_finish(stops_sequence *s) {
    s->has_ended = true;
    s->all_ended = INT64_MAX;
    for (int i = 0; i < s->member_count; i++) {
        stops_member *m = &s->members[i];
        s->has_ended &= m->last_ended >= 0;
        if (m->last_ended < 0) m->last_ended = s->first_begun - 1;
        if (m->last_ended < s->all_ended) s->all_ended = m->last_ended;
    }
}

void stops_fini(stops *s) {
    for (int i = 0; i < s->count; i++) free(s->sequences[i].members);
    free(s->sequences);
    table_fini(&s->by_id);
    table_fini(&s->members);
    *s = (stops){ 0 };
}
