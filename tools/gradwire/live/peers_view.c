#include "live/peers_view.h"

#include <stdlib.h>

#include "observe/exchange.h"
#include "observe/show.h"

typedef struct pair {
    const live_worker *worker;
    const trace_peer *peer;
    double rates[TRACE_PEER_COUNTERS];  // each second
    int number;                         // in the order of ranks
} pair;

static double bytes_of(const pair *x) {
    return x->rates[TRACE_PEER_BYTES_SENT] + x->rates[TRACE_PEER_BYTES_RECEIVED] +
           x->rates[TRACE_PEER_SHARED_SENT] + x->rates[TRACE_PEER_SHARED_RECEIVED];
}

static int by_bytes(const void *a, const void *b) {
    const pair *x = a, *y = b;
    double more = bytes_of(y) - bytes_of(x);
    return more ? (more > 0) - (more < 0) : x->number - y->number;
}

// Without memory there are none.
static pair *take_pairs(const live *l, int *out_count) {
    size_t most = 0;
    for (int i = 0; i < l->count; i++) most += (size_t)l->workers[i].peers.count;
    pair *pairs = calloc(most + 1, sizeof *pairs);
    *out_count = 0;
    for (int i = 0; pairs && i < l->count; i++) {
        const live_worker *w = &l->workers[i];
        for (int k = 0; k < w->peers.count; k++) {
            pair *x = &pairs[*out_count];
            *x = (pair){ .worker = w, .peer = &w->peers.of[k], .number = (*out_count)++ };
            live_peer_rates(l, w, x->peer, x->rates);
        }
    }
    return pairs;
}

static void format_pair(const live *l, const pair *x, char *line, size_t size) {
    char name[EXCHANGE_NAME_SIZE];
    const image_agent *a = live_agent(l, x->worker);
    const double *r = x->rates;
    exchange_name(x->peer, name, sizeof name);
    snprintf(line, size, "%4d  %-16.40s %8d  %-12s %-6s %9.1f %9.1f %9s %9s %9s %9s %9s %9s",
             a ? a->rank : -1, a ? a->name : "-", (int)x->worker->pid, name,
             x->peer->transport[0] ? x->peer->transport : "-", r[TRACE_PEER_CALLS_MADE],
             r[TRACE_PEER_CALLS_SERVED], show_size((uint64_t)r[TRACE_PEER_BYTES_RECEIVED]).text,
             show_size((uint64_t)r[TRACE_PEER_BYTES_SENT]).text,
             show_size((uint64_t)r[TRACE_PEER_SHARED_RECEIVED]).text,
             show_size((uint64_t)r[TRACE_PEER_SHARED_SENT]).text,
             show_size(x->peer->counters[TRACE_PEER_QUEUED]).text,
             show_size(trace_peer_bytes(x->peer)).text);
}

void peers_view_write(const live *l, const view_options *o, FILE *out) {
    char line[PAGE_LINE_SIZE];
    int count;
    pair *pairs = take_pairs(l, &count);
    int room = o->height ? o->height - 2 : count;  // a line above, one below
    if (pairs && o->order == VIEW_BY_BYTES) qsort(pairs, (size_t)count, sizeof *pairs, by_bytes);
    snprintf(line, sizeof line, "%4s  %-16s %8s  %-12s %-6s %9s %9s %9s %9s %9s %9s %9s %9s",
             "RANK", "WORKER", "PID", "WITH", "OVER", "CALLS/S", "SERVED/S", "IN/S", "OUT/S",
             "SHR IN/S", "SHR OUT/S", "QUEUED", "ALL");
    page_write_line(line, o, out);
    for (int i = 0; pairs && i < count && i < room; i++) {
        format_pair(l, &pairs[i], line, sizeof line);
        page_write_line(line, o, out);
    }
    free(pairs);
}

// ---- JSON ---------------------------------------------------------------------------------------

json_t *peers_view_json(const live *l, const live_worker *w) {
    json_t *out = json_array();
    for (int i = 0; i < w->peers.count; i++) {
        double r[TRACE_PEER_COUNTERS];
        json_t *x = exchange_json_of(&w->peers.of[i]);
        live_peer_rates(l, w, &w->peers.of[i], r);
        json_t *rates = json_pack(
            "{sf sf sf sf sf sf}", "calls_per_s", r[TRACE_PEER_CALLS_MADE], "served_per_s",
            r[TRACE_PEER_CALLS_SERVED], "received_bytes_per_s", r[TRACE_PEER_BYTES_RECEIVED],
            "sent_bytes_per_s", r[TRACE_PEER_BYTES_SENT], "shared_received_bytes_per_s",
            r[TRACE_PEER_SHARED_RECEIVED], "shared_sent_bytes_per_s", r[TRACE_PEER_SHARED_SENT]);
        json_object_update(x, rates);
        json_decref(rates);
        json_array_append_new(out, x);
    }
    return out;
}
