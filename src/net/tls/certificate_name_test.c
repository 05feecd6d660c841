#include "net/tls/certificate_name.h"

#include "testing/testing.h"

#include <stdio.h>
#include <string.h>

static void it_parses_what_it_formats(void **state) {
    (void)state;
    static const char *const uris[] = { "gradwire:*/0/ps", "gradwire:night-7/1-2/trainer%d",
                                        "gradwire:*/*/trainer%d", "gradwire:launchers/x/3/host3",
                                        "gradwire:/0/w" };
    for (size_t i = 0; i < sizeof uris / sizeof *uris; i++) {
        certificate_name n;
        char again[CERTIFICATE_NAME_MAX];
        assert_true(certificate_name_parse(uris[i], &n));
        certificate_name_write(&n, again);
        assert_string_equal(again, uris[i]);
    }
}

static void it_refuses_malformed_names(void **state) {
    (void)state;
    static const char *const wrong[] = {
        "",
        "gradwire:",
        "gradwire:*",
        "gradwire:*/0",
        "gradwire:0/ps",
        "http:*/0/ps",
        "gradwire:*/x/ps",
        "gradwire:*/2-1/ps",
        "gradwire:*/1-/ps",
        "gradwire:*/-1/ps",
        "gradwire:*/4096/ps",
        "gradwire:*/0/",
        "gradwire:*/0/p s",
        "gradwire:*/0/w%dx%d",
        "gradwire:*/0/w%s",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        certificate_name n;
        if (certificate_name_parse(wrong[i], &n)) fail_msg("\"%s\" is no name", wrong[i]);
    }
    char job[CERTIFICATE_NAME_MAX + 80];
    certificate_name n;
    snprintf(job, sizeof job, "gradwire:%070d/0/ps", 0);
    assert_false(certificate_name_parse(job, &n));
    assert_false(certificate_name_of("ps=", "*", &n));
    assert_false(certificate_name_of("=0", "*", &n));
}

static bool fits(const char *text, const char *of_job, const char *job, const char *name,
                 uint32_t rank) {
    certificate_name n;
    party p = { .rank = rank };
    snprintf(p.name, sizeof p.name, "%s", name);
    assert_true(certificate_name_of(text, of_job, &n));
    return certificate_name_fits(&n, job, &p);
}

static void it_fits_job_rank_and_name(void **state) {
    (void)state;
    assert_true(fits("ps=0", "*", "any", "ps", 0));
    assert_false(fits("ps=0", "*", "any", "ps", 1));
    assert_false(fits("ps=0", "*", "any", "p", 0));
    assert_true(fits("w%d=1-3", "*", "", "w3", 3));
    assert_false(fits("w%d=1-3", "*", "", "w2", 3));
    assert_false(fits("w%d=1-3", "*", "", "w4", 4));
    assert_true(fits("w%dx", "*", "", "w4000x", 4000));
    assert_true(fits("ps=0", "a", "a", "ps", 0));
    assert_false(fits("ps=0", "a", "b", "ps", 0));
    // A worker that joins a running job has no rank yet.
    assert_true(fits("w%d=1-3", "a", "a", "w%d", PARTY_RANK_UNKNOWN));
    assert_false(fits("w%d=1-3", "a", "b", "w%d", PARTY_RANK_UNKNOWN));
}

GW_TESTS(net_certificate_name, it_parses_what_it_formats, it_refuses_malformed_names,
         it_fits_job_rank_and_name);
