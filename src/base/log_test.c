#include "base/log.h"

#include "testing/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static char last[2048];

static void keep(const char *line) {
    snprintf(last, sizeof last, "%s", line);
}

static void it_formats_a_line(void **state) {
    (void)state;
    log_hook = keep;
    log_line("%s (rank %d) is lost", "ps", 3);
    assert_string_equal(last, "ps (rank 3) is lost");
}

static void it_hides_control_characters(void **state) {
    (void)state;
    log_hook = keep;
    log_line("%s", "a\x1b[31mb\nc\x7f");
    assert_string_equal(last, "a?[31mb?c?");
}

static void it_cuts_long_lines(void **state) {
    (void)state;
    log_hook = keep;
    log_line("%2000d", 1);
    assert_int_equal(strlen(last), 1023);
}

static char lines[256];

static void gather(const char *line) {
    size_t at = strlen(lines);
    snprintf(lines + at, sizeof lines - at, "<%s>", line);
}

static void a_block_is_a_line_after_the_other(void **state) {
    (void)state;
    char block[] = "one\ntwo\x1b\n\nfour";
    log_hook = gather;
    log_block(block);
    assert_string_equal(lines, "<one><two?><><four>");
}

// ---- Levels and sinks ---------------------------------------------------------------------------
static void count(void *context, gw_log_level level, const char *line) {
    int *counts = context;
    counts[level]++;
    keep(line);
}

static void a_program_sets_level_and_sink(void **state) {
    (void)state;
    int counts[GW_LOG_INFO + 1] = { 0 };
    gw_log_set_sink(count, counts);
    log_error("a");
    log_line("b");
    log_info("%d", 3);
    assert_string_equal(last, "3");
    gw_log_set_level(GW_LOG_WARNING);
    log_error("a");
    log_line("b");
    log_info("c");
    gw_log_set_level(GW_LOG_NONE);
    log_error("a");
    assert_true(counts[GW_LOG_ERROR] == 2 && counts[GW_LOG_WARNING] == 2 &&
                counts[GW_LOG_INFO] == 1);
}

// Three lines, as they are in the file that GW_LOG names.
static void write_lines(char text[256]) {
    char directory[] = "/tmp/gradwire-test-XXXXXX", path[64], setting[80];
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/log", directory);
    snprintf(setting, sizeof setting, "warning,%s", path);
    setenv("GW_LOG", setting, 1);
    log_info("not this");
    log_line("a line of %s", "its own");
    char block[] = "two lines\nin a block";
    log_block(block);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    text[fread(text, 1, 255, f)] = '\0';
    fclose(f);
    unlink(path);
    rmdir(directory);
}

static void the_environment_names_a_level_and_a_file(void **state) {
    (void)state;
    char text[256];
    write_lines(text);
    assert_string_equal(text,
                        "gradwire: a line of its own\ngradwire: two lines\ngradwire: in a block\n");
}

static void lines_have_the_elapsed_time(void **state) {
    (void)state;
    char text[256];
    double seconds[3];
    int end = 0;
    setenv("GW_LOG_TIME", "1", 1);
    write_lines(text);
    sscanf(text,
           "gradwire [%lf s]: a line of its own\ngradwire [%lf s]: two lines\n"
           "gradwire [%lf s]: in a block\n%n",
           &seconds[0], &seconds[1], &seconds[2], &end);
    assert_int_equal(end, strlen(text));
    assert_true(seconds[0] >= 0 && seconds[0] <= seconds[1] && seconds[1] <= seconds[2]);
}

static void lines_have_the_time_in_utc(void **state) {
    (void)state;
    char text[256], now[32];
    time_t before = time(NULL);
    setenv("GW_LOG_TIME", "wall", 1);
    write_lines(text);
    int end = 0;
    sscanf(text, "gradwire [%31[0-9T:-].%*3dZ]: a line of its own\n%n", now, &end);
    assert_true(end > 0);
    struct tm date = { 0 };
    assert_non_null(strptime(now, "%Y-%m-%dT%H:%M:%S", &date));
    assert_true(timegm(&date) >= before && timegm(&date) <= time(NULL));
}

static void the_program_overrides_the_environment(void **state) {
    (void)state;
    int counts[GW_LOG_INFO + 1] = { 0 };
    setenv("GW_LOG", "none", 1);
    gw_log_set_level(GW_LOG_INFO);
    gw_log_set_sink(count, counts);
    log_info("said");
    assert_string_equal(last, "said");
}

GW_TESTS(base_log, it_formats_a_line, it_hides_control_characters, it_cuts_long_lines,
         a_block_is_a_line_after_the_other, a_program_sets_level_and_sink,
         the_environment_names_a_level_and_a_file, lines_have_the_elapsed_time,
         lines_have_the_time_in_utc, the_program_overrides_the_environment);
