#include "net/transport/interfaces.h"

#include <stdio.h>
#include <string.h>

#include "testing/testing.h"

static gw_error error;
static interface_address all[16];
static int count;

static void add(const char *name, const char *host) {
    char text[ADDRESS_MAX];
    snprintf(text, sizeof text, strchr(host, ':') ? "[%s]:0" : "%s:0", host);
    assert_int_equal(address_parse(text, &all[count].at, &error), GW_OK);
    snprintf(all[count++].name, IF_NAMESIZE, "%s", name);
}

// A typical machine: loopback, a bridge to containers, two networks, one of them with IPv6.
static void make_machine(void) {
    count = 0;
    add("lo", "127.0.0.1");
    add("lo", "::1");
    add("docker0", "172.17.0.1");
    add("eth0", "10.0.0.7");
    add("ib0", "192.168.5.7");
    add("eth0", "fd00::7");
    add("eth0", "fd00::77");
    add("eth0", "fe80::7");
}

static const char *choose_from(places p, const char *source) {
    static char out[ADDRESSES_MAX];
    address a;
    if (!p.toward) p.toward = "";
    if (source) assert_int_equal(address_parse(source, &a, &error), GW_OK);
    if (places_choose_among(&p, all, count, source ? &a : NULL, out, &error)) return error.text;
    return out;
}

static void the_interface_toward_the_rendezvous_is_first(void **state) {
    (void)state;
    make_machine();
    assert_string_equal(choose_from((places){ .toward = "10.0.0.1:1" }, "10.0.0.7:99"),
                        "tcp://10.0.0.7:0,tcp://[fd00::7]:0,tcp://192.168.5.7:0");
    assert_string_equal(choose_from((places){ .toward = "192.168.5.1:1" }, "192.168.5.7:99"),
                        "tcp://192.168.5.7:0,tcp://10.0.0.7:0,tcp://[fd00::7]:0");
    assert_string_equal(
        choose_from((places){ .toward = "[fd00::1]:1" }, "[fd00::77]:9"),
        "tcp://[fd00::77]:0,tcp://10.0.0.7:0,tcp://[fd00::7]:0,tcp://192.168.5.7:0");
    // Without a route: in the order of the interfaces.
    assert_string_equal(choose_from((places){ 0 }, NULL),
                        "tcp://10.0.0.7:0,tcp://192.168.5.7:0,tcp://[fd00::7]:0");
}

static void a_user_may_choose(void **state) {
    (void)state;
    make_machine();
    assert_string_equal(choose_from((places){ .interfaces = "ib0" }, "10.0.0.7:9"),
                        "tcp://192.168.5.7:0");
    assert_string_equal(choose_from((places){ .interfaces = "docker0,lo" }, NULL),
                        "tcp://172.17.0.1:0,tcp://127.0.0.1:0,tcp://[::1]:0");
    assert_string_equal(choose_from((places){ .addresses = "10.0.0.7,fd00::7" }, NULL),
                        "tcp://10.0.0.7:0,tcp://[fd00::7]:0");
    assert_string_equal(choose_from((places){ .addresses = "10.0.0.7:5,[fd00::7],[::1]:6" }, NULL),
                        "tcp://10.0.0.7:5,tcp://[fd00::7]:0,tcp://[::1]:6");
    assert_string_equal(choose_from((places){ .addresses = "localhost" }, NULL),
                        "tcp://127.0.0.1:0");
}

static void rank_0_listens_at_the_rendezvous_address(void **state) {
    (void)state;
    make_machine();
    assert_string_equal(
        choose_from((places){ .toward = "10.0.0.7:29500", .hosts = true }, "10.0.0.7:9"),
        "tcp://10.0.0.7:29500");
    assert_string_equal(
        choose_from((places){ .toward = "[fd00::7]:29500", .hosts = true }, "[fd00::7]:9"),
        "tcp://[fd00::7]:29500");
    assert_string_equal(
        choose_from((places){ .toward = "10.0.0.7:29500", .hosts = true, .interfaces = "ib0" },
                    "10.0.0.7:9"),
        "tcp://192.168.5.7:29500,tcp://10.0.0.7:29500");
    assert_string_equal(
        choose_from(
            (places){ .toward = "10.0.0.7:29500", .hosts = true, .addresses = "192.168.5.7" },
            "10.0.0.7:9"),
        "tcp://192.168.5.7:29500,tcp://10.0.0.7:29500");
}

