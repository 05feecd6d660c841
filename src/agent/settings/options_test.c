#include "agent/settings/options.h"

#include "testing/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *environment[8];  // "NAME=value", ended by NULL

static char *look_up(const char *name) {
    for (int i = 0; environment[i]; i++) {
        size_t size = strlen(name);
        if (!strncmp(environment[i], name, size) && environment[i][size] == '=')
            return (char *)environment[i] + size + 1;
    }
    return NULL;
}

static void set_environment(const char *a, const char *b, const char *c, const char *d) {
    environment[0] = a;
    environment[1] = b;
    environment[2] = c;
    environment[3] = d;
}

static join_options resolve(gw_rpc_options given) {
    join_options out;
    gw_error error;
    gw_status status = options_resolve(&given, look_up, &out, &error);
    if (status) print_message("%s\n", error.text);
    assert_int_equal(status, GW_OK);
    return out;
}

// One sentence that holds |words|.
static void refuse(gw_rpc_options given, gw_status wanted, const char *words) {
    join_options out;
    gw_error error = { 0 };
    assert_int_equal(options_resolve(&given, look_up, &out, &error), wanted);
    testing_note("\"%s\" should say \"%s\"", error.text, words);
    assert_non_null(strstr(error.text, words));
}

static void it_takes_everything_from_the_environment(void **state) {
    (void)state;
    set_environment("RANK=1", "WORLD_SIZE=3", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=29500");
    join_options o = resolve(GW_OPTIONS(gw_rpc_options));
    assert_int_equal(o.rank, 1);
    assert_int_equal(o.world_size, 3);
    assert_string_equal(o.master, "127.0.0.1:29500");
    assert_string_equal(o.name, "worker1");
    assert_int_equal(o.timeout_ms, 60000);
    assert_int_equal(o.join_timeout_ms, 300000);
}

static void it_takes_rank_and_world_size_from_options_or_the_url(void **state) {
    (void)state;
    set_environment("RANK=7", "WORLD_SIZE=9", NULL, NULL);
    join_options o = resolve(
        GW_OPTIONS(gw_rpc_options, .rank = 0, .world_size = 2, .init_method = "tcp://localhost:1"));
    assert_int_equal(o.rank, 0);
    assert_int_equal(o.world_size, 2);
    o = resolve(GW_OPTIONS(gw_rpc_options, .init_method = "file:///tmp/x?rank=3&world_size=4"));
    assert_int_equal(o.rank, 3);
    assert_int_equal(o.world_size, 4);
    assert_string_equal(o.path, "/tmp/x");
}

static void it_refuses_a_wrong_rank_or_world_size(void **state) {
    (void)state;
    set_environment("WORLD_SIZE=2", "MASTER_ADDR=localhost", "MASTER_PORT=29500", NULL);
    refuse(GW_OPTIONS(gw_rpc_options), GW_INVALID, "no rank was given, and neither RANK");
    set_environment("RANK=0", "MASTER_ADDR=localhost", "MASTER_PORT=29500", NULL);
    refuse(GW_OPTIONS(gw_rpc_options), GW_INVALID, "WORLD_SIZE is not set");
    set_environment("RANK=x", "WORLD_SIZE=2", "MASTER_ADDR=localhost", "MASTER_PORT=29500");
    refuse(GW_OPTIONS(gw_rpc_options), GW_INVALID, "RANK is \"x\"");
    set_environment("RANK=-1", "WORLD_SIZE=2", "MASTER_ADDR=localhost", "MASTER_PORT=29500");
    refuse(GW_OPTIONS(gw_rpc_options), GW_INVALID, "RANK is \"-1\"");
    set_environment("RANK=5", "WORLD_SIZE=2", "MASTER_ADDR=localhost", "MASTER_PORT=29500");
    refuse(GW_OPTIONS(gw_rpc_options), GW_INVALID, "rank 5 is out of range for world size 2");
    set_environment("RANK=0", "WORLD_SIZE=0", "MASTER_ADDR=localhost", "MASTER_PORT=29500");
    refuse(GW_OPTIONS(gw_rpc_options), GW_INVALID, "the world size is 0");
    refuse(GW_OPTIONS(gw_rpc_options, .rank = 1), GW_INVALID,
           "rank 1 is given without a world size");
    refuse(GW_OPTIONS(gw_rpc_options, .world_size = -2), GW_INVALID, "the world size is -2");
    refuse(GW_OPTIONS(gw_rpc_options, .rank = 0, .world_size = 2,
                      .init_method = "tcp://localhost:1?rank=0"),
           GW_INVALID, "given both by options and in the URL");
}

static void it_takes_a_redis_server(void **state) {
    (void)state;
    set_environment("GW_REDIS_PASSWORD_FILE=/etc/word", NULL, NULL, NULL);
    gw_rpc_options o =
        GW_OPTIONS(gw_rpc_options, .init_method = "redis://127.0.0.1:7/2?rank=1&world_size=2");
    join_options got = resolve(o);
    assert_string_equal(got.path, "redis://127.0.0.1:7/2");
    assert_string_equal(got.redis_password_file, "/etc/word");
    assert_int_equal(got.rank, 1);
    assert_false(got.goes_beyond);
    o.init_method = "redis://10.0.0.1/?rank=1&world_size=2";
    refuse(o, GW_UNSUPPORTED, "10.0.0.1\", which is not this machine: give all workers the file");
    o.insecure = true;
    assert_true(resolve(o).goes_beyond);
    o.init_method = "redis://me@127.0.0.1/?rank=1&world_size=2";
    refuse(o, GW_INVALID, "is not of the form redis://host:port/database");
    o.init_method = "rediss://127.0.0.1/?rank=1&world_size=2";
    refuse(o, GW_UNSUPPORTED, "rediss:// is not supported");
}

static void a_world_of_one_needs_no_address(void **state) {
    (void)state;
    set_environment(NULL, NULL, NULL, NULL);
    assert_string_equal(resolve(GW_OPTIONS(gw_rpc_options, .world_size = 1)).master, "127.0.0.1:0");
    set_environment("RANK=0", "WORLD_SIZE=1", NULL, NULL);
    assert_string_equal(resolve(GW_OPTIONS(gw_rpc_options)).master, "127.0.0.1:0");
    set_environment("RANK=0", "WORLD_SIZE=1", "MASTER_PORT=29500", NULL);
    assert_string_equal(resolve(GW_OPTIONS(gw_rpc_options)).master, "127.0.0.1:29500");
    // Without a word about the world, what is missing is named.
    set_environment(NULL, NULL, NULL, NULL);
    refuse(GW_OPTIONS(gw_rpc_options), GW_INVALID, "no rank was given, and neither RANK");
}

static void it_refuses_a_wrong_address(void **state) {
    (void)state;
    gw_rpc_options o = GW_OPTIONS(gw_rpc_options, .rank = 0, .world_size = 2);
    set_environment("MASTER_PORT=29500", NULL, NULL, NULL);
    refuse(o, GW_INVALID, "MASTER_ADDR is not set");
    set_environment("MASTER_ADDR=localhost", NULL, NULL, NULL);
    refuse(o, GW_INVALID, "MASTER_PORT is not set");
    set_environment("MASTER_ADDR=localhost", "MASTER_PORT=70000", NULL, NULL);
    refuse(o, GW_INVALID, "MASTER_PORT is \"70000\", but must be a number from 0 to 65535");
    set_environment("MASTER_ADDR=10.0.0.1", "MASTER_PORT=29500", NULL, NULL);
    refuse(o, GW_UNSUPPORTED, "MASTER_ADDR is \"10.0.0.1\", which is not this machine");
    set_environment("MASTER_ADDR=no.such.invalid", "MASTER_PORT=29500", NULL, NULL);
    refuse(o, GW_NOT_FOUND, "MASTER_ADDR is \"no.such.invalid\", a name that does not resolve: ");
    o.init_method = "tcp://localhost";
    refuse(o, GW_INVALID, "\"tcp://localhost\" is not of the form tcp://host:port");
    o.init_method = "tcp://localhost:http";
    refuse(o, GW_INVALID, "\"http\"");
    o.init_method = "udp://localhost:1";
    refuse(o, GW_INVALID,
           "\"udp://localhost:1\" does not begin with env://, tcp://, file:// or redis://");
    o.init_method = "file://";
    refuse(o, GW_INVALID, "file:// needs a path");
    o.init_method = "tcp://localhost:1?color=red";
    refuse(o, GW_INVALID, "\"color=red\"");
}

static void it_listens_beyond_this_machine_on_request(void **state) {
    (void)state;
    gw_rpc_options o = GW_OPTIONS(gw_rpc_options, .world_size = 2, .rank = 0, .insecure = true);
    const char *const hosts[][2] = { { "10.0.0.1", "10.0.0.1:29500" },
                                     { "node0.cluster", "node0.cluster:29500" },
                                     { "fd00::1", "[fd00::1]:29500" },
                                     { "[fd00::1]", "[fd00::1]:29500" } };
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        char text[64];
        snprintf(text, sizeof text, "MASTER_ADDR=%s", hosts[i][0]);
        set_environment(text, "MASTER_PORT=29500", NULL, NULL);
        join_options r = resolve(o);
        assert_string_equal(r.master, hosts[i][1]);
        assert_true(r.goes_beyond);
    }
    set_environment("MASTER_ADDR=::1", "MASTER_PORT=29500", NULL, NULL);
    assert_string_equal(resolve(o).master, "[::1]:29500");
    assert_false(resolve(o).goes_beyond);
    set_environment("MASTER_ADDR=a b", "MASTER_PORT=29500", NULL, NULL);
    refuse(o, GW_INVALID, "MASTER_ADDR is \"a b\", which is not a host");
}

