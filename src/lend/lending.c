// What the service of zero-copy sharing keeps of each member, and its description.
#include "lend/lending.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void open_peer(void *part) {
    lend_peer *p = part;
    list_init(&p->held);
    list_init(&p->returned);
}

const service_data lend_data = { .member_size = sizeof(lend_peer), .member_init = open_peer };

__attribute__((format(printf, 2, 3))) static const char *describe(char out[LEND_DESCRIPTION_BYTES],
                                                                  const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(out, LEND_DESCRIPTION_BYTES, format, args);
    va_end(args);
    return out;
}

static const char *describe_ways(const lend_peer *p, char out[LEND_DESCRIPTION_BYTES]) {
    const lend_reasons *why = &p->reasons;
    bool is_mapped = p->ways & 1u << WAY_MAP, is_read = p->ways & 1u << WAY_READ;
    if (is_mapped && is_read)
        return describe(out, "lent, or pulled if they are in the program's own memory");
    if (is_mapped)
        return describe(out, "lent, or sent if they are in the program's own memory: %s",
                        why->read);
    if (is_read) return describe(out, "pulled, not lent: %s", why->map);
    if (strcmp(why->map, why->read) == 0) return describe(out, "sent: %s", why->map);
    return describe(out, "sent, not lent: %s; not pulled: %s", why->map, why->read);
}

const char *lend_describe_on_loop(const agent *a, int rank, char out[LEND_DESCRIPTION_BYTES]) {
    const lend_peer *p = lend_peer_of(a, rank);
    const lending *l = lending_of(a);
    if (l->off) return describe(out, "sent: turned off here by %s", l->off);
    switch (p->state) {
    case OFFER_NONE: return describe(out, "none was sent yet");
    case OFFER_MADE: return describe(out, "sent, until that worker has answered the offer to lend");
    case OFFER_ANSWERED: break;
    }
    return describe_ways(p, out);
}

lend_counts lend_count_on_loop(const agent *a) {
    lend_counts counts = lending_of(a)->counts;
    counts.lent_now = 0;
    for (int rank = 0; rank < a->member_count; rank++)
        counts.lent_now += lend_peer_of(a, rank)->leases.count;
    return counts;
}
