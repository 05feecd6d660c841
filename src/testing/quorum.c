#include "testing/quorum.h"

#include "base/mem.h"
#include "testing/testing.h"

#include <stdio.h>
#include <string.h>

enum { ARRIVES, ACK, REFUSAL, ENDED, LEFT };

#define ACK_NS (40 * QUORUM_MS)
#define REFUSED_NS (100 * QUORUM_MS)  // until a reconnect finds that the node has ended

uint64_t quorum_random(quorum *q, uint64_t below) {
    uint64_t x = q->random += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return (x ^ x >> 31) % below;
}

// ---- Events -------------------------------------------------------------------------------------
static bool is_before(const quorum_event *a, const quorum_event *b) {
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

static void swap(quorum_event *a, quorum_event *b) {
    quorum_event t = *a;
    *a = *b;
    *b = t;
}

static void push(quorum *q, quorum_event e) {
    if (q->event_count == q->event_capacity) {
        q->event_capacity = q->event_capacity ? q->event_capacity * 2 : 256;
        q->events = mem_realloc(q->events, q->event_capacity * sizeof *q->events);
        assert_non_null(q->events);
    }
    size_t i = q->event_count++;
    q->events[i] = e;
    for (; i > 0 && is_before(&q->events[i], &q->events[(i - 1) / 2]); i = (i - 1) / 2)
        swap(&q->events[i], &q->events[(i - 1) / 2]);
}

static quorum_event pop(quorum *q) {
    quorum_event first = q->events[0];
    q->events[0] = q->events[--q->event_count];
    for (size_t i = 0;;) {
        size_t least = i;
        for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < q->event_count; child++)
            if (is_before(&q->events[child], &q->events[least])) least = child;
        if (least == i) return first;
        swap(&q->events[i], &q->events[least]);
        i = least;
    }
}

// Behind the messages that are under way between the two already.
static void post(quorum *q, int kind, int from, int to, message *m, int64_t delay_ns) {
    int64_t at_ns = q->now_ns + delay_ns + 1 + (int64_t)quorum_random(q, (uint64_t)q->delay_max_ns);
    if (at_ns < q->last_ns[from][to]) at_ns = q->last_ns[from][to];
    q->last_ns[from][to] = at_ns;
    push(q, (quorum_event){ .at_ns = at_ns,
                            .order = ++q->order,
                            .kind = kind,
                            .from = from,
                            .to = to,
                            .message = m });
}

// ---- Callbacks of the machines -------------------------------------------------------------------------
static uint64_t incarnation_of(int node) {
    return 100 + (uint64_t)node;
}

static void on_send(void *user, int rank, message *m) {
    quorum_node *n = user;
    quorum *q = n->quorum;
    assert_true(rank < q->count && rank != n->rank);
    gw_error error;
    assert_int_equal(message_seal(m, &error), GW_OK);
    n->sent++;
    n->sent_to[rank]++;
    if (n->is_lost[rank] || n->is_crashed) {
        message_release(m);
        return;
    }
    if (membership_incarnation(n->machine, rank) != incarnation_of(rank)) {
        message_release(
            m);  // to one that was admitted, and never joined: a rank is a node's number here
        post(q, ENDED, rank, n->rank, NULL, REFUSED_NS);
        return;
    }
    n->is_linked[rank] = true;
    q->nodes[rank].is_linked[n->rank] = true;
    post(q, ARRIVES, n->rank, rank, m, 0);
}

static void on_joined(void *user, const member_fact *who) {
    quorum_node *n = user;
    assert_false(n->joined[who->rank]);
    n->joined[who->rank] = true;
    n->joined_ns[who->rank] = n->quorum->now_ns;
}

// The session ends, and the other finds it out at its next message.
static void on_gone(void *user, int rank, bool left, const gw_error *why) {
    quorum_node *n = user;
    quorum *q = n->quorum;
    assert_false(n->gone[rank]);
    assert_false(n->is_fenced);
    if (q->nodes[rank].gone[n->rank] && !q->nodes[rank].is_crashed)
        fail_msg("w%d and w%d have both lost the other", n->rank, rank);
    n->gone[rank] = true;
    n->left[rank] = left;
    n->gone_ns[rank] = q->now_ns;
    snprintf(n->why[rank], sizeof n->why[rank], "%s", why->text);
    n->is_lost[rank] = true;
    if (n->is_linked[rank]) post(q, REFUSAL, n->rank, rank, NULL, 0);
}

