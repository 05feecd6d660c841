#include "trace/table.h"

#include "trace/layout.h"

#include <stdio.h>
#include <string.h>

// Of one activity in bytes, at most; and what trace_table_end adds.
enum {
    ACTIVITY_BYTES = 128 + 3 * TRACE_TEXT_MAX + 4 * TRACE_RANKS_MAX,
    PEER_BYTES = 4 + 4 + 8 * TRACE_PEER_COUNTERS + 4 + 16,
    SUM_BYTES = 2 * 4 + TRACE_SUM_NAME + TRACE_SUM_IN + 1 + 8 * TRACE_SUM_COUNTERS,
    SUMS_BYTES = 1 + (TRACE_SUMS_MAX + 1) * SUM_BYTES,
    END_BYTES = 3 + 8 * (TRACE_COUNTERS + MEMORY_KINDS) + (TRACE_PEERS_MAX + 1) * PEER_BYTES +
                TRACE_SUM_KINDS * SUMS_BYTES
};

// ---- Writing ------------------------------------------------------------------------------------

enum { LEFT_OUT_AT = 8 + 1, COUNT_AT = LEFT_OUT_AT + 4 };

void trace_table_begin(bytes *out, int64_t now_ns, trace_phase_of_worker phase) {
    bytes_put_u64(out, (uint64_t)now_ns);
    bytes_put_u8(out, (uint8_t)phase);
    bytes_put_u32(out, 0);  // left out
    bytes_put_u32(out, 0);  // the count of activities
}

static uint32_t add_one_at(bytes *b, size_t at) {
    reader r = reader_of(b->data + at, 4);
    uint32_t x = reader_u32(&r) + 1;
    for (int i = 0; i < 4; i++) b->data[at + (size_t)i] = (uint8_t)(x >> 8 * i);
    return x;
}

static uint32_t count_of(const bytes *b) {
    reader r = reader_of(b->data + COUNT_AT, 4);
    return reader_u32(&r);
}

void trace_table_add(bytes *out, const trace_activity *a) {
    if (out->failed) return;
    if (out->size + ACTIVITY_BYTES + END_BYTES > TRACE_TABLE_BYTES - 8 ||
        count_of(out) == TRACE_ACTIVITIES_MAX) {
        add_one_at(out, LEFT_OUT_AT);
        return;
    }
    int listed = a->rank_count < TRACE_RANKS_MAX ? a->rank_count : TRACE_RANKS_MAX;
    bytes_put_u8(out, (uint8_t)a->kind);
    bytes_put_u8(out, (uint8_t)a->queued);
    bytes_put_u64(out, (uint64_t)a->since_ns);
    bytes_put_u32(out, (uint32_t)a->tid);
    bytes_put_u32(out, (uint32_t)a->caller);
    bytes_put_u64(out, a->call);
    bytes_put_u64(out, a->number);
    bytes_put_text(out, a->what);
    bytes_put_text(out, a->in);
    bytes_put_text(out, a->site);
    bytes_put_u32(out, (uint32_t)a->rank_count);
    for (int i = 0; i < listed; i++) bytes_put_u32(out, (uint32_t)a->ranks[i]);
    if (!out->failed) add_one_at(out, COUNT_AT);
}

static void put_counters(bytes *out, const uint64_t *counters, int count) {
    bytes_put_u8(out, (uint8_t)count);
    for (int i = 0; i < count; i++) bytes_put_u64(out, counters ? counters[i] : 0);
}

static void put_peer(bytes *out, const trace_peer *x) {
    bytes_put_u32(out, (uint32_t)x->rank);
    bytes_put_u32(out, (uint32_t)x->workers);
    put_counters(out, x->counters, TRACE_PEER_COUNTERS);
    bytes_put_text(out, x->transport);
}

static void put_peers(bytes *out, const trace_peers *peers) {
    int count = peers ? peers->count : 0;
    bytes_put_u8(out, (uint8_t)count);
    for (int i = 0; i < count; i++) put_peer(out, &peers->of[i]);
}

static void put_sums(bytes *out, const trace_sums *sums) {
    int count = sums ? sums->count : 0;
    bytes_put_u8(out, (uint8_t)count);
    for (int i = 0; i < count; i++) {
        bytes_put_text(out, sums->of[i].name);
        bytes_put_text(out, sums->of[i].in);
        put_counters(out, sums->of[i].counters, TRACE_SUM_COUNTERS);
    }
}

void trace_table_end(bytes *out, const trace_table_counts *counts) {
    put_counters(out, counts->counters, TRACE_COUNTERS);
    put_counters(out, counts->memory, MEMORY_KINDS);
    put_peers(out, counts->peers);
    for (int i = 0; i < TRACE_SUM_KINDS; i++) put_sums(out, counts->sums[i]);
}

void trace_activity_add_rank(trace_activity *a, int rank) {
    if (a->rank_count < TRACE_RANKS_MAX) a->ranks[a->rank_count] = rank;
    a->rank_count++;
}

// ---- Reading ------------------------------------------------------------------------------------

static bool read_activity(reader *in, trace_activity *a) {
    *a = (trace_activity){ .kind = (trace_activity_kind)reader_u8(in) };
    a->queued = (trace_queued)reader_u8(in);
    a->since_ns = (int64_t)reader_u64(in);
    a->tid = (int)reader_u32(in);
    a->caller = (int)reader_u32(in);
    a->call = reader_u64(in);
    a->number = reader_u64(in);
    if (!reader_text(in, a->what, sizeof a->what) || !reader_text(in, a->in, sizeof a->in) ||
        !reader_text(in, a->site, sizeof a->site))
        return false;
    uint32_t count = reader_u32(in);
    if (a->kind >= TRACE_ACTIVITY_KINDS || a->queued >= TRACE_QUEUED_COUNT || count > INT32_MAX)
        return false;
    a->rank_count = (int)count;
    for (int i = 0; i < a->rank_count && i < TRACE_RANKS_MAX; i++)
        a->ranks[i] = (int)reader_u32(in);
    return !in->failed;
}

