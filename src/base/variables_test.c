#include "base/variables.h"

#include "base/log.h"
#include "testing/testing.h"

#include <stdio.h>
#include <string.h>

static char logged[1024];

static void keep(const char *line) {
    snprintf(logged + strlen(logged), sizeof logged - strlen(logged), "%s\n", line);
}

static const char *check(char *entry) {
    char *const environment[] = { "HOME=/", entry, NULL };
    logged[0] = '\0';
    log_hook = keep;
    variables_check_all(environment);
    log_hook = NULL;
    return logged;
}

static void invalid_values_are_logged(void **state) {
    (void)state;
    assert_string_equal(check("GW_LEND=off"),
                        "GW_LEND=off changes nothing: it must be one of 0 1 pull\n");
    assert_string_equal(check("GW_CHECK=no"), "GW_CHECK=no counts as 1: it must be one of 0 1\n");
    assert_string_equal(check("GW_KERNELS=avx"),
                        "GW_KERNELS=avx changes nothing: it must be one of any avx2 avx512\n");
    const char *number = "GW_BLAS_THREADS=0 changes nothing: it must be a number from 1 to 1024\n";
    assert_string_equal(check("GW_BLAS_THREADS=0"), number);
    assert_non_null(strstr(check("GW_BLAS_THREADS=two"), ": it must be a number from 1 to"));
}

static void valid_values_are_not_logged(void **state) {
    (void)state;
    char *const good[] = { "GW_LEND=pull", "GW_LEND=",           "GW_CHECK=1",
                           "GW_CHECK=0",   "GW_BLAS_THREADS=16", "GW_KERNELS=any",
                           "GW_BLAS=/lib", "GW_ADDRESS=::1",     "GW_LOG=none" };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) assert_string_equal(check(good[i]), "");
}

static void similar_names_are_logged(void **state) {
    (void)state;
    assert_string_equal(check("GW_LOGS=info"),
                        "the variable GW_LOGS has no effect: did you mean GW_LOG?\n");
    assert_string_equal(
        check("GW_TRACE_ERROR=1"),
        "the variable GW_TRACE_ERROR has no effect: did you mean GW_TRACE_ERRORS?\n");
    assert_string_equal(check("GW_KEYFILE=k"),
                        "the variable GW_KEYFILE has no effect: did you mean GW_KEY_FILE?\n");
}

static void other_names_are_not_logged(void **state) {
    (void)state;
    char *const other[] = { "GW_HOME=/",
                            "GW_=1",
                            "GWLOG=1",
                            "GW_TEST_LIMIT_S=3",
                            "GW_A_NAME_THAT_IS_LONGER_THAN_ANY_OF_OURS=1",
                            "GW_CLUSTERS=1" };
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        assert_string_equal(check(other[i]), "");
}

GW_TESTS(base_variables, invalid_values_are_logged, valid_values_are_not_logged,
         similar_names_are_logged, other_names_are_not_logged);
