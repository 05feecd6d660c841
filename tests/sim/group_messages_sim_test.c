// Messages from member to member of which one is refused, late or given up, in the simulator: it fails on both members,
// and all others are received by the receives of the same steps.
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <string.h>

enum { STEPS = 6, WRONG_STEP = 3 };

typedef enum mistake {
    NO_TENSOR,
    SEND_IN_FAILED_SCOPE,
    SEND_LATE,
    SEND_GIVEN_UP,
    RECV_IN_FAILED_SCOPE,
    RECV_CANCELLED,
    RECV_LATE,
    BATCH_REFUSED,
    MISTAKES
} mistake;

typedef struct messages {
    uint64_t seed;
    mistake mistake;
    bool any;
    bool succeeded[2];  // at the step of a cancelled receive, on each worker
} messages;

static void send_step(gw_scope *s, gw_group *g, const messages *m, int step) {
    bool wrong = step == WRONG_STEP;
    gw_tensor *x = gw_full(s, GW_F32, step);
    if (wrong && m->mistake == NO_TENSOR) x = NULL;
    if (wrong && m->mistake == SEND_IN_FAILED_SCOPE) gw_fail(s, GW_INVALID, "bad batch");
    if (wrong && m->mistake == SEND_LATE) cluster_pause_ms(s, 3000);
    if (wrong && m->mistake == BATCH_REFUSED) {
        gw_message both[] = { { .peer = 9, .send = x }, { .peer = 1, .send = x } };
        gw_batch(s, g, both, 2);
    } else if (wrong && m->mistake == SEND_GIVEN_UP) {
        gw_send(s, g, x, 1, .timeout_ms = 500);
    } else {
        gw_send(s, g, x, 1, .timeout_ms = 20000);
    }
}

static double recv_step(gw_scope *s, gw_group *g, const messages *m, int step) {
    bool wrong = step == WRONG_STEP;
    if (wrong && m->mistake == RECV_IN_FAILED_SCOPE) gw_fail(s, GW_INVALID, "bad batch");
    if (wrong && (m->mistake == RECV_LATE || m->mistake == SEND_GIVEN_UP))
        cluster_pause_ms(s, 3000);
    if (m->any) return gw_item(s, gw_recv_any(s, g, NULL, .timeout_ms = 20000));
    if (wrong && m->mistake == RECV_CANCELLED) {
        gw_future *f = gw_irecv(s, g, 0);
        gw_cancel(s, f);
        return gw_item(s, gw_tensor_of(s, gw_wait(s, f)));
    }
    int64_t timeout_ms = wrong && m->mistake == SEND_LATE ? 400 : 20000;
    return gw_item(s, gw_recv(s, g, 0, .timeout_ms = timeout_ms));
}

static void exchange(gw_scope *root, int rank, void *context) {
    messages *m = context;
    gw_group *g = gw_group_world(root, .timeout_ms = 60000);
    for (int step = 1; step <= STEPS; step++) {
        gw_scope *s = gw_scope_open(root);
        double got = step;
        if (rank == 0)
            send_step(s, g, m, step);
        else
            got = recv_step(s, g, m, step);
        gw_error e = gw_scope_close(s);
        bool fails = step == WRONG_STEP && m->mistake != RECV_LATE;
        // A message that has arrived before the receive was cancelled is received.
        if (fails && m->mistake == RECV_CANCELLED && !e.status) {
            m->succeeded[rank] = true;
            fails = false;
        }
        if (fails ? !e.status : e.status || got != step)
            fail_msg("w%d step %d: %g, %s", rank, step, got, e.text);
    }
}

static bool is_of_receiver(mistake x) {
    return x == RECV_IN_FAILED_SCOPE || x == RECV_CANCELLED || x == SEND_LATE;
}

static void exchange_with_seed(uint64_t seed, void *context) {
    (void)context;
    messages m = { .seed = seed,
                   .mistake = (mistake)(seed % MISTAKES),
                   .any = seed / MISTAKES % 2 && !is_of_receiver((mistake)(seed % MISTAKES)) };
    testing_note("mistake %d, any %d", (int)m.mistake, m.any);
    cluster_run(seed, (cluster_options){ .world_size = 2, .network = sim_varied(seed, 0) },
                exchange, &m);
    assert_int_equal(m.succeeded[0], m.succeeded[1]);
}

static void a_message_that_fails_keeps_its_place(void **state) {
    (void)state;
    testing_for_seeds(10 * MISTAKES, exchange_with_seed, NULL);
}

// A receive from any member that ends early takes no message.
static void receive_any_again(gw_scope *root, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(root, .timeout_ms = 60000);
    gw_scope *s = gw_scope_open(root);
    if (rank == 0) {
        cluster_pause_ms(s, 3000);
        gw_send(s, g, gw_full(s, GW_F32, 7), 1);
    } else {
        gw_recv_any(s, g, NULL, .timeout_ms = 100);
        assert_int_equal(gw_scope_error(s)->status, GW_TIMEOUT);
        gw_scope_clear(s);
        assert_true(gw_item(s, gw_recv_any(s, g, NULL)) == 7);
    }
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void a_receive_from_any_member_that_ends_early_takes_nothing(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 2 }, receive_any_again, NULL);
}

GW_TESTS(group_messages_sim, a_message_that_fails_keeps_its_place,
         a_receive_from_any_member_that_ends_early_takes_nothing);