static void it_listens_at_the_given_addresses(void **state) {
    (void)state;
    gw_rpc_options o =
        GW_OPTIONS(gw_rpc_options, .world_size = 1, .init_method = "tcp://localhost:1");
    set_environment("GW_ADDRESS=127.0.0.2", "GW_INTERFACE=lo", NULL, NULL);
    join_options r = resolve(o);
    assert_string_equal(r.listen_addresses, "127.0.0.2");
    assert_string_equal(r.listen_interfaces, "lo");
    assert_false(r.goes_beyond);
    set_environment("GW_ADDRESS=127.0.0.2,10.0.0.7", NULL, NULL, NULL);
    refuse(o, GW_UNSUPPORTED, "GW_ADDRESS is \"127.0.0.2,10.0.0.7\", which is not this machine");
    set_environment("GW_INTERFACE=eth0", NULL, NULL, NULL);
    refuse(o, GW_UNSUPPORTED, "GW_INTERFACE is \"eth0\", which is not this machine");
    o.insecure = true;
    assert_true(resolve(o).goes_beyond);
    char longer[LIMIT_ADDRESSES_BYTES + 32] = "GW_ADDRESS=";
    memset(longer + 11, 'x', sizeof longer - 12);
    set_environment(longer, NULL, NULL, NULL);
    refuse(o, GW_INVALID, "GW_ADDRESS is longer than 511 bytes");
}