static void on_suspected(void *user, int rank, bool is_suspected) {
    quorum_node *n = user;
    assert_true(n->suspected[rank] != is_suspected);
    n->suspected[rank] = is_suspected;
    n->suspicions += is_suspected;
}

static void on_coordinator_changed(void *user, int coordinator) {
    quorum_node *n = user;
    assert_false(n->gone[coordinator]);
    n->coordinator_changes++;
}

static void on_fenced(void *user, const gw_error *why) {
    quorum_node *n = user;
    quorum *q = n->quorum;
    assert_false(n->is_fenced);
    n->is_fenced = true;
    n->fenced_ns = q->now_ns;
    n->fenced_why = *why;
    for (int i = 0; i < q->count; i++) {
        n->is_lost[i] = true;
        if (i != n->rank && n->is_linked[i]) post(q, REFUSAL, n->rank, i, NULL, 0);
    }
}

// ---- Running ------------------------------------------------------------------------------------
static bool is_running(const quorum_node *n) {
    return n->is_opened && !n->is_crashed && !n->is_stopped;
}

static void hold(quorum *q, quorum_event e) {
    if (q->held_count == q->held_capacity) {
        q->held_capacity = q->held_capacity ? q->held_capacity * 2 : 256;
        q->held = mem_realloc(q->held, q->held_capacity * sizeof *q->held);
        assert_non_null(q->held);
    }
    q->held[q->held_count++] = e;
}

static void release_held(quorum *q) {
    for (size_t i = 0; i < q->held_count; i++) {
        q->held[i].at_ns = q->now_ns;
        push(q, q->held[i]);
    }
    q->held_count = 0;
}

static void lose(quorum_node *n, int rank, gw_status status, bool left, const char *text) {
    quorum *q = n->quorum;
    if (n->is_fenced || n->is_lost[rank]) return;
    n->is_lost[rank] = true;
    gw_error why;
    error_set(&why, status, "%s", text);
    membership_lost(n->machine, rank, left, &why, q->now_ns);
}

static void arrive(quorum *q, const quorum_event *e) {
    quorum_node *n = &q->nodes[e->to];
    gw_error error;
    char text[GW_ERROR_TEXT_MAX];
    switch (e->kind) {
    case ARRIVES:
        if (n->is_lost[e->from] || n->is_fenced ||
            membership_incarnation(n->machine, e->from) != incarnation_of(e->from)) {
            post(q, REFUSAL, e->to, e->from, NULL, 0);
            return;
        }
        n->has_received[e->from] = true;
        post(q, ACK, e->to, e->from, NULL, ACK_NS);
        gw_status status = membership_received(n->machine, e->from, e->message, q->now_ns, &error);
        if (status) fail_msg("node %d from %d: %s", e->to, e->from, error.text);
        return;
    case ACK:
        if (!n->is_lost[e->from]) n->has_received[e->from] = true;
        return;
    case REFUSAL:
        // A fenced node answers no other any more: its address refuses.
        if (q->nodes[e->from].is_fenced) {
            snprintf(text, sizeof text, "w%d has ended", e->from);
            lose(n, e->from, GW_DISCONNECTED, false, text);
            return;
        }
        snprintf(text, sizeof text,
                 "the other workers have declared this worker dead: %.200s; call gw_rpc_init on "
                 "another scope to join again",
                 q->nodes[e->from].why[e->to]);
        lose(n, e->from, GW_FENCED, false, text);
        return;
    default:
        snprintf(text, sizeof text, "w%d has %s", e->from, e->kind == LEFT ? "left" : "ended");
        lose(n, e->from, GW_DISCONNECTED, e->kind == LEFT, text);
        return;
    }
}

