// gradwire run on a terminal.
#include "testing/testing.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <termios.h>
#include <unistd.h>

#include "../support/launched.h"

#define LAUNCH_ON_TERMINAL(...)                                                                    \
    launch_on_terminal((const char *const[]){ "gradwire", __VA_ARGS__, NULL })

// Input and output are the terminal, whose other side is in_fd and out_fd. Typed characters are not echoed.
static launched launch_on_terminal(const char *const arguments[]) {
    int fd = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(grantpt(fd), 0);
    assert_int_equal(unlockpt(fd), 0);
    int terminal_fd = open(ptsname(fd), O_RDWR | O_NOCTTY | O_CLOEXEC);
    struct termios modes;
    assert_int_equal(tcgetattr(terminal_fd, &modes), 0);
    modes.c_lflag &= ~(tcflag_t)ECHO;
    modes.c_oflag &= ~(tcflag_t)OPOST;
    assert_int_equal(tcsetattr(terminal_fd, TCSANOW, &modes), 0);
    const char *command = launched_path();
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        setsid();
        ioctl(terminal_fd, TIOCSCTTY, 0);
        for (int i = 0; i < 3; i++) dup2(terminal_fd, i);
        execv(command, (char *const *)arguments);
        _exit(126);
    }
    close(terminal_fd);
    int pid_fd = (int)syscall(SYS_pidfd_open, pid, 0);
    return (launched){ pid, pid_fd, fcntl(fd, F_DUPFD_CLOEXEC, 0), fd, -1 };
}

// finish() without hanging up first.
static result finish_on_terminal(launched l) {
    int in_fd = l.in_fd;
    l.in_fd = -1;
    result r = finish(l);
    close(in_fd);
    return r;
}

static void a_single_rank_has_the_terminal_for_its_output(void **state) {
    (void)state;
    launched l =
        LAUNCH_ON_TERMINAL("run", "-n", "1", "sh", "-c", "test -t 1 && test -t 2 && echo direct");
    result r = finish_on_terminal(l);
    assert_int_equal(r.code, 0);
    assert_string_equal(r.out, "direct\n");
    forget(r);
}

static void several_ranks_have_prefixes(void **state) {
    (void)state;
    launched l = LAUNCH_ON_TERMINAL("run", "-n", "2", "--on-failure=keep", "sh", "-c",
                                    "test -t 1 || echo not direct; exit $RANK");
    result r = finish_on_terminal(l);
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.out, "[0] not direct\n"));
    assert_non_null(strstr(r.out, "[1] not direct\n"));
    assert_non_null(strstr(r.out, "gradwire: rank 1 (pid "));
    forget(r);
}

// The first attempt of rank 0 ends without having read any.
static void terminal_input_reaches_the_next_attempt_of_rank_0(void **state) {
    (void)state;
    launched l = LAUNCH_ON_TERMINAL(
        "run", "-n", "3", "--max-restarts=1", "sh", "-c",
        "if [ $RANK.$TORCHELASTIC_RESTART_COUNT = 0.1 ]; then read x; echo got $x; fi; "
        "exec " GW_BUILD_DIR "/bin/case-restarts_elastic 0 kill 1");
    read_line(l.out_fd, "gradwire: rank 0 (pid ");
    send_line(&l, "one");
    assert_string_equal(read_line(l.out_fd, "[0] got "), "one");
    result r = finish_on_terminal(l);
    assert_int_equal(r.code, 0);
    forget(r);
}

static void terminal_input_reaches_rank_0(void **state) {
    (void)state;
    launched l = LAUNCH_ON_TERMINAL("run", "-n", "2", "sh", "-c",
                                    "while read x; do echo got $x; done; echo end");
    read_line(l.out_fd, "[1] end");
    send_line(&l, "one");
    assert_string_equal(read_line(l.out_fd, "[0] got "), "one");
    assert_int_equal(write(l.in_fd, "two\n\004", 5), 5);
    result r = finish_on_terminal(l);
    assert_int_equal(r.code, 0);
    assert_string_equal(r.out, "[0] got two\n[0] end\n");
    forget(r);
}

static void typing_ahead_of_a_rank_that_does_not_read_does_no_harm(void **state) {
    (void)state;
    launched l = LAUNCH_ON_TERMINAL("run", "-n", "2", "sh", "-c",
                                    "exec <&-; echo $RANK ready; exec sleep 1000");
    read_line(l.out_fd, "[0] 0 ready");
    send_line(&l, "not read");
    assert_int_equal(write(l.in_fd, "\003", 1), 1);
    result r = finish_on_terminal(l);
    assert_int_equal(r.code, 130);
    forget(r);
}

static void ctrl_c_ends_the_job(void **state) {
    (void)state;
    launched l = LAUNCH_ON_TERMINAL("run", "-n", "2", "sh", "-c", "echo $$; exec sleep 1000");
    int rank = open_process(read_line(l.out_fd, "[0] "));
    assert_int_equal(write(l.in_fd, "\003", 1), 1);
    result r = finish_on_terminal(l);
    assert_int_equal(r.code, 130);
    assert_true(has_ended(rank));
    close(rank);
    forget(r);
}

static void closing_the_terminal_ends_the_job(void **state) {
    (void)state;
    launched l =
        LAUNCH_ON_TERMINAL("run", "-n", "2", "sh", "-c", "echo pid $$; yes >&2; exec sleep 1000");
    int rank = open_process(read_line(l.out_fd, "[0] pid "));
    close_input(&l);
    close(l.out_fd);
    l.out_fd = -1;
    result r = finish(l);
    assert_in_range(r.code, 129, 255);  // SIGHUP, or a broken pipe that a rank noticed before
    assert_true(has_ended(rank));
    close(rank);
    forget(r);
}

GW_TESTS(run_terminal, a_single_rank_has_the_terminal_for_its_output, several_ranks_have_prefixes,
         terminal_input_reaches_the_next_attempt_of_rank_0, terminal_input_reaches_rank_0,
         typing_ahead_of_a_rank_that_does_not_read_does_no_harm, ctrl_c_ends_the_job,
         closing_the_terminal_ends_the_job);