// Many systems list their own name as 127.0.1.1, to which no other machine can connect.
static void a_loopback_name_listens_at_all_addresses(void **state) {
    (void)state;
    make_machine();
    assert_string_equal(choose_from((places){ .toward = "localhost:29500", .hosts = true }, NULL),
                        "tcp://10.0.0.7:29500,tcp://192.168.5.7:29500,tcp://[fd00::7]:29500,"
                        "tcp://127.0.0.1:29500");
}

// No label of a name has 70 letters, so no name server is queried.
static void an_unresolved_name_listens_at_all_addresses(void **state) {
    (void)state;
    make_machine();
    char name[100];
    memset(name, 'x', 70);
    memcpy(name + 70, ".invalid:29500", 15);
    assert_string_equal(choose_from((places){ .toward = name, .hosts = true }, NULL),
                        "tcp://10.0.0.7:29500,tcp://192.168.5.7:29500,tcp://[fd00::7]:29500");
}

static void an_impossible_choice_is_one_error(void **state) {
    (void)state;
    make_machine();
    assert_string_equal(choose_from((places){ .interfaces = "eth9" }, NULL),
                        "the interface to listen on (GW_INTERFACE) is \"eth9\", which has no "
                        "address on this machine; available: lo "
                        "127.0.0.1, lo [::1], docker0 172.17.0.1, eth0 10.0.0.7, ib0 192.168.5.7, "
                        "eth0 [fd00::7], eth0 [fd00::77], eth0 [fe80::7]");
    assert_string_equal(choose_from((places){ .addresses = "0.0.0.0" }, NULL),
                        "the address to listen on (GW_ADDRESS) is 0.0.0.0, to which other machines "
                        "cannot connect: it must be an address of this machine");
    assert_non_null(strstr(choose_from((places){ .addresses = "a b" }, NULL),
                           "the address to listen on (GW_ADDRESS): \"a b:0\" is not an address"));
    assert_non_null(strstr(choose_from((places){ .addresses = "," }, NULL), "is not an address"));
    assert_non_null(
        strstr(choose_from((places){ .toward = "10.0.0.9:29500", .hosts = true }, NULL),
               "the rendezvous address 10.0.0.9:29500 is not one of this machine (rank 0), "
               "which has lo 127.0.0.1"));
    assert_string_equal(choose_from((places){ .toward = "0.0.0.0:29500", .hosts = true }, NULL),
                        "0.0.0.0:29500 is not an address that other machines can connect to: it "
                        "must be an address of the machine of rank 0");
    count = 2;
    assert_string_equal(choose_from((places){ .toward = "10.0.0.1:1" }, NULL),
                        "this machine has no address that other machines can reach; GW_ADDRESS "
                        "chooses one");
}

static void loopback_is_known_by_its_text(void **state) {
    (void)state;
    assert_false(places_are_beyond(NULL, NULL));
    assert_false(places_are_beyond("127.0.0.2,[::1]:5,::1,localhost:7", "lo"));
    assert_true(places_are_beyond("127.0.0.2,10.0.0.7", NULL));
    assert_true(places_are_beyond("fd00::7", NULL));
    assert_true(places_are_beyond("[fd00::7]:3", NULL));
    assert_true(places_are_beyond("node7", NULL));
    assert_true(places_are_beyond(NULL, "eth0"));
}

// The addresses that the kernel lists can be listened on.
static void it_listens_at_an_address_of_this_machine(void **state) {
    (void)state;
    char out[ADDRESSES_MAX];
    assert_int_equal(places_choose(&(places){ .toward = "", .interfaces = "lo" }, out, &error),
                     GW_OK);
    assert_non_null(strstr(out, "tcp://127.0.0.1:0"));
}

GW_TESTS(net_interfaces, the_interface_toward_the_rendezvous_is_first, a_user_may_choose,
         rank_0_listens_at_the_rendezvous_address, a_loopback_name_listens_at_all_addresses,
         an_unresolved_name_listens_at_all_addresses, an_impossible_choice_is_one_error,
         loopback_is_known_by_its_text, it_listens_at_an_address_of_this_machine);
