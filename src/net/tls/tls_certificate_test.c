// Servers (doors) and clients (visitors) with certificates: no worker passes for another.
#include "net/tls/tls.h"

#include "testing/doors.h"
#include "testing/testing.h"

#include <stdio.h>
#include <string.h>

static protection certified(const char *name, uint64_t incarnation) {
    return encrypted_certified('a', "a", name, incarnation);
}

// A client connects to the door of w2, and its hello either arrives there or does not.
typedef struct visit {
    protection door, visitor;
    const party *to;                       // NULL: the door
    bool store;                            // it connects to the store
    const char *door_says, *visitor_says;  // in their logs, if it is not admitted
} visit;

static void make(visit x, bool enters) {
    door d;
    visitor v;
    doors_open_env();
    door_open(&d, x.door);
    visitor_connect(&v, x.visitor, d.address, x.store ? NULL : x.to ? x.to : &d.self.self);
    while (!d.admitted && !v.closed)
        env_wait(doors_env, &(waiter){ 0 }, env_now_ns(doors_env) + 1000000);
    assert_int_equal(d.admitted, enters);
    if (!enters) {
        doors_until(&d.refused, 1);
        assert_int_equal(v.opened, 0);
        testing_note("door: \"%s\", visitor: \"%s\"", d.why.text, v.why.text);
        if (x.door_says) assert_non_null(strstr(d.why.text, x.door_says));
        if (x.visitor_says) assert_non_null(strstr(v.why.text, x.visitor_says));
        assert_int_equal(v.why.status, x.store ? GW_MISMATCH : GW_DISCONNECTED);
    }
    visitor_leave(&v);
    door_close(&d);
    doors_close_env();
}

static void members_are_admitted(void **state) {
    (void)state;
    make((visit){ .door = certified("w2=2", 2), .visitor = certified("w1=1", 1) }, true);
    make((visit){ .door = certified("w2=2", 2), .visitor = certified("w1=1", 1), .store = true },
         true);
    // One certificate may name all workers of a host, or of a job whose ranks are not known in advance.
    make((visit){ .door = certified("x=7,w%d=0-3", 2), .visitor = certified("w%d=0-3", 1) }, true);
    make((visit){ .door = certified("w%d", 2), .visitor = certified("w1", 1) }, true);
}

static void certificates_of_other_cas_are_refused(void **state) {
    (void)state;
    const char *no_ca = "its certificate is not one of this job";
    const char *no_taker = "it does not accept the certificate of this worker";
    make((visit){ .door = certified("w2=2", 2),
                  .visitor = encrypted_certified('b', "a", "w1=1", 1),
                  .door_says = no_ca,
                  .visitor_says = no_taker },
         false);
    make((visit){ .door = encrypted_certified('b', "a", "w2=2", 2),
                  .visitor = certified("w1=1", 1),
                  .visitor_says = no_ca },
         false);
    // Two CAs are trusted while one replaces the other.
    make((visit){ .door = encrypted_certified('a', "ab", "w2=2", 2),
                  .visitor = encrypted_certified('b', "ab", "w1=1", 1) },
         true);
}

static void a_client_must_match_its_certificate(void **state) {
    (void)state;
    static const char *const others[] = { "w3=3", "w1=3", "w3=1", "w%d=2-9", "w1", NULL };
    for (int i = 0; i < 4; i++)
        make((visit){ .door = certified("w2=2", 2),
                      .visitor = certified(others[i], 1),
                      .door_says = "its certificate is for gradwire:test/",
                      .visitor_says = "it does not accept the certificate of this worker" },
             false);
    make((visit){ .door = certified("w2=2", 2),
                  .visitor = certified("w3=3", 1),
                  .store = true,
                  .door_says = "but it claims to be w1 (rank 1)" },
         false);
    protection tuesday = certified("w1=1", 1);
    snprintf(tuesday.job, sizeof tuesday.job, "tuesday");
    make((visit){ .door = certified("w2=2", 2), .visitor = tuesday }, false);
}

static void a_server_must_match_its_certificate(void **state) {
    (void)state;
    // The worker at the address of w3 has a certificate of another worker.
    const party w3 = { .name = "w3", .rank = 3, .incarnation = 2 };
    make((visit){ .door = certified("w2=2", 2),
                  .visitor = certified("w1=1", 1),
                  .to = &w3,
                  .visitor_says =
                      "its certificate is for gradwire:test/2/w2, but w3 (rank 3) was expected" },
         false);
    // Nor is every worker rank 0, which hosts the store.
    protection meets = certified("w1=1", 1);
    meets.meets_at_rank_0 = true;
    make((visit){ .door = certified("w2=2", 2),
                  .visitor = meets,
                  .store = true,
                  .visitor_says = "but the host of the store (rank 0) was expected" },
         false);
    meets = certified("w1=1", 1);
    meets.meets_at_rank_0 = true;
    make((visit){ .door = certified("w2=2,w0=0", 2), .visitor = meets, .store = true }, true);
}

static void keys_and_certificates_do_not_mix(void **state) {
    (void)state;
    make((visit){ .door = encrypted_worker("a", 2), .visitor = certified("w1=1", 1) }, false);
    make((visit){ .door = certified("w2=2", 2), .visitor = encrypted_worker("a", 1) }, false);
}

static void a_client_of_another_worker_is_refused(void **state) {
    (void)state;
    const party before = { .name = "w2", .rank = 2, .incarnation = 77 };
    make((visit){ .door = certified("w2=2", 2),
                  .visitor = certified("w1=1", 1),
                  .to = &before,
                  .door_says = "has connected to this worker, but expects" },
         false);
    make((visit){ .door = certified("w2=2", 2),
                  .visitor = certified("w2=2", 2),
                  .door_says = "the peer has sent this worker's own first message back" },
         false);
}

static void a_worker_has_its_own_certificate_or_none(void **state) {
    (void)state;
    gw_error error;
    protection p = certified("w2=2", 1);
    doors_open_env();
    assert_int_equal(connection_protect(doors_env, &p, &error), GW_MISMATCH);
    assert_string_equal(error.text, "the certificate of this worker is for gradwire:test/2/w2, but "
                                    "the worker is w1, rank 1 of job \"test\"");
    protection_fini(&p);
    doors_close_env();
}

// The name in the certificate, and the name in the membership.
static void a_hello_must_match_the_certificate(void **state) {
    (void)state;
    door d;
    visitor v;
    doors_open_env();
    door_open(&d, certified("w%d", 2));
    visitor_connect(&v, certified("w1", 1), d.address, &d.self.self);
    doors_until(&d.admitted, 1);
    assert_true(connection_may_be(d.inside[0], "w1"));
    assert_false(connection_may_be(d.inside[0], "ps"));
    visitor_leave(&v);
    door_close(&d);
    doors_close_env();
}

GW_TESTS(net_tls_certificate, members_are_admitted, certificates_of_other_cas_are_refused,
         a_client_must_match_its_certificate, a_server_must_match_its_certificate,
         keys_and_certificates_do_not_mix, a_client_of_another_worker_is_refused,
         a_worker_has_its_own_certificate_or_none, a_hello_must_match_the_certificate);
