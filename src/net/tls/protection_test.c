#include "net/tls/protection.h"

#include "testing/testing.h"

#include <string.h>

static void without_a_key_nothing_leaves_this_host(void **state) {
    (void)state;
    gw_error error;
    secret some = { 0 };
    const protection none = { 0 }, insecure = { .insecure = true }, key = { .secret = &some };
    assert_int_equal(protection_allows_beyond(NULL, "MASTER_ADDR", "10.0.0.1", &error),
                     GW_UNSUPPORTED);
    assert_int_equal(protection_allows_beyond(&none, "MASTER_ADDR", "10.0.0.1", &error),
                     GW_UNSUPPORTED);
    assert_non_null(strstr(error.text, "MASTER_ADDR is \"10.0.0.1\", which is not this machine"));
    const char *const ways[] = { "gradwire key > job.key", "of this machine alone", "--insecure" };
    for (int i = 0; i < 3; i++) assert_non_null(strstr(error.text, ways[i]));
    assert_int_equal(protection_allows_beyond(&insecure, "MASTER_ADDR", "10.0.0.1", &error), GW_OK);
    assert_int_equal(protection_allows_beyond(&key, "MASTER_ADDR", "10.0.0.1", &error), GW_OK);
}

GW_TESTS(net_protection, without_a_key_nothing_leaves_this_host);