static bool read_counters(reader *in, uint64_t *counters, int count) {
    if (reader_u8(in) != count) return false;
    for (int i = 0; i < count; i++) counters[i] = reader_u64(in);
    return !in->failed;
}

static bool read_peer(reader *in, trace_peer *x) {
    *x = (trace_peer){ .rank = (int)reader_u32(in), .workers = (int)reader_u32(in) };
    return read_counters(in, x->counters, TRACE_PEER_COUNTERS) && x->rank >= -1 &&
           x->workers >= 1 && reader_text(in, x->transport, sizeof x->transport);
}

static bool read_peers(reader *in, trace_peers *out) {
    *out = (trace_peers){ .count = reader_u8(in) };
    if (out->count > TRACE_PEERS_MAX + 1) return false;
    for (int i = 0; i < out->count; i++)
        if (!read_peer(in, &out->of[i])) return false;
    return true;
}

static bool read_sums(reader *in, trace_sums *out) {
    out->count = reader_u8(in);
    if (out->count > TRACE_SUMS_MAX + 1) return false;
    for (int i = 0; i < out->count; i++) {
        trace_sum *x = &out->of[i];
        *x = (trace_sum){ 0 };
        if (!reader_text(in, x->name, sizeof x->name) || !reader_text(in, x->in, sizeof x->in) ||
            !read_counters(in, x->counters, TRACE_SUM_COUNTERS))
            return false;
    }
    return true;
}

static bool read_all_sums(reader *in, trace_sums out[TRACE_SUM_KINDS]) {
    for (int i = 0; i < TRACE_SUM_KINDS; i++)
        if (!read_sums(in, &out[i])) return false;
    return true;
}

bool trace_table_read(const void *data, size_t size, trace_table *out) {
    reader in = reader_of(data, size);
    out->now_ns = (int64_t)reader_u64(&in);
    out->phase = (trace_phase_of_worker)reader_u8(&in);
    if (out->phase >= TRACE_WORKER_PHASES) return false;
    uint32_t left_out = reader_u32(&in), count = reader_u32(&in);
    if (in.failed || left_out > INT32_MAX || count > TRACE_ACTIVITIES_MAX) return false;
    out->left_out = (int)left_out;
    out->activity_count = (int)count;
    for (int i = 0; i < out->activity_count; i++)
        if (!read_activity(&in, &out->activities[i])) return false;
    return read_counters(&in, out->counters, TRACE_COUNTERS) &&
           read_counters(&in, out->memory, MEMORY_KINDS) && read_peers(&in, &out->peers) &&
           read_all_sums(&in, out->sums) && !in.failed && !reader_left(&in);
}

// ---- Peers --------------------------------------------------------------------------------------

uint64_t trace_peer_bytes(const trace_peer *x) {
    return x->counters[TRACE_PEER_BYTES_SENT] + x->counters[TRACE_PEER_BYTES_RECEIVED] +
           x->counters[TRACE_PEER_SHARED_SENT] + x->counters[TRACE_PEER_SHARED_RECEIVED];
}

static bool has_counts(const trace_peer *x) {
    for (int i = 0; i < TRACE_PEER_COUNTERS; i++)
        if (x->counters[i]) return true;
    return false;
}

static void merge(trace_peer *into, const trace_peer *x) {
    uint64_t a = into->counters[TRACE_PEER_QUEUED_MAX], b = x->counters[TRACE_PEER_QUEUED_MAX];
    for (int i = 0; i < TRACE_PEER_COUNTERS; i++) into->counters[i] += x->counters[i];
    into->counters[TRACE_PEER_QUEUED_MAX] = a > b ? a : b;
    into->workers += x->workers;
    into->rank = -1;
}

void trace_peers_add(trace_peers *to, const trace_peer *x) {
    trace_peer least = *x;
    int listed = to->count < TRACE_PEERS_MAX ? to->count : TRACE_PEERS_MAX;
    if (!has_counts(x)) return;
    for (int i = 0; i < listed; i++) {
        if (trace_peer_bytes(&least) <= trace_peer_bytes(&to->of[i])) continue;
        trace_peer lesser = to->of[i];
        to->of[i] = least;
        least = lesser;
    }
    if (listed < TRACE_PEERS_MAX) {
        to->of[to->count++] = least;
    } else {
        if (to->count == TRACE_PEERS_MAX) to->of[to->count++] = (trace_peer){ 0 };
        merge(&to->of[TRACE_PEERS_MAX], &least);
    }
}

// ---- Text ---------------------------------------------------------------------------------------

void trace_activity_text(const trace_activity *a, char *out, size_t size) {
    unsigned long long number = a->number;
    switch (a->kind) {
    case TRACE_RUNS: snprintf(out, size, "%s", a->what); break;
    case TRACE_QUEUED: snprintf(out, size, "%s, which waits for %s", a->what, a->in); break;
    case TRACE_WAITS_REPLY: snprintf(out, size, "call %llu of %s", number, a->what); break;
    case TRACE_WAITS_COLLECTIVE:
        snprintf(out, size, "%s %llu of group \"%s\"", a->what, number, a->in);
        break;
    default: snprintf(out, size, "%s", a->what); break;
    }
}
