#include "observe/exchange.h"

#include "observe/show.h"

void exchange_name(const trace_peer *x, char *out, size_t size) {
    if (x->rank >= 0)
        snprintf(out, size, "rank %d", x->rank);
    else
        snprintf(out, size, "%d others", x->workers);
}

static unsigned long long count(const trace_peer *x, trace_peer_counter i) {
    return x->counters[i];
}

static void write_peer(const trace_peer *x, FILE *out) {
    char name[EXCHANGE_NAME_SIZE];
    const uint64_t *n = x->counters;
    exchange_name(x, name, sizeof name);
    fprintf(out, "    with %s", name);
    if (x->transport[0]) fprintf(out, " (%s)", x->transport);
    fprintf(out, ": sent %s in %llu messages, received %s in %llu",
            show_size(n[TRACE_PEER_BYTES_SENT]).text, count(x, TRACE_PEER_MESSAGES_SENT),
            show_size(n[TRACE_PEER_BYTES_RECEIVED]).text, count(x, TRACE_PEER_MESSAGES_RECEIVED));
    if (n[TRACE_PEER_SHARED_SENT] || n[TRACE_PEER_SHARED_RECEIVED])
        fprintf(out, "; in shared memory %s to it, %s of it",
                show_size(n[TRACE_PEER_SHARED_SENT]).text,
                show_size(n[TRACE_PEER_SHARED_RECEIVED]).text);
    fprintf(out, "; calls %llu made, %llu served", count(x, TRACE_PEER_CALLS_MADE),
            count(x, TRACE_PEER_CALLS_SERVED));
    fprintf(out, "; queued %s, at most %s", show_size(n[TRACE_PEER_QUEUED]).text,
            show_size(n[TRACE_PEER_QUEUED_MAX]).text);
    if (n[TRACE_PEER_LENT]) fprintf(out, "; lent %s", show_size(n[TRACE_PEER_LENT]).text);
    if (n[TRACE_PEER_WAITED_US])
        fprintf(out, "; calls waited %s for room",
                show_duration((int64_t)n[TRACE_PEER_WAITED_US] * 1000).text);
    if (n[TRACE_PEER_RECONNECTS])
        fprintf(out, "; %llu reconnects", count(x, TRACE_PEER_RECONNECTS));
    fprintf(out, "\n");
}

void exchange_write(const trace_peers *peers, FILE *out) {
    for (int i = 0; i < peers->count; i++) write_peer(&peers->of[i], out);
}

// ---- JSON ---------------------------------------------------------------------------------------

json_t *exchange_json_of(const trace_peer *x) {
    static const char *const names[TRACE_PEER_COUNTERS] = {
        [TRACE_PEER_CALLS_MADE] = "calls_made",
        [TRACE_PEER_CALLS_SERVED] = "calls_served",
        [TRACE_PEER_MESSAGES_SENT] = "messages_sent",
        [TRACE_PEER_MESSAGES_RECEIVED] = "messages_received",
        [TRACE_PEER_BYTES_SENT] = "bytes_sent",
        [TRACE_PEER_BYTES_RECEIVED] = "bytes_received",
        [TRACE_PEER_SHARED_SENT] = "shared_bytes_sent",
        [TRACE_PEER_SHARED_RECEIVED] = "shared_bytes_received",
        [TRACE_PEER_RECONNECTS] = "reconnects",
        [TRACE_PEER_QUEUED] = "queued_bytes",
        [TRACE_PEER_QUEUED_MAX] = "queued_bytes_max",
        [TRACE_PEER_LENT] = "lent_bytes",
        [TRACE_PEER_WAITED_US] = "waited_us",
    };
    json_t *out = json_object();
    json_object_set_new(out, "rank", x->rank < 0 ? json_null() : json_integer(x->rank));
    json_object_set_new(out, "workers", json_integer(x->workers));
    json_object_set_new(out, "transport",
                        x->transport[0] ? json_string(x->transport) : json_null());
    for (int i = 0; i < TRACE_PEER_COUNTERS; i++)
        json_object_set_new(out, names[i], json_integer((json_int_t)x->counters[i]));
    return out;
}

json_t *exchange_json(const trace_peers *peers) {
    json_t *out = json_array();
    for (int i = 0; i < peers->count; i++)
        json_array_append_new(out, exchange_json_of(&peers->of[i]));
    return out;
}