static void listening_options_precede_the_environment(void **state) {
    (void)state;
    gw_rpc_options o = GW_OPTIONS(gw_rpc_options, .world_size = 1,
                                  .init_method = "tcp://localhost:1", .addresses = "127.0.0.3:7");
    set_environment("GW_ADDRESS=127.0.0.2", "GW_INTERFACE=lo", NULL, NULL);
    join_options r = resolve(o);
    assert_string_equal(r.listen_addresses, "127.0.0.3:7");
    assert_string_equal(r.listen_interfaces, "lo");
    o.interfaces = "eth0";
    refuse(o, GW_UNSUPPORTED, "interfaces is \"eth0\", which is not this machine");
    o.addresses = "10.0.0.7";
    refuse(o, GW_UNSUPPORTED, "addresses is \"10.0.0.7\", which is not this machine");
}

static void it_refuses_a_wrong_name(void **state) {
    (void)state;
    set_environment(NULL, NULL, NULL, NULL);
    gw_rpc_options o = GW_OPTIONS(gw_rpc_options, .world_size = 1, .init_method = "file:///tmp/x",
                                  .name = "two words");
    refuse(o, GW_INVALID, "\"two words\" is not a name");
    o.name = "";
    refuse(o, GW_INVALID, "\"\" is not a name");
    char longest[LIMIT_NAME_BYTES + 2];
    memset(longest, 'x', sizeof longest);
    longest[LIMIT_NAME_BYTES] = '\0';
    o.name = longest;
    assert_string_equal(resolve(o).name, longest);
    longest[LIMIT_NAME_BYTES] = 'x';
    longest[LIMIT_NAME_BYTES + 1] = '\0';
    refuse(o, GW_INVALID, "is not a name");
    o.name = "ps:0-a_b.C9";
    assert_string_equal(resolve(o).name, "ps:0-a_b.C9");
}

