// A job without fixed ranks: ranks are unknown when certificates are made, so a hello is accepted
// only if its certificate has the member's name.
#include "session/peers.h"

#include "base/log.h"
#include "testing/doors.h"
#include "testing/testing.h"

#include <stdio.h>
#include <string.h>

static void ignore_message(void *user, int rank, message *m) {
    (void)user, (void)rank;
    message_release(m);
}

static void ignore_loss(void *user, int rank, const gw_error *why) {
    (void)user, (void)rank, (void)why;
}

static void no_line(const char *line) {
    (void)line;
}

// The reply to a worker that has a certificate of |name| and claims to be ps, of rank 1.
static handshake claim_to_be_ps(const char *name) {
    protection self = encrypted_certified('a', "a", "w%d", 2);
    protection other = encrypted_certified('a', "a", name, 1);
    peers_options o = { .env = doors_env,
                        .rank = 2,
                        .incarnation = 2,
                        .received = ignore_message,
                        .lost = ignore_loss };
    peers *p;
    char addresses[ADDRESSES_MAX];
    gw_error error;
    visitor v;
    handshake answer;
    snprintf(other.self.name, sizeof other.self.name, "%s", name);
    assert_int_equal(connection_protect(doors_env, &self, &error), GW_OK);
    assert_int_equal(peers_open(o, "tcp://127.0.0.1:0", &p, addresses, &error), GW_OK);
    assert_int_equal(peers_add(p, 1, 1, "ps", "tcp://127.0.0.1:1", &error), GW_OK);
    visitor_connect(&v, other, strstr(addresses, "tcp://") + 6, &self.self);
    while (v.received_size < HANDSHAKE_PREFACE_BYTES && !v.closed)
        env_wait(doors_env, &(waiter){ 0 }, env_now_ns(doors_env) + 1000000);
    assert_int_equal(handshake_decode(v.received, v.received_size, &answer, &error), GW_OK);
    visitor_leave(&v);
    peers_close(p);
    connection_unprotect(doors_env, &self);
    protection_fini(&self);
    return answer;
}

static void a_hello_of_another_name_is_refused(void **state) {
    (void)state;
    doors_open_env();
    log_hook = no_line;
    assert_int_equal(claim_to_be_ps("ps").kind, HANDSHAKE_WELCOME);
    handshake answer = claim_to_be_ps("w1");
    log_hook = NULL;
    assert_int_equal(answer.kind, HANDSHAKE_REFUSAL);
    assert_string_equal(answer.text,
                        "rank 1 is ps, but the certificate of this worker is not for it");
    doors_close_env();
}

GW_TESTS(session_members_by_name, a_hello_of_another_name_is_refused);
