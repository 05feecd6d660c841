// Doors and visitors that have certificates: nobody passes for another.
#include "net/tls/tls.h"

#include "testing/doors.h"
#include "testing/testing.h"

#include <stdio.h>
#include <string.h>

static protection certified(const char *name, uint64_t incarnation) {
    return encrypted_certified('a', "a", name, incarnation);
}

// Comes to a door of w2, and either is heard there or is not.
typedef struct visit {
    protection door, visitor;
    const party *to;                       // NULL: the door
    bool store;                            // it comes for that
    const char *door_says, *visitor_says;  // to their logs, if it is not let in
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
        testing_note("the door says \"%s\", the visitor \"%s\"", d.why.text, v.why.text);
        if (x.door_says) assert_non_null(strstr(d.why.text, x.door_says));
        if (x.visitor_says) assert_non_null(strstr(v.why.text, x.visitor_says));
        assert_int_equal(v.why.status, x.store ? GW_MISMATCH : GW_DISCONNECTED);
    }
    visitor_leave(&v);
    door_close(&d);
    doors_close_env();
}

static void members_are_let_in(void **state) {
    (void)state;
    make((visit){ .door = certified("w2=2", 2), .visitor = certified("w1=1", 1) }, true);
    make((visit){ .door = certified("w2=2", 2), .visitor = certified("w1=1", 1), .store = true },
         true);
    // One certificate may name all workers of a host, or of a group, whose ranks nobody knows before.
    make((visit){ .door = certified("x=7,w%d=0-3", 2), .visitor = certified("w%d=0-3", 1) }, true);
    make((visit){ .door = certified("w%d", 2), .visitor = certified("w1", 1) }, true);
}

static void of_any_other_ca_none_is(void **state) {
    (void)state;
    const char *no_ca = "its certificate is not one of this job";
    const char *no_taker = "it does not take our certificate";
    make((visit){ .door = certified("w2=2", 2),
                  .visitor = encrypted_certified('b', "a", "w1=1", 1),
                  .door_says = no_ca,
                  .visitor_says = no_taker },
         false);
    make((visit){ .door = encrypted_certified('b', "a", "w2=2", 2),
                  .visitor = certified("w1=1", 1),
                  .visitor_says = no_ca },
         false);
    // Two are trusted while one takes the place of the other.
    make((visit){ .door = encrypted_certified('a', "ab", "w2=2", 2),
                  .visitor = encrypted_certified('b', "ab", "w1=1", 1) },
         true);
}

static void a_client_is_whom_its_certificate_names(void **state) {
    (void)state;
    static const char *const others[] = { "w3=3", "w1=3", "w3=1", "w%d=2-9", "w1", NULL };
    for (int i = 0; i < 4; i++)
        make((visit){ .door = certified("w2=2", 2),
                      .visitor = certified(others[i], 1),
                      .door_says = "its certificate is of gradwire:test/",
                      .visitor_says = "it does not take our certificate" },
             false);
    make((visit){ .door = certified("w2=2", 2),
                  .visitor = certified("w3=3", 1),
                  .store = true,
                  .door_says = "and it says it is w1 (rank 1)" },
         false);
    protection tuesday = certified("w1=1", 1);
    snprintf(tuesday.job, sizeof tuesday.job, "tuesday");
    make((visit){ .door = certified("w2=2", 2), .visitor = tuesday }, false);
}

static void a_server_is_whom_its_certificate_names(void **state) {
    (void)state;
    // Who is at the place of w3 has a certificate, but another one's.
    const party w3 = { .name = "w3", .rank = 3, .incarnation = 2 };
    make((visit){ .door = certified("w2=2", 2),
                  .visitor = certified("w1=1", 1),
                  .to = &w3,
                  .visitor_says =
                      "its certificate is of gradwire:test/2/w2, and w3 (rank 3) is meant" },
         false);
    // Nor is every worker that of rank 0, whom a job meets at.
    protection meets = certified("w1=1", 1);
    meets.meets_at_rank_0 = true;
    make((visit){ .door = certified("w2=2", 2),
                  .visitor = meets,
                  .store = true,
                  .visitor_says = "and the host of the store (rank 0) is meant" },
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

static void who_looks_for_another_worker_is_turned_away(void **state) {
    (void)state;
    const party before = { .name = "w2", .rank = 2, .incarnation = 77 };
    make((visit){ .door = certified("w2=2", 2),
                  .visitor = certified("w1=1", 1),
                  .to = &before,
                  .door_says = "looks for another worker" },
         false);
    make((visit){ .door = certified("w2=2", 2),
                  .visitor = certified("w2=2", 2),
                  .door_says = "came back to it" },
         false);
}

static void a_worker_has_its_own_certificate_or_none(void **state) {
    (void)state;
    gw_error error;
    protection p = certified("w2=2", 1);
    doors_open_env();
    assert_int_equal(connection_protect(doors_env, &p, &error), GW_MISMATCH);
    assert_string_equal(error.text,
                        "the certificate of this worker is of gradwire:test/2/w2, and it "
                        "is w1, rank 1 of the job \"test\"");
    protection_fini(&p);
    doors_close_env();
}

// A name that the certificate was shown for, and the one that membership knows.
static void a_hello_is_that_of_the_member_with_its_name(void **state) {
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

GW_TESTS(net_tls_certificate, members_are_let_in, of_any_other_ca_none_is,
         a_client_is_whom_its_certificate_names, a_server_is_whom_its_certificate_names,
         keys_and_certificates_do_not_mix, who_looks_for_another_worker_is_turned_away,
         a_worker_has_its_own_certificate_or_none, a_hello_is_that_of_the_member_with_its_name);