static void it_puts_the_rank_into_a_name(void **state) {
    (void)state;
    set_environment("RANK=3", "WORLD_SIZE=4", NULL, NULL);
    gw_rpc_options o =
        GW_OPTIONS(gw_rpc_options, .init_method = "file:///tmp/x", .name = "trainer%d");
    assert_string_equal(resolve(o).name, "trainer3");
    o.name = "%d.a";
    assert_string_equal(resolve(o).name, "3.a");
    o.name = "%d%d";
    refuse(o, GW_INVALID,
           "the name \"%d%d\" is malformed: with the rank in place of %d, it must have 1 to");
    o.name = "trainer%s";
    refuse(o, GW_INVALID, "\"trainer%s\" is not a name");
    char longest[LIMIT_NAME_BYTES + 3];
    memset(longest, 'x', sizeof longest);
    memcpy(longest, "%d", 2);
    longest[LIMIT_NAME_BYTES + 2] = '\0';
    o.name = longest;
    refuse(o, GW_INVALID, "is malformed: with the rank in place of %d, it must have 1 to");
    set_environment(NULL, NULL, NULL, NULL);
    o.name = "trainer%d";
    o.job = GW_JOB_JOIN;
    assert_string_equal(resolve(o).name, "trainer%d");  // until it is admitted
}

static void it_refuses_wrong_times_and_threads(void **state) {
    (void)state;
    set_environment(NULL, NULL, NULL, NULL);
    const gw_rpc_options good =
        GW_OPTIONS(gw_rpc_options, .world_size = 1, .init_method = "file:///tmp/x");
    gw_rpc_options o = good;
    o.timeout_ms = -5;
    refuse(o, GW_INVALID, "the timeout is -5 ms, but must not be negative");
    o = good;
    o.join_timeout_ms = -5;
    refuse(o, GW_INVALID, "the join timeout is -5 ms, but must not be negative");
    o = good;
    o.threads = -1;
    refuse(o, GW_INVALID, ".threads is -1, but must be 1 to ");
    o = good;
    o.timeout_ms = GW_NO_TIMEOUT;
    assert_int_equal(resolve(o).timeout_ms, GW_NO_TIMEOUT);
}

