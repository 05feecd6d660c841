// Jobs with a key in the simulator: every connection is encrypted, and all else is as without a key.
#include "net/tls/certificate_make.h"
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

GW_FUNCTION(encrypted_echo, GW_POOL, "any") {
    return gw_arg(s, a, 0);
}

static char key_path[64];

// The same in each run, so that equal seeds can be compared.
static void write_key(const char *text) {
    snprintf(key_path, sizeof key_path, "/tmp/gw-key-XXXXXX");
    int fd = mkstemp(key_path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static void make_key(void) {
    char line[SECRET_LINE_MAX];
    gw_error error;
    assert_int_equal(secret_make_line(line, &error), GW_OK);
    write_key(line);
}

// One for all workers of this process.
static void make_certificate(void) {
    char ca[SECRET_TEXT_MAX], text[SECRET_TEXT_MAX];
    certificate_name n;
    gw_error error;
    assert_true(certificate_name_of("w%d=0-7", "*", &n));
    assert_int_equal(certificate_make_ca(1, ca, &error), GW_OK);
    assert_int_equal(certificate_make(ca, "the CA", &n, 1, 1, text, &error), GW_OK);
    write_key(text);
}

static void echo_around(gw_scope *root, int rank, void *context) {
    (void)context;
    for (int i = 0; i < 6 && gw_ok(root); i++) {
        gw_scope *s = gw_scope_open(root);
        int to = (rank + 1 + i % 2) % gw_rpc_world_size(s);
        gw_tensor *x = gw_rand(s, GW_F32, 2 << i, 3);
        gw_tensor *y = gw_tensor_of(s, gw_rpc_sync(s, to, "encrypted_echo", x));
        assert_true(gw_equal(s, x, y));
        gw_scope_close_up(s);
    }
}

static void run_seed(uint64_t seed, void *context) {
    (void)context;
    cluster_options o = { .world_size = 3,
                          .key = key_path,
                          .network = sim_varied(seed, seed % 3 ? 3000 : 0) };
    cluster_run(seed, o, echo_around, NULL);
}

static void calls_survive_broken_connections(void **state) {
    (void)state;
    make_key();
    testing_for_seeds(40, run_seed, NULL);
    unlink(key_path);
}

static void calls_with_certificates_survive_broken_connections(void **state) {
    (void)state;
    make_certificate();
    testing_for_seeds(40, run_seed, NULL);
    unlink(key_path);
}

static void equal_seeds_give_equal_runs(void **state) {
    (void)state;
    make_key();
    for (uint64_t seed = 1; seed <= 5; seed++) {
        cluster_options o = { .world_size = 2, .key = key_path, .network = sim_varied(seed, 1000) };
        uint64_t first = cluster_run(seed, o, echo_around, NULL).trace_hash;
        assert_int_equal(cluster_run(seed, o, echo_around, NULL).trace_hash, first);
    }
    unlink(key_path);
}

GW_TESTS(encrypted_sim, calls_survive_broken_connections,
         calls_with_certificates_survive_broken_connections, equal_seeds_give_equal_runs);
