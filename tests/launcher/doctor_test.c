// gradwire doctor: what it prints about this host.
#include "testing/testing.h"

#include <stdlib.h>
#include <string.h>

#include "../support/launched.h"

static void doctor_prints_the_paths_between_workers_of_this_host(void **state) {
    (void)state;
    result r = RUN("doctor");
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "workers of this host    "));
    assert_non_null(strstr(r.out, "a call and its reply    "));
    forget(r);
}

static void doctor_prints_the_protection_of_connections_to_other_hosts(void **state) {
    (void)state;
    setenv("GW_INTERFACE", "lo", 1);
    result r = RUN("doctor");
    assert_non_null(strstr(r.out, "address for other hosts tcp://127.0.0.1:0"));
    assert_non_null(strstr(
        r.out,
        "connections to them     none, because no key is given  (make one with gradwire key)\n"));
    forget(r);
    setenv("GW_INTERFACE", "nothing", 1);
    r = RUN("doctor");
    assert_non_null(strstr(r.out, "(GW_INTERFACE) is \"nothing\""));
    forget(r);
    unsetenv("GW_INTERFACE");
    setenv("GW_INSECURE", "1", 1);
    r = RUN("doctor");
    assert_non_null(strstr(r.out, "connections to them     not encrypted"));
    forget(r);
    unsetenv("GW_INSECURE");
}

GW_TESTS(doctor, doctor_prints_the_paths_between_workers_of_this_host,
         doctor_prints_the_protection_of_connections_to_other_hosts);
