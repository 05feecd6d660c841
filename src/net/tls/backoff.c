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

// NULL: no failed handshakes of |address| are remembered.
static const backoff_entry *find_entry(const backoff *b, const backoff_address *address,
                                       int64_t now_ns) {
    const backoff_address n = network_of(address);
    for (const backoff_entry *p = b->entries; p < b->entries + BACKOFF_ENTRIES; p++)
        if (p->clear_ns > now_ns && memcmp(&p->address, &n, sizeof n) == 0) return p;
    return NULL;
}

// The entry of |address|, or else a new one in place of the entry that expires first.
static backoff_entry *entry_of(backoff *b, const backoff_address *address, int64_t now_ns) {
    const backoff_entry *own = find_entry(b, address, now_ns);
    if (own) return &b->entries[own - b->entries];
    backoff_entry *oldest = b->entries;
    for (int i = 1; i < BACKOFF_ENTRIES; i++)
        if (b->entries[i].clear_ns < oldest->clear_ns) oldest = &b->entries[i];
    *oldest = (backoff_entry){ network_of(address), now_ns };
    return oldest;
}

bool backoff_is_full(const backoff *b, const backoff_address *address, int64_t now_ns) {
    const backoff_entry *p = find_entry(b, address, now_ns);
    return p && p->clear_ns + EACH_NS > now_ns + FREE_NS + MAX_NS;
}

static void count(backoff_entry *p, int64_t now_ns) {
    int64_t most = now_ns + FREE_NS + MAX_NS;
    if (p->clear_ns < now_ns) p->clear_ns = now_ns;
    p->clear_ns += EACH_NS;
    if (p->clear_ns > most) p->clear_ns = most;
}

int64_t backoff_begin(backoff *b, const backoff_address *address, int64_t now_ns,
                      bool *out_counted) {
    backoff_entry *p = entry_of(b, address, now_ns);
    int64_t begins_ns = p->clear_ns - FREE_NS;
    *out_counted = begins_ns > now_ns;
    if (!*out_counted) return now_ns;
    count(p, now_ns);
    return begins_ns;
}

void backoff_fail(backoff *b, const backoff_address *address, int64_t now_ns) {
    count(entry_of(b, address, now_ns), now_ns);
}
