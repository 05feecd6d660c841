// A member of the job that sends invalid messages: no worker crashes, the others continue, and the member is lost with
// a reason.
#include "base/log.h"
#include "agent/messages/kinds.h"
#include "call/protocol.h"
#include "collective/group/group.h"
#include "lend/lending.h"
#include "distributed/autograd/graphs.h"
#include "reference/references.h"
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <stdio.h>
#include <string.h>

GW_FUNCTION(garbage_echo, GW_INLINE, "any") {
    return gw_arg(s, a, 0);
}

GW_FUNCTION(garbage_value, GW_INLINE) {
    return gw_value_of(7);
}

typedef struct scene {
    uint64_t seed;
    bool mutated;  // real messages with a few bytes changed, else random bytes behind a kind
} scene;

static uint64_t draw(uint64_t *state) {
    *state = hash_u64(*state);
    return *state;
}

static void send_bytes(agent *a, int to, uint8_t kind, const uint8_t *data, size_t size) {
    message *m = message_open(kind);
    bytes_put(&m->head, data, size);
    env_enter(a->env);
    agent_send_on_loop(a, to, m, true, NULL);
    env_leave(a->env);
}

// A request with its fields chosen among likely and unlikely values.
static size_t fill_request(uint64_t *state, uint8_t *out) {
    static const uint64_t likely[] = {
        0, 1, 2, 7, 1ull << 48, (1ull << 48) | 1, (1ull << 48) | 9, UINT64_MAX
    };
    request_fixed f = { .call = 1 + draw(state) % 5, .depth = (uint8_t)(draw(state) % 70) };
    f.scope = f.order = draw(state) % 4;
    f.target = likely[draw(state) % 8];
    f.target_fork = likely[draw(state) % 8];
    f.result = likely[draw(state) % 8];
    f.result_fork = likely[draw(state) % 8];
    f.time_left_ns = likely[draw(state) % 8];
    bytes head = { 0 };
    request_write(&head, &f, draw(state) % 2 ? "garbage_echo" : "garbage_value", NULL, 1);
    bytes_put_u8(&head, (uint8_t)(draw(state) % 13));  // a value's tag, and something behind it
    for (int i = 0; i < 12; i++) bytes_put_u32(&head, (uint32_t)draw(state) % 4);
    uint32_t at = (uint32_t)(head.size - 24 + draw(state) % 30);
    if (draw(state) % 2) memcpy(head.data + REQUEST_ATTACHMENTS_FIELD, &at, sizeof at);
    size_t size = head.size < 200 ? head.size : 200;
    memcpy(out, head.data, size);
    bytes_fini(&head);
    return size;
}

static void send_nonsense(agent *a, int to, const scene *c) {
    uint64_t state = c->seed;
    for (int i = 0; i < 20; i++) {
        uint8_t data[256];
        uint8_t kind = (uint8_t)(draw(&state) % (GROUP_KIND_LAST + 1 + 2));
        size_t size = draw(&state) % sizeof data;
        for (size_t k = 0; k < sizeof data; k++)
            data[k] = (uint8_t)(draw(&state) % 3 ? draw(&state) % 3 : draw(&state));
        if (c->mutated) {
            kind = KIND_REQUEST;
            size = fill_request(&state, data);
        }
        if (kind) send_bytes(a, to, kind, data, size);
    }
}

static void disturb(gw_scope *root, int rank, void *context) {
    if (rank == 0) {
        // The other workers are served as before.
        for (int i = 0; i < 20; i++) {
            gw_scope *s = gw_scope_open(root);
            assert_int_equal(gw_int_of(s, gw_rpc_sync(s, 2, "garbage_echo", i)), i);
            gw_scope_close_up(s);
        }
    }
    if (rank != 1) return;
    gw_rpc_sync(root, 0, "garbage_echo", 1);
    send_nonsense(root->agent, 0, context);
    gw_scope_clear(root);
}

static void disturb_with_seed(uint64_t seed, void *context) {
    scene c = { .seed = seed, .mutated = *(bool *)context };
    cluster_outcome o = cluster_run(
        seed, (cluster_options){ .world_size = 3, .timeout_ms = 5000, .fails = true }, disturb, &c);
    assert_true(o.errors[0].status == GW_OK || o.errors[0].status == GW_TIMEOUT);
    assert_true(o.errors[2].status == GW_OK || o.errors[2].status == GW_TIMEOUT);
}

static void it_survives_random_messages_of_a_member(void **state) {
    (void)state;
    bool mutated = false;
    testing_for_seeds(500, disturb_with_seed, &mutated);
}

static void it_survives_requests_that_are_almost_right(void **state) {
    (void)state;
    bool mutated = true;
    testing_for_seeds(1000, disturb_with_seed, &mutated);
}

// ---- One message at a time ----------------------------------------------------------------------

static void send_cut_off(gw_scope *root, int rank, void *context) {
    const uint8_t *kind = context;
    if (rank == 1) send_bytes(root->agent, 0, *kind, (const uint8_t *)"\1", 1);
}

static char lines[2048];

static void keep_line(const char *line) {
    size_t at = strlen(lines);
    snprintf(lines + at, sizeof lines - at, "%s\n", line);
}

