#include "base/nearest.h"

#include "testing/testing.h"

#include <string.h>

static const char *find(const char *wanted, const char *const *names) {
    static nearest n;
    n = nearest_to(wanted);
    for (; *names; names++) nearest_offer(&n, *names);
    return nearest_words(&n);
}

static const char *const options[] = { "grace", "master-port", "nnodes", "nproc-per-node", NULL };
static const char *const workers[] = { "worker2", "worker1", "worker0", "ps", NULL };

static void it_finds_the_nearest_name(void **state) {
    (void)state;
    assert_string_equal(find("nproc_per_node", options), "; did you mean \"nproc-per-node\"?");
    assert_string_equal(find("gracce", options), "; did you mean \"grace\"?");
    assert_string_equal(find("garce", options), "; did you mean \"grace\"?");
    assert_string_equal(find("Worker1", workers), "; did you mean \"worker1\"?");
    assert_string_equal(find("worker01", workers), "; did you mean \"worker0\"?");
}

static void ties_are_broken_alphabetically(void **state) {
    (void)state;
    assert_string_equal(find("worker9", workers), "; did you mean \"worker0\"?");
}

static void distant_names_are_not_suggested(void **state) {
    (void)state;
    assert_string_equal(find("trainer", workers), "");
    assert_string_equal(find("p", workers), "");
    assert_string_equal(find("qs", workers), "");
    assert_string_equal(find("", workers), "");
    assert_string_equal(find(NULL, workers), "");
}

static void names_may_have_any_length(void **state) {
    (void)state;
    char longest[GW_NAME_MAX + 1], longer[GW_NAME_MAX + 2], other[GW_NAME_MAX + 1];
    memset(longest, 'a', sizeof longest - 1);
    memset(longer, 'a', sizeof longer - 1);
    longest[GW_NAME_MAX] = longer[GW_NAME_MAX + 1] = '\0';
    memcpy(other, longest, sizeof other);
    other[3] = 'b';
    const char *const names[] = { longer, longest, NULL };
    assert_non_null(strstr(find(other, names), longest));
    assert_string_equal(find(longer, names), "");
}

GW_TESTS(base_nearest, it_finds_the_nearest_name, ties_are_broken_alphabetically,
         distant_names_are_not_suggested, names_may_have_any_length);
