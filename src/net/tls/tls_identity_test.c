#include "net/tls/tls_identity.h"

#include "testing/encrypted.h"
#include "testing/testing.h"

#include <stdio.h>
#include <string.h>

static party member(uint64_t n) {
    party p = { .rank = (uint32_t)n, .incarnation = n };
    snprintf(p.name, sizeof p.name, "w%llu", (unsigned long long)n);
    return p;
}

static tls_parties session(uint64_t from, uint64_t to) {
    return (tls_parties){
        .purpose = TLS_SESSION, .job = "test", .client = member(from), .server = member(to)
    };
}

static void it_is_opened_by_the_same_key_alone(void **state) {
    (void)state;
    secret *ab = encrypted_secret("ab"), *b = encrypted_secret("b"), *a = encrypted_secret("a");
    const tls_parties sent = session(1, 2);
    tls_parties received;
    tls_identity id;
    uint8_t mine[TLS_PSK_BYTES], theirs[TLS_PSK_BYTES];
    gw_error error;
    assert_true(tls_identity_seal(&b->keys[0], &sent, &id, mine));
    assert_int_equal(tls_identity_open(ab, id.bytes, id.size, &received, theirs, &error), GW_OK);
    assert_memory_equal(mine, theirs, sizeof mine);
    assert_string_equal(received.client.name, "w1");
    assert_string_equal(received.server.name, "w2");
    assert_string_equal(received.job, "test");
    assert_int_equal(received.client.incarnation, 1);
    assert_int_equal(received.server.rank, 2);
    assert_int_equal(tls_identity_open(a, id.bytes, id.size, &received, theirs, &error),
                     GW_MISMATCH);
    assert_string_equal(error.text, "it has another key");
    // A peer that has the id of a key does not have the key.
    memcpy(a->keys[0].id, b->keys[0].id, SECRET_ID_BYTES);
    assert_int_equal(tls_identity_open(a, id.bytes, id.size, &received, theirs, &error),
                     GW_MISMATCH);
    secret_close(a);
    secret_close(b);
    secret_close(ab);
}

static void nothing_of_it_can_be_changed(void **state) {
    (void)state;
    secret *a = encrypted_secret("a");
    const tls_parties sent = session(1, 2);
    tls_parties received;
    tls_identity id;
    uint8_t psk[TLS_PSK_BYTES];
    gw_error error;
    assert_true(tls_identity_seal(&a->keys[0], &sent, &id, psk));
    for (size_t i = 0; i < id.size; i++) {
        id.bytes[i] ^= 1;
        assert_int_equal(tls_identity_open(a, id.bytes, id.size, &received, psk, &error),
                         GW_MISMATCH);
        id.bytes[i] ^= 1;
    }
    for (size_t size = 0; size < id.size; size++)
        assert_int_equal(tls_identity_open(a, id.bytes, size, &received, psk, &error), GW_MISMATCH);
    assert_int_equal(tls_identity_open(a, id.bytes, id.size, &received, psk, &error), GW_OK);
    secret_close(a);
}

static void it_shows_no_names(void **state) {
    (void)state;
    secret *a = encrypted_secret("a");
    tls_parties sent = session(1, 2);
    snprintf(sent.client.name, sizeof sent.client.name, "trainer-of-secrets");
    tls_identity id, other;
    uint8_t psk[TLS_PSK_BYTES], other_psk[TLS_PSK_BYTES];
    assert_true(tls_identity_seal(&a->keys[0], &sent, &id, psk));
    assert_null(memmem(id.bytes, id.size, "trainer", 7));
    assert_null(memmem(id.bytes, id.size, "test", 4));
    // Nor that it is the same pair again.
    assert_true(tls_identity_seal(&a->keys[0], &sent, &other, other_psk));
    assert_memory_not_equal(id.bytes + SECRET_ID_BYTES, other.bytes + SECRET_ID_BYTES, 16);
    assert_memory_not_equal(id.bytes + 24, other.bytes + 24, 32);
    assert_memory_not_equal(psk, other_psk, sizeof psk);
    secret_close(a);
}

// "The key of a pair differs by direction, and no worker is ever client and server of the same key."
// The salt is the same here, as it is when received bytes are sent back.
static void the_key_is_bound_to_roles_and_job(void **state) {
    (void)state;
    testing_note("seed 1");
    secret *a = encrypted_secret("a");
    uint8_t psk[4][TLS_PSK_BYTES];
    const uint8_t salt[TLS_SALT_BYTES] = "always the same";
    tls_parties sent[4] = { session(1, 2), session(2, 1), session(1, 2), session(1, 2) };
    snprintf(sent[2].job, sizeof sent[2].job, "another");
    sent[3].purpose = TLS_STORE;
    for (int i = 0; i < 4; i++) assert_true(tls_derive_psk(&a->keys[0], salt, &sent[i], psk[i]));
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < i; k++) assert_memory_not_equal(psk[i], psk[k], TLS_PSK_BYTES);
    secret_close(a);
}

static void refuse(const tls_parties *parties, const protection *self, const char *words) {
    gw_error error;
    assert_int_equal(tls_parties_check(parties, self, &error), GW_MISMATCH);
    testing_note("\"%s\" should contain \"%s\"", error.text, words);
    assert_non_null(strstr(error.text, words));
}

static void a_server_refuses_clients_of_other_workers(void **state) {
    (void)state;
    protection self = encrypted_worker("a", 2);
    tls_parties p = session(1, 2);
    gw_error error;
    assert_int_equal(tls_parties_check(&p, &self, &error), GW_OK);
    self.self.rank = PARTY_RANK_UNKNOWN;
    assert_int_equal(tls_parties_check(&p, &self, &error), GW_OK);
    self.self.rank = 2;
    p = session(1, 3);
    refuse(&p, &self, "w1 (rank 1) has connected to this worker, but expects w3 (rank 3)");
    p = session(1, 2);
    p.server.rank = 7;
    refuse(&p, &self, "has connected to this worker, but expects w2 (rank 7)");
    p = session(1, 2);
    snprintf(p.server.name, sizeof p.server.name, "ps");
    refuse(&p, &self, "has connected to this worker, but expects ps (rank 2)");
    p = session(2, 1);
    refuse(&p, &self, "the peer has sent this worker's own first message back");
    p.purpose = TLS_STORE;
    refuse(&p, &self, "the peer has sent this worker's own first message back");
    p = session(1, 2);
    snprintf(p.job, sizeof p.job, "tuesday");
    refuse(&p, &self, "it belongs to job \"tuesday\", not to job \"test\"");
    protection_fini(&self);
}

GW_TESTS(net_tls_identity, it_is_opened_by_the_same_key_alone, nothing_of_it_can_be_changed,
         it_shows_no_names, the_key_is_bound_to_roles_and_job,
         a_server_refuses_clients_of_other_workers);
