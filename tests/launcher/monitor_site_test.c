// Who gets the page of a job and its metrics.
#include "testing/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/site.h"

#define KEY "0123456789abcdef0123456789abcdef"

static const site_rules page = { .secret = KEY, .port = 8080 };
static const site_rules metrics = { .is_metrics = true, .secret = "token" };

// A request that gets the page.
static site_request good(void) {
    return (site_request){ .method = "GET", .path = "/", .key = KEY, .host = "127.0.0.1:8080" };
}

static int status(const site_rules *rules, const site_request *r) {
    site_answer a = site_decide(rules, r);
    assert_true((a.status == 200) == (a.error == NULL));
    if (a.status != 200) assert_false(a.sets_cookie);
    return a.status;
}

static int with_key(const char *key) {
    site_request r = good();
    r.key = key;
    return status(&page, &r);
}

static int with_cookie(const char *cookie) {
    site_request r = good();
    r.key = NULL;
    r.cookie = cookie;
    return status(&page, &r);
}

static void the_key_is_wanted_whole(void **state) {
    (void)state;
    assert_int_equal(with_key(KEY), 200);
    assert_int_equal(with_key(NULL), 401);
    assert_int_equal(with_key(""), 401);
    assert_int_equal(with_key("0123456789abcdef0123456789abcdee"), 401);
    assert_int_equal(with_key("0123456789abcdef0123456789abcde"), 401);
    assert_int_equal(with_key(KEY "0"), 401);
    assert_int_equal(with_key("0123456789ABCDEF0123456789ABCDEF"), 401);
    const site_rules none = { .port = 8080 };  // a key that was not made lets nothing pass
    site_request r = good();
    r.key = "";
    assert_int_equal(status(&none, &r), 401);
}

static void the_cookie_has_the_port_in_its_name(void **state) {
    (void)state;
    char cookie[2 * SITE_COOKIE_SIZE + SITE_KEY_SIZE];
    site_cookie(&page, cookie);
    assert_string_equal(cookie, "gradwire-8080=" KEY "; Path=/; HttpOnly; SameSite=Strict");
    assert_int_equal(with_cookie("gradwire-8080=" KEY), 200);
    assert_int_equal(with_cookie("a=b; gradwire-8080=" KEY "; c=d"), 200);
    assert_int_equal(with_cookie("a=b;gradwire-8080=" KEY ";"), 200);
    assert_int_equal(with_cookie("gradwire-8081=" KEY), 401);
    assert_int_equal(with_cookie("xgradwire-8080=" KEY), 401);
    assert_int_equal(with_cookie("gradwire-8080=" KEY "0"), 401);
    assert_int_equal(with_cookie("gradwire-8080="), 401);
    assert_int_equal(with_cookie("gradwire-8080"), 401);
    assert_int_equal(with_cookie(";;;"), 401);
    assert_int_equal(with_cookie(KEY), 401);
}

static void only_a_request_with_the_key_sets_the_cookie(void **state) {
    (void)state;
    site_request r = good();
    assert_true(site_decide(&page, &r).sets_cookie);
    r.key = NULL;
    r.authorization = "Bearer " KEY;
    site_answer a = site_decide(&page, &r);
    assert_int_equal(a.status, 200);
    assert_false(a.sets_cookie);
    r.authorization = "Basic " KEY;
    assert_int_equal(status(&page, &r), 401);
}

