#include "net/tls/backoff.h"

#include <string.h>

#define MS INT64_C(1000000)
#define EACH_NS (BACKOFF_EACH_MS * MS)
#define FREE_NS (BACKOFF_FREE * EACH_NS)
#define MAX_NS (BACKOFF_MAX_MS * MS)

// IPv4 as ::ffff:a.b.c.d counts as a whole, IPv6 by its network.
static backoff_address network_of(const backoff_address *a) {
    static const uint8_t v4[12] = { [10] = 0xff, 0xff };
    backoff_address n = *a;
    if (memcmp(n.bytes, v4, sizeof v4) != 0) memset(n.bytes + 8, 0, 8);
    return n;
}

// NULL: nothing is held against |address|.
static const backoff_place *find_place(const backoff *b, const backoff_address *address,
                                       int64_t now_ns) {
    const backoff_address n = network_of(address);
    for (const backoff_place *p = b->places; p < b->places + BACKOFF_PLACES; p++)
        if (p->clear_ns > now_ns && memcmp(&p->address, &n, sizeof n) == 0) return p;
    return NULL;
}

// Its own, or else the one that is forgotten first.
static backoff_place *place_of(backoff *b, const backoff_address *address, int64_t now_ns) {
    const backoff_place *own = find_place(b, address, now_ns);
    if (own) return &b->places[own - b->places];
    backoff_place *oldest = b->places;
    for (int i = 1; i < BACKOFF_PLACES; i++)
        if (b->places[i].clear_ns < oldest->clear_ns) oldest = &b->places[i];
    *oldest = (backoff_place){ network_of(address), now_ns };
    return oldest;
}

bool backoff_is_full(const backoff *b, const backoff_address *address, int64_t now_ns) {
    const backoff_place *p = find_place(b, address, now_ns);
    return p && p->clear_ns + EACH_NS > now_ns + FREE_NS + MAX_NS;
}

static void count(backoff_place *p, int64_t now_ns) {
    int64_t most = now_ns + FREE_NS + MAX_NS;
    if (p->clear_ns < now_ns) p->clear_ns = now_ns;
    p->clear_ns += EACH_NS;
    if (p->clear_ns > most) p->clear_ns = most;
}

int64_t backoff_begin(backoff *b, const backoff_address *address, int64_t now_ns,
                      bool *out_counted) {
    backoff_place *p = place_of(b, address, now_ns);
    int64_t begins_ns = p->clear_ns - FREE_NS;
    *out_counted = begins_ns > now_ns;
    if (!*out_counted) return now_ns;
    count(p, now_ns);
    return begins_ns;
}

void backoff_fail(backoff *b, const backoff_address *address, int64_t now_ns) {
    count(place_of(b, address, now_ns), now_ns);
}
