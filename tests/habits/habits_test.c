// Habits of the source tree, one script each; run alone as tests/habits/<name>.
#include "testing/testing.h"

#include <stdio.h>
#include <stdlib.h>

static void run(const char *script) {
    char command[1024];
    snprintf(command, sizeof command, "%s/tests/habits/%s %s 2>&1", GW_SOURCE_DIR, script,
             GW_BUILD_DIR);
    int status = system(command);
    assert_int_equal(status, 0);
}

static void sources_are_formatted(void **state) {
    (void)state;
    run("format");
}

static void includes_point_down(void **state) {
    (void)state;
    run("arrows");
}

static void words_are_those_of_the_field(void **state) {
    (void)state;
    run("words");
}

static void banned_calls_are_not_made(void **state) {
    (void)state;
    run("banned");
}

static void sources_compile_without_warnings(void **state) {
    (void)state;
    run("warnings");
}

static void public_headers_stand_alone(void **state) {
    (void)state;
    run("headers");
}

static void options_are_written_by_name(void **state) {
    (void)state;
    run("options");
}

static void a_seed_gives_the_same_numbers_with_every_compiler(void **state) {
    (void)state;
    run("draws");
}

static void examples_in_headers_compile(void **state) {
    (void)state;
    run("examples");
}

static void programs_of_the_tutorial_print_what_it_shows(void **state) {
    (void)state;
    run("tutorial");
}

static void every_public_name_has_an_entry(void **state) {
    (void)state;
    run("entries");
}

static void the_reference_is_made_without_a_warning(void **state) {
    (void)state;
    if (system("command -v doxygen >/dev/null")) testing_skip("doxygen is not installed");
    run("docs");
}

static void links_in_pages_have_targets(void **state) {
    (void)state;
    run("links");
}

static void labels_of_rules_are_unique(void **state) {
    (void)state;
    run("labels");
}

static void nothing_depends_on_the_text_of_an_error(void **state) {
    (void)state;
    run("error_texts");
}

static void limits_are_as_written(void **state) {
    (void)state;
    run("limits");
}

static void programs_are_no_longer_than_their_table(void **state) {
    (void)state;
    run("lines");
}

static void an_installed_library_can_be_used(void **state) {
    (void)state;
    run("install");
}

static void a_moved_tree_builds_and_make_install_builds_no_more_than_it_installs(void **state) {
    (void)state;
    run("copy");
}

static void all_versions_are_the_same(void **state) {
    (void)state;
    run("abi");
}

static void the_static_library_shows_its_own_names_only(void **state) {
    (void)state;
    run("symbols");
}

static void the_library_has_no_mutations(void **state) {
    (void)state;
    run("mutations");
}

static void every_fault_has_a_test(void **state) {
    (void)state;
    run("faults");
}

static void every_wait_for_another_program_is_tested(void **state) {
    (void)state;
    run("waits");
}

static void calls_of_themselves_are_bounded(void **state) {
    (void)state;
    run("recursion");
}

GW_TESTS_WITH_LIMIT(habits, 300, sources_are_formatted, includes_point_down,
                    words_are_those_of_the_field, banned_calls_are_not_made,
                    sources_compile_without_warnings, public_headers_stand_alone,
                    options_are_written_by_name, a_seed_gives_the_same_numbers_with_every_compiler,
                    examples_in_headers_compile, programs_of_the_tutorial_print_what_it_shows,
                    every_public_name_has_an_entry, the_reference_is_made_without_a_warning,
                    links_in_pages_have_targets, labels_of_rules_are_unique,
                    nothing_depends_on_the_text_of_an_error, limits_are_as_written,
                    programs_are_no_longer_than_their_table, an_installed_library_can_be_used,
                    all_versions_are_the_same,
                    a_moved_tree_builds_and_make_install_builds_no_more_than_it_installs,
                    the_static_library_shows_its_own_names_only, the_library_has_no_mutations,
                    every_fault_has_a_test, every_wait_for_another_program_is_tested,
                    calls_of_themselves_are_bounded);