static void only_this_host_is_the_page(void **state) {
    (void)state;
    static const struct {
        const char *host, *origin;
        int status;
    } rows[] = {
        { "127.0.0.1:8080", NULL, 200 },
        { "localhost:9000", NULL, 200 },  // ssh -L 9000:127.0.0.1:8080
        { "LOCALHOST", NULL, 200 },
        { "[::1]:8080", NULL, 200 },
        { "127.0.0.1:8080", "http://127.0.0.1:8080", 200 },
        { "127.0.0.1:8080", "http://127.0.0.1:8081", 403 },
        { "127.0.0.1:8080", "https://example.org", 403 },
        { "127.0.0.1:8080", "null", 403 },
        { "example.org:8080", NULL, 403 },
        { "example.org:8080", "http://example.org:8080", 403 },
        { "127.0.0.1.example.org", NULL, 403 },
        { "localhost.example.org:8080", NULL, 403 },
        { "127.0.0.1:80x", NULL, 403 },
        { "127.0.0.12", NULL, 403 },
        { "", NULL, 403 },
        { NULL, NULL, 403 },
        { NULL, "http://", 403 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        site_request r = good();
        r.host = rows[i].host;
        r.origin = rows[i].origin;
        testing_note("%s, %s", r.host ? r.host : "-", r.origin ? r.origin : "-");
        assert_int_equal(status(&page, &r), rows[i].status);
    }
}

static site_answer at(const site_rules *rules, const char *path) {
    site_request r = good();
    r.path = path;
    r.authorization = "Bearer token";
    return site_decide(rules, &r);
}

static void paths_have_resources(void **state) {
    (void)state;
    assert_int_equal(at(&page, "/").resource, SITE_PAGE);
    assert_int_equal(at(&page, "/api/job.json").resource, SITE_JSON);
    assert_int_equal(at(&page, "/metrics").resource, SITE_METRICS);
    assert_int_equal(at(&page, "/healthz").resource, SITE_HEALTH);
    assert_int_equal(at(&page, "/../metrics").status, 404);
    assert_int_equal(at(&page, "//").status, 404);
    assert_int_equal(at(&page, "").status, 404);
    site_request r = good();
    r.span = "day";
    assert_int_equal(site_decide(&page, &r).resource, SITE_PAGE_OF_DAY);
    r.span = "year";
    assert_int_equal(site_decide(&page, &r).resource, SITE_PAGE);
    // Without the key all paths are the same.
    r.path = "/nothing";
    r.key = NULL;
    assert_int_equal(status(&page, &r), 401);
}

static void methods_other_than_get_are_refused(void **state) {
    (void)state;
    static const char *const methods[] = { "POST",  "PUT",   "DELETE", "OPTIONS",
                                           "PATCH", "TRACE", "get",    "" };
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        site_request r = good();
        r.method = methods[i];
        assert_int_equal(status(&page, &r), 405);
        assert_int_equal(status(&metrics, &r), 405);
    }
    site_request r = good();
    r.method = "HEAD";
    assert_int_equal(status(&page, &r), 200);
}

// To other hosts only the metrics are served, with the token alone.
static void metrics_have_a_token_of_their_own(void **state) {
    (void)state;
    assert_int_equal(at(&metrics, "/metrics").resource, SITE_METRICS);
    assert_int_equal(at(&metrics, "/healthz").status, 200);
    assert_int_equal(at(&metrics, "/").status, 404);
    assert_int_equal(at(&metrics, "/api/job.json").status, 404);
    site_request r = good();
    r.path = "/metrics";
    r.host = "monitor.example.org";
    r.key = "token";
    assert_int_equal(status(&metrics, &r), 401);
    r.authorization = "Bearer tokem";
    assert_int_equal(status(&metrics, &r), 401);
    r.authorization = "bearer token";
    assert_int_equal(status(&metrics, &r), 200);
    const site_rules open = { .is_metrics = true, .is_open = true };
    r.authorization = NULL;
    assert_int_equal(status(&open, &r), 200);
    r.path = "/";
    assert_int_equal(status(&open, &r), 404);
}

static void fill(char *out, size_t size, unsigned *seed) {
    static const char some[] = "gradwire-8080=;/:.[]% \t\"'BearkKey0123456789abcdef\x01\xff";
    size_t count = (*seed = *seed * 1103515245 + 12345) >> 16 & 63;
    for (size_t i = 0; i < count && i + 1 < size; i++) {
        *seed = *seed * 1103515245 + 12345;
        out[i] = some[(*seed >> 16) % (sizeof some - 1)];
        out[i + 1] = '\0';
    }
}

static void noise_gets_nothing(void **state) {
    (void)state;
    unsigned seed = 1;
    for (int i = 0; i < testing_scaled(20000); i++) {
        char parts[6][65] = { "" };
        for (int k = 0; k < 6; k++) fill(parts[k], sizeof parts[k], &seed);
        site_request r = { .method = "GET",
                           .path = parts[0],
                           .key = parts[1],
                           .host = i % 2 ? "localhost" : parts[2],
                           .origin = i % 4 < 2 ? NULL : parts[3],
                           .cookie = parts[4],
                           .authorization = parts[5] };
        assert_int_not_equal(status(&page, &r), 200);
        assert_int_not_equal(status(&metrics, &r), 200);
    }
}

static void keys_differ(void **state) {
    (void)state;
    char a[SITE_KEY_SIZE], b[SITE_KEY_SIZE];
    assert_true(site_make_key(a) && site_make_key(b));
    assert_int_equal(strlen(a), SITE_KEY_SIZE - 1);
    assert_int_equal(strspn(a, "0123456789abcdef"), SITE_KEY_SIZE - 1);
    assert_string_not_equal(a, b);
}

GW_TESTS(monitor_site, the_key_is_wanted_whole, the_cookie_has_the_port_in_its_name,
         only_a_request_with_the_key_sets_the_cookie, only_this_host_is_the_page,
         paths_have_resources, methods_other_than_get_are_refused,
         metrics_have_a_token_of_their_own, noise_gets_nothing, keys_differ);
