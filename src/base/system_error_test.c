#include "base/system_error.h"

#include "testing/testing.h"

#include <errno.h>
#include <sys/resource.h>

static void put_limit(int resource, rlim_t value) {
    struct rlimit is;
    assert_int_equal(getrlimit(resource, &is), 0);
    is.rlim_cur = value;
    assert_int_equal(setrlimit(resource, &is), 0);
}

static void it_names_the_limit(void **state) {
    (void)state;
    put_limit(RLIMIT_NOFILE, 100);
    assert_string_equal(system_error_text(EMFILE).text, "Too many open files (ulimit -n is 100)");
    put_limit(RLIMIT_FSIZE, 1024 << 10);
    assert_string_equal(system_error_text(EFBIG).text, "File too large (ulimit -f is 1024)");
    put_limit(RLIMIT_NPROC, 50);
    assert_string_equal(system_thread_error_text(EAGAIN).text,
                        "Resource temporarily unavailable (ulimit -u is 50)");
    assert_string_equal(system_thread_error_text(EMFILE).text, system_error_text(EMFILE).text);
    assert_string_equal(system_error_text(ECONNREFUSED).text, "Connection refused");
}

static void a_limit_that_is_not_set_is_not_named(void **state) {
    (void)state;
    assert_string_equal(system_error_text(ENOMEM).text, "Cannot allocate memory");
    put_limit(RLIMIT_DATA, (rlim_t)1 << 50);
    assert_string_equal(system_error_text(ENOMEM).text,
                        "Cannot allocate memory (ulimit -d is 1099511627776)");
}

GW_TESTS(base_system_error, it_names_the_limit, a_limit_that_is_not_set_is_not_named);