static void handle(quorum *q, quorum_event e) {
    quorum_node *n = &q->nodes[e.to], *from = &q->nodes[e.from];
    q->handled++;
    bool needs_both = e.kind == REFUSAL || e.kind == ENDED || e.kind == ACK;
    bool is_cut = q->cut[e.from][e.to] || (needs_both && q->cut[e.to][e.from]);
    if (is_cut || (!n->is_crashed && (n->is_stopped || !n->is_opened))) {
        hold(q, e);
        return;
    }
    if (n->is_crashed) {
        if (e.kind == ARRIVES && is_running(from)) post(q, ENDED, e.to, e.from, NULL, REFUSED_NS);
        message_release(e.message);
        return;
    }
    // A hello from an unknown node is not answered, and is sent again.
    uint64_t incarnation = membership_incarnation(n->machine, e.from);
    if (e.kind == ARRIVES && !incarnation && !n->is_fenced) {
        e.at_ns = q->now_ns + QUORUM_SECOND / 10;
        push(q, e);
        return;
    }
    arrive(q, &e);
    message_release(e.message);
}

static void tick(quorum *q, quorum_node *n) {
    for (int i = 0; i < q->count; i++) {
        if (n->has_received[i]) membership_note_receive(n->machine, i, q->now_ns);
        n->has_received[i] = false;
    }
    n->due_ns = membership_tick(n->machine, q->now_ns);
}

static quorum_node *next_to_tick(quorum *q) {
    quorum_node *next = NULL;
    for (int i = 0; i < q->count; i++) {
        quorum_node *n = &q->nodes[i];
        if (is_running(n) && (!next || n->due_ns < next->due_ns)) next = n;
    }
    return next && next->due_ns != ENV_NEVER ? next : NULL;
}

void quorum_run(quorum *q, int64_t until_ns) {
    for (;;) {
        quorum_node *n = next_to_tick(q);
        int64_t tick_ns = n ? n->due_ns : ENV_NEVER;
        int64_t event_ns = q->event_count ? q->events[0].at_ns : ENV_NEVER;
        int64_t next_ns = tick_ns < event_ns ? tick_ns : event_ns;
        if (next_ns > until_ns) break;
        if (next_ns > q->now_ns) q->now_ns = next_ns;
        if (event_ns <= tick_ns) {
            handle(q, pop(q));
        } else {
            tick(q, n);
        }
    }
    q->now_ns = until_ns;
}

// ---- Faults -------------------------------------------------------------------------------------
static void end(quorum *q, int node, int kind) {
    quorum_node *n = &q->nodes[node];
    if (n->is_crashed) return;
    n->is_crashed = true;
    n->has_left = kind == LEFT;
    for (int i = 0; i < q->count; i++)
        if (i != node && n->is_linked[i])
            post(q, kind, node, i, NULL, kind == LEFT ? 0 : (int64_t)quorum_random(q, REFUSED_NS));
}

void quorum_crash(quorum *q, int node) {
    end(q, node, ENDED);
}

void quorum_leave(quorum *q, int node) {
    end(q, node, LEFT);
}

void quorum_stop(quorum *q, int node) {
    q->nodes[node].is_stopped = true;
}

void quorum_continue(quorum *q, int node) {
    q->nodes[node].is_stopped = false;
    release_held(q);
}

void quorum_cut_one_way(quorum *q, int from, int to) {
    q->cut[from][to] = true;
}

void quorum_cut(quorum *q, int a, int b) {
    q->cut[a][b] = q->cut[b][a] = true;
}

void quorum_heal(quorum *q, int a, int b) {
    q->cut[a][b] = q->cut[b][a] = false;
    release_held(q);
}

void quorum_part(quorum *q, unsigned side) {
    for (int a = 0; a < q->count; a++)
        for (int b = 0; b < q->count; b++)
            if (((side >> a ^ side >> b) & 1) != 0) q->cut[a][b] = true;
}

void quorum_heal_all(quorum *q) {
    memset(q->cut, 0, sizeof q->cut);
    release_held(q);
}

// ---- Life ---------------------------------------------------------------------------------------
static void open_node(quorum *q, int rank, bool joins) {
    quorum_node *n = &q->nodes[rank];
    gw_error error;
    char name[16], addresses[16];
    *n = (quorum_node){ .quorum = q, .rank = rank, .is_opened = true, .due_ns = q->now_ns };
    snprintf(name, sizeof name, "w%d", rank);
    snprintf(addresses, sizeof addresses, "a%d", rank);
    membership_options o = { .rank = rank,
                             .incarnation = incarnation_of(rank),
                             .name = name,
                             .addresses = addresses,
                             .joins = joins,
                             .user = n,
                             .send = on_send,
                             .joined = on_joined,
                             .gone = on_gone,
                             .suspected = on_suspected,
                             .coordinator_changed = on_coordinator_changed,
                             .fenced = on_fenced };
    assert_int_equal(membership_open(o, &n->machine, &error), GW_OK);
}