static void it_loses_a_member_that_sends_invalid_messages(void **state) {
    (void)state;
    static const uint8_t kinds[] = { KIND_REQUEST,
                                     KIND_REPLY,
                                     KIND_FORWARD,
                                     KIND_PROMISE_VALUE,
                                     KIND_ACCEPTED,
                                     KIND_RELEASE,
                                     KIND_FETCH,
                                     KIND_FORK_REQUEST,
                                     KIND_WAVE,
                                     KIND_LEAVE,
                                     KIND_AWAIT,
                                     KIND_IDLE,
                                     100 };
    log_hook = keep_line;
    for (size_t i = 0; i < sizeof kinds; i++) {
        uint8_t kind = kinds[i];
        testing_note("kind %d", kind);
        lines[0] = '\0';
        cluster_run(i, (cluster_options){ .world_size = 2, .fails = true }, send_cut_off, &kind);
        testing_note("kind %d: %s", kind, lines);
        assert_non_null(strstr(lines, "w1 (rank 1) broke the protocol: "));
    }
    log_hook = NULL;
}

// ---- Garbage after valid halves -----------------------------------------------------------------

GW_FUNCTION(garbage_never, GW_INLINE) {
    return gw_value_of(gw_member_lost(s, NULL, 0));
}

GW_FUNCTION(garbage_two, GW_INLINE, "any, any") {
    return gw_arg(s, a, 0);
}

// Rank 1 is served with promises, references and futures of its own that are not completed yet, and others wait for its
// promises; then it breaks the protocol towards one of the others.
static void begin_and_break(gw_scope *root, int rank, void *context) {
    const scene *c = context;
    uint64_t state = c->seed;
    int other = (int)(draw(&state) % 2) * 2, third = 2 - other;
    gw_scope *s = gw_scope_open(root);
    if (rank == 1) {
        gw_future *own = gw_future_open(s);
        gw_rref *kept = gw_remote(s, third, "garbage_value");
        gw_rpc_async(s, other, "garbage_two", own, kept);
        gw_rpc_async(s, third, "garbage_two", gw_rpc_async(s, other, "garbage_never"), own);
        gw_rpc_async(s, other, "garbage_echo", gw_rpc_async(s, third, "garbage_never"));
        gw_rpc_sync(s, third, "garbage_value");
        send_nonsense(root->agent, other, c);
    } else {
        gw_future *promised = gw_rpc_async(s, 1, "garbage_never");
        gw_future *ends =
            gw_rpc_async(s, 2 - rank, "garbage_two", promised, gw_remote(s, 1, "garbage_value"));
        gw_wait(s, ends);
        assert_false(gw_ok(s));
    }
    gw_error ignored = gw_scope_close(s);
    (void)ignored;
    gw_scope_clear(root);
}

static void break_with_seed(uint64_t seed, void *context) {
    scene c = { .seed = seed, .mutated = *(bool *)context };
    cluster_outcome o = cluster_run(
        seed, (cluster_options){ .world_size = 3, .timeout_ms = 3600 * 1000, .fails = true },
        begin_and_break, &c);
    assert_string_equal(o.errors[0].text, "");
    assert_string_equal(o.errors[2].text, "");
}

static void nothing_is_served_for_a_member_that_broke_the_protocol(void **state) {
    (void)state;
    bool mutated = false;
    testing_for_seeds(300, break_with_seed, &mutated);
    mutated = true;
    testing_for_seeds(300, break_with_seed, &mutated);
}

// ---- Invalid messages about leaving -------------------------------------------------------------

static void send_lies(agent *a, int to) {
    static const char unclean[] = "\0\5\0\0\0a lie", clean[] = "\1\0\0\0\0";
    send_bytes(a, to, KIND_LEAVE, (const uint8_t *)unclean, sizeof unclean - 1);
    send_bytes(a, to, KIND_LEAVE, (const uint8_t *)clean, sizeof clean - 1);
    send_bytes(a, to, KIND_ALL_ASKED, NULL, 0);
    send_bytes(a, to, KIND_WAVE, (const uint8_t *)"\7\0\0\0", 4);
}

// Invalid messages about leaving must not stop a worker from serving.
static void send_and_check(gw_scope *s) {
    for (int rank = 0; rank < 3; rank += 2) {
        send_lies(s->agent, rank);
        assert_int_equal(gw_int_of(s, gw_rpc_sync(s, rank, "garbage_echo", rank)), rank);
    }
}

// Runs until all have called gw_rpc_shutdown, and delays them.
GW_FUNCTION(garbage_lie, GW_POOL) {
    cluster_sleep_ms(s, 500);
    send_and_check(s);
    return gw_none();
}

static void lie_all_along(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank == 0) gw_rpc_async(root, 1, "garbage_lie");
    if (rank == 2) gw_rpc_sync(root, 1, "garbage_value");
    if (rank != 1) return;
    send_and_check(root);
    cluster_sleep_ms(root, 100);
    send_and_check(root);
}

static void lie_with_seed(uint64_t seed, void *context) {
    (void)context;
    cluster_run(seed, (cluster_options){ .world_size = 3 }, lie_all_along, NULL);
}

static void messages_about_leaving_count_only_from_the_coordinator(void **state) {
    (void)state;
    testing_for_seeds(50, lie_with_seed, NULL);
}

GW_TESTS_WITH_LIMIT(rpc_garbage, 120, messages_about_leaving_count_only_from_the_coordinator,
                    it_survives_random_messages_of_a_member,
                    it_survives_requests_that_are_almost_right,
                    it_loses_a_member_that_sends_invalid_messages,
                    nothing_is_served_for_a_member_that_broke_the_protocol);