static void it_accepts_a_group_instead_of_a_rank(void **state) {
    (void)state;
    const gw_rpc_options none = GW_OPTIONS(gw_rpc_options, .init_method = "file:///tmp/x");
    set_environment("GW_JOB=join", "RANK=3", "WORLD_SIZE=4", NULL);
    join_options o = resolve(none);
    assert_int_equal(o.job, GW_JOB_JOIN);
    assert_int_equal(o.rank, -1);
    assert_int_equal(o.world_size, 0);
    assert_string_equal(o.name, "");  // its incarnation's, later
    set_environment("GW_JOB=create", NULL, NULL, NULL);
    o = resolve(none);
    assert_int_equal(o.job, GW_JOB_CREATE);
    assert_int_equal(o.rank, 0);
    assert_string_equal(o.name, "worker0");
    // Given values precede the environment.
    o = resolve(
        GW_OPTIONS(gw_rpc_options, .rank = 0, .world_size = 2, .init_method = "file:///tmp/x"));
    assert_int_equal(o.job, GW_JOB_NONE);
    o = resolve(GW_OPTIONS(gw_rpc_options, .job = GW_JOB_JOIN, .init_method = "file:///tmp/x"));
    assert_int_equal(o.job, GW_JOB_JOIN);
    set_environment("GW_JOB=enter", NULL, NULL, NULL);
    refuse(none, GW_INVALID, "GW_JOB is \"enter\", but must be create or join");
    const gw_rpc_options both = GW_OPTIONS(gw_rpc_options, .job = GW_JOB_JOIN, .world_size = 2,
                                           .init_method = "file:///tmp/x");
    refuse(both, GW_INVALID, "an elastic job assigns ranks itself");
    const gw_rpc_options portless =
        GW_OPTIONS(gw_rpc_options, .job = GW_JOB_CREATE, .init_method = "tcp://localhost:0");
    refuse(portless, GW_INVALID, "is 0, but must be a port that the other workers know");
}

static void a_group_may_have_several_addresses(void **state) {
    (void)state;
    set_environment(NULL, NULL, NULL, NULL);
    gw_rpc_options o = GW_OPTIONS(gw_rpc_options, .job = GW_JOB_JOIN,
                                  .init_method = "tcp://localhost:1,[::1]:2,127.0.0.3:3");
    assert_string_equal(resolve(o).master, "127.0.0.1:1,[::1]:2,127.0.0.3:3");
    o.init_method = "tcp://localhost:1,:2";
    refuse(o, GW_INVALID, "\"tcp://:2\" is not of the form tcp://host:port");
    char many[1024] = "tcp://localhost:1";
    for (size_t at = strlen(many); at < 600;)
        at += (size_t)snprintf(many + at, sizeof many - at, ",127.0.0.1:29500");
    o.init_method = many;
    refuse(o, GW_INVALID, "more than 511 bytes of addresses");
    o = GW_OPTIONS(gw_rpc_options, .rank = 0, .world_size = 2,
                   .init_method = "tcp://localhost:1,localhost:2");
    refuse(o, GW_INVALID, "several addresses, but only an elastic job can have several");
}

static void it_names_three_ways_beyond_this_machine(void **state) {
    (void)state;
    gw_rpc_options o = GW_OPTIONS(gw_rpc_options, .rank = 1, .world_size = 2,
                                  .init_method = "tcp://10.0.0.1:29500");
    set_environment(NULL, NULL, NULL, NULL);
    refuse(o, GW_UNSUPPORTED, "gradwire key > job.key");
    refuse(o, GW_UNSUPPORTED, "addresses of this machine alone");
    refuse(o, GW_UNSUPPORTED, "--insecure");
    set_environment("GW_INSECURE=0", NULL, NULL, NULL);
    refuse(o, GW_UNSUPPORTED, "--insecure");
    set_environment("GW_INSECURE=1", NULL, NULL, NULL);
    assert_true(resolve(o).protection.insecure);
    set_environment(NULL, NULL, NULL, NULL);
    o.insecure = true;
    assert_string_equal(resolve(o).master, "10.0.0.1:29500");
    set_environment("GW_INSECURE=yes", NULL, NULL, NULL);
    refuse(o, GW_INVALID, "GW_INSECURE is \"yes\"");
}

