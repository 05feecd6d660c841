#include "collective/plan/hosts.h"

#include "testing/testing.h"

#define A "shm://00000000000000aa:"
#define B "shm://00000000000000bb:"

#define SIZE_OF(...)                                                                               \
    hosts_find_size((const char *const[]){ __VA_ARGS__ },                                          \
                    sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))

static void members_of_a_host_have_its_name_in_their_addresses(void **state) {
    (void)state;
    assert_int_equal(SIZE_OF(A "1,tcp://10.0.0.1:1", A "2,tcp://10.0.0.1:2", B "1", B "2"), 2);
    assert_int_equal(SIZE_OF("tcp://10.0.0.1:1," A "1", "tcp://10.0.0.7:2," A "2"), 2);
    assert_int_equal(SIZE_OF(A "1", B "1"), 1);
    assert_int_equal(SIZE_OF(A "1"), 1);
    assert_int_equal(SIZE_OF(A "1", A "2", A "3"), 3);
}

static void without_shared_memory_the_address_decides(void **state) {
    (void)state;
    assert_int_equal(SIZE_OF("tcp://10.0.0.1:1", "tcp://10.0.0.1:2", "tcp://10.0.0.2:1",
                             "tcp://10.0.0.2:2,tcp://10.0.0.1:7"),
                     2);
    assert_int_equal(SIZE_OF("tcp://[fe80::1]:1", "tcp://[fe80::1]:2"), 2);
    assert_int_equal(SIZE_OF("tcp://10.0.0.1:1", "tcp://10.0.0.11:1"), 1);
}

static void all_members_or_none_share_memory(void **state) {
    (void)state;
    const char *const addresses[] = { A "1,tcp://10.0.0.1:1", "tcp://10.0.0.1:2," A "2",
                                      "tcp://10.0.0.1:3", NULL };
    assert_true(hosts_share_memory(addresses, 2));
    assert_false(hosts_share_memory(addresses, 3));
    assert_false(hosts_share_memory(addresses + 3, 1));
}

static void hosts_that_differ_have_no_size(void **state) {
    (void)state;
    assert_int_equal(SIZE_OF(A "1", A "2", B "1"), 0);
    assert_int_equal(SIZE_OF(A "1", B "1", A "2", B "2"),
                     1);  // none is next to another of its host
    assert_int_equal(SIZE_OF(A "1", A "2", B "1", A "3"), 0);
    assert_int_equal(SIZE_OF(A "1", A "2", A "3", B "1", B "2", B "3"), 0);
    assert_int_equal(SIZE_OF(A "1", A "2", B "1", B "2", B "3", B "4"), 0);
    assert_int_equal(SIZE_OF(A "1", NULL), 1);
    assert_int_equal(SIZE_OF("here", "here"), 1);
}

GW_TESTS(collective_hosts, members_of_a_host_have_its_name_in_their_addresses,
         without_shared_memory_the_address_decides, all_members_or_none_share_memory,
         hosts_that_differ_have_no_size);
