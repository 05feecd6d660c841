#include "example_run.h"

#include "testing/testing.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

result *run(const char *format, ...) {
    int log_fd = memfd_create("log", MFD_CLOEXEC);
    assert_true(log_fd >= 0);
    char command[2048];
    int at = snprintf(command, sizeof command, "cd %s/bin && exec 2>>/proc/%d/fd/%d; ",
                      GW_BUILD_DIR, (int)getpid(), log_fd);
    va_list args;
    va_start(args, format);
    vsnprintf(command + at, sizeof command - (size_t)at, format, args);
    va_end(args);
    result *r = test_calloc(1, sizeof *r);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    size_t size = fread(r->output, 1, OUTPUT_MAX - 1, f);
    r->output[size] = '\0';
    int status = pclose(f);
    r->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    ssize_t log_size = pread(log_fd, r->log, OUTPUT_MAX - 1, 0);
    r->log[log_size > 0 ? log_size : 0] = '\0';
    close(log_fd);
    testing_note("%s\n%s%s", command + at, r->output, r->log);
    return r;
}

bool prints(const result *r, const char *text) {
    return strstr(r->output, text) || strstr(r->log, text);
}

void assert_was_cut(result *r) {
    char *word = strstr(r->output, " reconnects\n");
    assert_non_null(word);
    char *number = word, *line;
    while (number > r->output && number[-1] >= '0' && number[-1] <= '9') number--;
    assert_true(strtol(number, NULL, 10) > 0);
    *word = '\0';
    line = strrchr(r->output, '\n');
    line = line ? line + 1 : r->output;
    char *rest = word + strlen(" reconnects\n");
    memmove(line, rest, strlen(rest) + 1);
}

void assert_prints(result *r, int exit_code, const char *text) {
    assert_int_equal(r->exit_code, exit_code);
    assert_true(prints(r, text));
    test_free(r);
}

void assert_draws(const char *command) {
    char path[] = "/tmp/example-test-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    result *r = run("%s --plot %s >/dev/null; cat %s", command, path, path);
    const char *line = strstr(r->output, "points=\""), *second = line ? strchr(line, ' ') : NULL;
    assert_true(second && second[1] >= '0' && second[1] <= '9');
    assert_prints(r, 0, "</svg>");
    unlink(path);
}

void assert_same_output(result *a, result *b, int exit_code) {
    assert_int_equal(a->exit_code, exit_code);
    assert_int_equal(b->exit_code, exit_code);
    assert_string_equal(a->output, b->output);
    test_free(a);
    test_free(b);
}
