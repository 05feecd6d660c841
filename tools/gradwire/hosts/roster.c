#include "hosts/roster.h"

#include "base/mutation.h"

#include <stdlib.h>
#include <string.h>

bool roster_open(roster *r, int max, bool is_dynamic) {
    *r = (roster){ .max = max,
                   .hosts = calloc((size_t)max, sizeof *r->hosts),
                   .spares = is_dynamic ? calloc(SPARES_MAX, sizeof *r->spares) : NULL };
    if (!r->hosts || (is_dynamic && !r->spares)) {
        roster_close(r);
        return false;
    }
    for (int i = 0; i < max && !is_dynamic; i++)
        r->hosts[i] = (roster_host){ .is_in = true, .peer = i };
    r->count = is_dynamic ? 0 : max;
    return true;
}

void roster_close(roster *r) {
    free(r->hosts);
    free(r->spares);
    *r = (roster){ 0 };
}

int roster_find(const roster *r, int peer) {
    for (int i = 0; i < r->max; i++)
        if (r->hosts[i].is_in && r->hosts[i].peer == peer) return i;
    return NO_NODE;
}

// ---- Spares -----------------------------------------------------------------------------------------

static int find_spare(const roster *r, int peer) {
    int at = 0;
    while (at < r->spare_count && r->spares[at] != peer) at++;
    return at;
}

bool roster_add_spare(roster *r, int peer) {
    bool is_known = find_spare(r, peer) < r->spare_count || roster_find(r, peer) != NO_NODE;
    if (is_known || !r->spares || r->spare_count == SPARES_MAX) return false;
    r->spares[r->spare_count++] = peer;
    return true;
}

void roster_remove_spare(roster *r, int peer) {
    int at = find_spare(r, peer);
    if (at == r->spare_count) return;
    r->spare_count--;
    memmove(r->spares + at, r->spares + at + 1, (size_t)(r->spare_count - at) * sizeof *r->spares);
}

// ---- Numbers ----------------------------------------------------------------------------------------

void roster_remove(roster *r, int node) {
    if (!r->hosts[node].is_in) return;
    r->hosts[node].is_in = false;
    r->count--;
}

bool roster_can_admit(const roster *r) {
    return r->spare_count > 0 && r->count < r->max;
}

int roster_admit(roster *r) {
    if (!roster_can_admit(r)) return NO_NODE;
    int node = 0;
    while (r->hosts[node].is_in && !has_mutation(MUTATION_NUMBER_IN_USE)) node++;
    int peer = r->spares[has_mutation(MUTATION_SPARE_OVERTAKEN) ? r->spare_count - 1 : 0];
    r->hosts[node] =
        (roster_host){ .is_in = true, .peer = peer, .was_used = r->hosts[node].was_used };
    r->count++;
    roster_remove_spare(r, peer);
    return node;
}

void roster_renumber(roster *r) {
    int count = 0;
    for (int i = 0; i < r->max; i++) {
        const roster_host h = r->hosts[i];
        r->hosts[i] = (roster_host){ 0 };
        if (h.is_in && !h.is_leaving)
            r->hosts[count++] = (roster_host){ .is_in = true, .peer = h.peer };
    }
    r->count = count;
    while (roster_admit(r) != NO_NODE) continue;
}

int roster_staying_count(const roster *r) {
    int count = 0;
    for (int i = 0; i < r->max; i++) count += r->hosts[i].is_in && !r->hosts[i].is_leaving;
    return count;
}

// ---- Flags ------------------------------------------------------------------------------------------

bool roster_all(const roster *r, roster_flag flag) {
    for (int i = 0; i < r->max; i++)
        if (r->hosts[i].is_in && !r->hosts[i].flags[flag]) return false;
    return true;
}

void roster_clear(roster *r, roster_flag flag) {
    for (int i = 0; i < r->max; i++) r->hosts[i].flags[flag] = false;
}
