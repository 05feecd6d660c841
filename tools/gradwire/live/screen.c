#include "live/screen.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

static struct {
    bool is_terminal, has_keys;
    struct termios before;
} screen;

static volatile sig_atomic_t ended;

static void note_end(int signal_number) {
    (void)signal_number;
    ended = 1;
}

bool screen_is_ended(void) {
    return ended;
}

// Without SA_RESTART, so that waits end.
static void catch_signals(void) {
    static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
    struct sigaction action = { .sa_handler = note_end };
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        sigaction(signals[i], &action, NULL);
}

// Signals of keys stay, but Ctrl-Z, which would leave the second page.
static void take_keys(void) {
    if (tcgetattr(STDIN_FILENO, &screen.before) != 0) return;
    struct termios raw = screen.before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VSUSP] = _POSIX_VDISABLE;
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    screen.has_keys = tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
}

bool screen_open(void) {
    catch_signals();
    screen.is_terminal = isatty(STDOUT_FILENO);
    if (!screen.is_terminal) return false;
    if (isatty(STDIN_FILENO)) take_keys();
    fputs("\033[?1049h\033[?25l", stdout);
    return true;
}

void screen_close(void) {
    if (!screen.is_terminal) return;
    fputs("\033[?25h\033[?1049l", stdout);
    fflush(stdout);
    if (screen.has_keys) tcsetattr(STDIN_FILENO, TCSANOW, &screen.before);
}

void screen_size(int *out_width, int *out_height) {
    struct winsize size;
    bool has_size = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col && size.ws_row;
    *out_width = has_size ? size.ws_col : 80;
    *out_height = has_size ? size.ws_row : 24;
}

int screen_key(int64_t wait_ms) {
    char key;
    struct pollfd in = { .fd = screen.has_keys ? STDIN_FILENO : -1, .events = POLLIN };
    if (ended || poll(&in, 1, (int)wait_ms) <= 0) return 0;
    if (read(STDIN_FILENO, &key, 1) == 1) return (unsigned char)key;
    screen.has_keys = false;  // it was closed
    return 0;
}
