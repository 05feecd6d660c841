// Messages of members at any time: any bytes end in one error text or in a view that
// only grows.
#include "membership/membership.h"

#include "base/limits.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MEMBERS = 4, SELF = 1 };

typedef struct run {
    membership *ms;
    reader in;
    int64_t now_ns, due_ns;
    bool is_fenced;
    bool gone[LIMIT_WORKERS];
} run;

// Its own messages can be decoded.
static void check_sent(void *user, int rank, message *m) {
    run *r = user;
    membership_message body;
    gw_error error = { 0 };
    if (r->is_fenced || rank == SELF) abort();
    if (membership_decode(m, &body, &error)) abort();
    message_release(m);
}

static void check_joined(void *user, const member_fact *joined) {
    const run *r = user;
    if (joined->rank == SELF || r->is_fenced || r->gone[joined->rank]) abort();
}

static void check_gone(void *user, int rank, bool left, const gw_error *why) {
    run *r = user;
    (void)left;
    if (rank == SELF || r->gone[rank] || r->is_fenced || !why->text[0]) abort();
    r->gone[rank] = true;
}

static void check_suspected(void *user, int rank, bool is_suspected) {
    const run *r = user;
    (void)is_suspected;
    if (r->gone[rank]) abort();
}

static void check_fenced(void *user, const gw_error *why) {
    run *r = user;
    if (r->is_fenced || !why->text[0]) abort();
    r->is_fenced = true;
}

static uint64_t incarnation_of(int rank) {
    return 100 + (uint64_t)rank;
}

static void give(run *r, int from, message *m) {
    gw_error error = { 0 };
    if (!m) return;
    if (membership_received(r->ms, from, m, r->now_ns, &error)) {
        if (!error.text[0]) abort();
        membership_lost(r->ms, from, false, &error, r->now_ns);
    }
    message_release(m);
}

static message *read_raw(run *r) {
    message *m = message_open((uint8_t)(reader_u8(&r->in) % 64 + 1));
    size_t size = reader_u8(&r->in);
    if (size > reader_left(&r->in)) size = reader_left(&r->in);
    bytes_put(&m->head, reader_take(&r->in, size), size);
    return m;
}

// A view, probe or answer with valid fields.
static message *read_shaped(run *r) {
    uint8_t flags = reader_u8(&r->in);
    membership_message body = {
        .kind = (uint8_t)(MEMBERSHIP_HEARTBEAT + reader_u8(&r->in) % 6),
        .flags = flags & 3,
        .digest = flags & 64 ? membership_digest(r->ms) : flags,
        .number = flags % 4,
        .rank = reader_u8(&r->in) % (MEMBERS + 3),
        .yes = flags & 1,
    };
    if (body.kind == MEMBERSHIP_VIEW) body.flags = flags & 7;
    message *m = membership_encode(&body);
    for (int i = body.kind == MEMBERSHIP_VIEW ? flags % 5 : 0, rank = 0; i > 0; i--) {
        uint8_t what = reader_u8(&r->in);
        member_fact f = { .rank = rank, .stage = (member_stage)(what % 5) };
        f.incarnation = what & 32 ? incarnation_of(f.rank) : what;
        f.left = what & 64;
        snprintf(f.name, sizeof f.name, "m%d", f.rank);
        if (f.stage >= MEMBER_FAILED) snprintf(f.why, sizeof f.why, "why");
        membership_add_fact(m, &f);
        rank += 1 + (what & 128 ? 1 : 0);
    }
    return m;
}

static void admit(run *r, uint8_t what) {
    char name[8];
    int rank = -1;
    gw_error error = { 0 };
    snprintf(name, sizeof name, "n%d", what % 4);
    gw_status status =
        membership_admit(r->ms, 200 + what % 8, name, "here:1", r->now_ns, &rank, &error);
    if (status ? !error.text[0] : rank < MEMBERS) abort();
}

static void lose(run *r, int rank, bool fences) {
    gw_error why;
    error_set(&why, fences ? GW_FENCED : GW_DISCONNECTED, "lost");
    membership_lost(r->ms, rank, !fences && rank % 2, &why, r->now_ns);
}

static void step(run *r) {
    uint8_t what = reader_u8(&r->in);
    int rank = what / 8 % (MEMBERS + 2);
    uint64_t epoch = membership_epoch(r->ms);
    switch (what % 8) {
    case 0: give(r, rank, read_raw(r)); break;
    case 1:
    case 2: give(r, rank, read_shaped(r)); break;
    case 3: membership_note_receive(r->ms, rank, r->now_ns); break;
    case 4: lose(r, rank, what >= 224); break;
    case 5: admit(r, what / 8); break;
    case 6: membership_await(r->ms, rank, what & 128); break;
    default:
        r->now_ns = r->due_ns == ENV_NEVER ? r->now_ns : r->due_ns;
        if (what >= 240) r->now_ns += INT64_C(20000000000);
        r->due_ns = membership_tick(r->ms, r->now_ns);
        break;
    }
    if (membership_epoch(r->ms) < epoch) abort();
    int coordinator = membership_coordinator(r->ms);
    if (coordinator != SELF && membership_is_gone(r->ms, coordinator)) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static run r;
    gw_error error = { 0 };
    memset(&r, 0, sizeof r);
    r.in = reader_of(data, size);
    r.now_ns = 1;
    membership_options options = { .rank = SELF,
                                   .incarnation = incarnation_of(SELF),
                                   .name = "m1",
                                   .addresses = "here:0",
                                   .user = &r,
                                   .send = check_sent,
                                   .joined = check_joined,
                                   .gone = check_gone,
                                   .suspected = check_suspected,
                                   .fenced = check_fenced };
    if (membership_open(options, &r.ms, &error)) abort();
    for (int rank = 0; rank < MEMBERS; rank++)
        if (rank != SELF && membership_add(r.ms, rank, incarnation_of(rank), "m", "here:0", &error))
            abort();
    membership_start(r.ms, r.now_ns);
    r.due_ns = membership_tick(r.ms, r.now_ns);
    while (reader_left(&r.in) > 0) step(&r);
    membership_close(r.ms);
    return 0;
}