static void it_takes_the_key_of_the_job_from_a_file_or_a_descriptor(void **state) {
    (void)state;
    char path[] = "/tmp/gw-key-XXXXXX", line[SECRET_LINE_MAX], variable[64];
    gw_error error;
    int fd = mkstemp(path);
    assert_int_equal(secret_make_line(line, &error), GW_OK);
    assert_int_equal(write(fd, line, strlen(line)), strlen(line));
    gw_rpc_options o = GW_OPTIONS(gw_rpc_options, .world_size = 1, .init_method = "file:///tmp/x");
    set_environment(NULL, NULL, NULL, NULL);
    assert_null(resolve(o).protection.secret);
    snprintf(variable, sizeof variable, "GW_KEY_FILE=%s", path);
    set_environment(variable, "GW_JOB_ID=night-7", NULL, NULL);
    join_options by_file = resolve(o);
    assert_string_equal(by_file.protection.job, "night-7");
    o.key = path;
    set_environment("GW_KEY_FILE=/nowhere", NULL, NULL, NULL);
    join_options by_option = resolve(o);
    o.key = NULL;
    snprintf(variable, sizeof variable, "GW_KEY_FD=%d", fd);
    set_environment(variable, "GW_KEY_FILE=/nowhere", NULL, NULL);
    join_options by_descriptor = resolve(o);
    const secret *s = by_file.protection.secret;
    assert_memory_equal(s, by_option.protection.secret, sizeof *s);
    assert_memory_equal(s, by_descriptor.protection.secret, sizeof *s);
    set_environment("GW_KEY_FILE=/nowhere", NULL, NULL, NULL);
    refuse(o, GW_NOT_FOUND, "the key file /nowhere");
    set_environment("GW_KEY_FD=three", NULL, NULL, NULL);
    refuse(o, GW_INVALID, "GW_KEY_FD is \"three\"");
    o.key = path;
    o.insecure = true;
    set_environment(NULL, NULL, NULL, NULL);
    refuse(o, GW_INVALID, "a key is given, but insecure is set");
    protection_fini(&by_file.protection);
    protection_fini(&by_option.protection);
    protection_fini(&by_descriptor.protection);
    unlink(path);
}

static void a_pattern_of_names_is_a_role(void **state) {
    (void)state;
    assert_true(options_fits_name("trainer%d", "trainer0"));
    assert_true(options_fits_name("trainer%d", "trainer120"));
    assert_true(options_fits_name("a%d1b", "a1111b"));
    assert_true(options_fits_name("ps", "ps"));
    const char *const others[] = { "trainer", "trainer1b", "atrainer1", "trainerx", "train" };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(options_fits_name("trainer%d", others[i]));
    assert_false(options_fits_name("a%d1b", "a1b"));
    assert_false(options_fits_name("ps", "ps0"));
    assert_true(options_is_pattern("trainer%d"));
    assert_true(options_is_pattern("ps"));
    assert_false(options_is_pattern(""));
    assert_false(options_is_pattern("%s"));
    assert_false(options_is_pattern("%d-%d"));
}

GW_TESTS(agent_options, it_names_three_ways_beyond_this_machine,
         it_takes_the_key_of_the_job_from_a_file_or_a_descriptor, a_pattern_of_names_is_a_role,
         it_accepts_a_group_instead_of_a_rank, a_group_may_have_several_addresses,
         it_takes_everything_from_the_environment,
         it_takes_rank_and_world_size_from_options_or_the_url,
         it_refuses_a_wrong_rank_or_world_size, a_world_of_one_needs_no_address,
         it_refuses_a_wrong_address, it_takes_a_redis_server,
         it_listens_beyond_this_machine_on_request, it_listens_at_the_given_addresses,
         listening_options_precede_the_environment, it_refuses_a_wrong_name,
         it_puts_the_rank_into_a_name, it_refuses_wrong_times_and_threads);