static void introduce(quorum *q, int rank, int other) {
    gw_error error;
    char name[16], addresses[16];
    snprintf(name, sizeof name, "w%d", other);
    snprintf(addresses, sizeof addresses, "a%d", other);
    assert_int_equal(membership_add(q->nodes[rank].machine, other, incarnation_of(other), name,
                                    addresses, &error),
                     GW_OK);
    q->nodes[rank].joined[other] = true;
}

void quorum_open(quorum *q, uint64_t seed, int count, int64_t delay_max_ns) {
    *q = (quorum){ .count = count,
                   .now_ns = QUORUM_SECOND,
                   .random = seed,
                   .delay_max_ns = delay_max_ns ? delay_max_ns : QUORUM_MS };
    for (int i = 0; i < count; i++) open_node(q, i, false);
    for (int i = 0; i < count; i++) {
        for (int k = 0; k < count; k++)
            if (k != i) introduce(q, i, k);
        membership_start(q->nodes[i].machine, q->now_ns);
        q->nodes[i].due_ns = q->now_ns + (int64_t)quorum_random(q, MEMBERSHIP_TICK_NS);
    }
}

void quorum_close(quorum *q) {
    for (int i = 0; i < q->count; i++) membership_close(q->nodes[i].machine);
    for (size_t i = 0; i < q->event_count; i++) message_release(q->events[i].message);
    for (size_t i = 0; i < q->held_count; i++) message_release(q->held[i].message);
    mem_free(q->events);
    mem_free(q->held);
}

bool quorum_join(quorum *q, int coordinator) {
    int rank, mine = q->count;
    gw_error error;
    char name[16], addresses[16];
    snprintf(name, sizeof name, "w%d", mine);
    snprintf(addresses, sizeof addresses, "a%d", mine);
    assert_true(mine < QUORUM_MAX);
    if (!is_running(&q->nodes[coordinator])) return false;
    q->count++;
    q->nodes[mine] = (quorum_node){ .quorum = q, .rank = mine };
    gw_status status = membership_admit(q->nodes[coordinator].machine, incarnation_of(mine), name,
                                        addresses, q->now_ns, &rank, &error);
    if (status || rank != mine) {
        q->count--;
        return false;
    }
    // Messages that were sent to it meanwhile are still under way.
    bool is_linked = q->nodes[mine].is_linked[coordinator];
    open_node(q, mine, true);
    q->nodes[mine].is_linked[coordinator] = is_linked;
    introduce(q, mine, coordinator);
    membership_start(q->nodes[mine].machine, q->now_ns);
    release_held(q);
    return true;
}

bool quorum_is_up(const quorum *q, int node) {
    const quorum_node *n = &q->nodes[node];
    return n->is_opened && !n->is_crashed && !n->is_fenced;
}

int quorum_check(const quorum *q) {
    int first = -1, up = 0;
    for (int i = 0; i < q->count; i++) {
        if (!quorum_is_up(q, i)) continue;
        if (first < 0) first = i;
        up++;
        const membership *a = q->nodes[first].machine, *b = q->nodes[i].machine;
        if (membership_digest(a) != membership_digest(b))
            fail_msg("w%d and w%d have different views", first, i);
        assert_true(membership_epoch(a) == membership_epoch(b));
        assert_int_equal(membership_coordinator(b), first);
        for (int k = 0; k < q->count; k++) {
            if (!q->nodes[k].is_opened) continue;
            bool is_present = membership_incarnation(b, k) && !membership_is_gone(b, k);
            if (k != i && is_present != quorum_is_up(q, k))
                fail_msg("w%d thinks w%d is %s", i, k, quorum_is_up(q, k) ? "gone" : "there");
            if (k != i) assert_int_equal(membership_is_gone(b, k), q->nodes[i].gone[k]);
        }
    }
    return up;
}
