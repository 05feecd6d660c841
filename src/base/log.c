#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 1024, BLOCK_LINES_MAX = 128 };

void (*log_hook)(const char *line);

// ---- Level and sink -----------------------------------------------------------------------------
static struct {
    gw_log_level level;
    bool has_level;  // set by the program
    void (*sink)(void *context, gw_log_level level, const char *line);
    void *context;
    int fd;
} settings = { .level = GW_LOG_INFO, .fd = STDERR_FILENO };
static pthread_once_t environment_once = PTHREAD_ONCE_INIT;

static const char *const level_names[] = {
    [GW_LOG_NONE] = "none",
    [GW_LOG_ERROR] = "error",
    [GW_LOG_WARNING] = "warning",
    [GW_LOG_INFO] = "info",
};

// ---- Time ---------------------------------------------------------------------------------------
// Set once, with the environment.
static enum { TIME_NONE, TIME_ELAPSED, TIME_WALL } time_shown;
static struct timespec first_used;

static void read_time(void) {
    const char *text = getenv("GW_LOG_TIME");
    clock_gettime(CLOCK_MONOTONIC, &first_used);
    if (text && strcmp(text, "1") == 0) time_shown = TIME_ELAPSED;
    if (text && strcmp(text, "wall") == 0) time_shown = TIME_WALL;
}

enum { TITLE_BYTES = 64 };

// "gradwire: ", "gradwire [12.345 s]: " or "gradwire [2026-11-28T05:20:01.123Z]: ".
static size_t put_title(char out[TITLE_BYTES]) {
    struct timespec now;
    struct tm date;
    int size = 0;
    if (time_shown == TIME_ELAPSED) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        int64_t ms =
            (now.tv_sec - first_used.tv_sec) * 1000 + (now.tv_nsec - first_used.tv_nsec) / 1000000;
        size = snprintf(out, TITLE_BYTES, "gradwire [%lld.%03d s]: ", (long long)(ms / 1000),
                        (int)(ms % 1000));
    } else if (time_shown == TIME_WALL) {
        clock_gettime(CLOCK_REALTIME, &now);
        gmtime_r(&now.tv_sec, &date);
        size = (int)strftime(out, TITLE_BYTES, "gradwire [%Y-%m-%dT%H:%M:%S", &date);
        size += snprintf(out + size, (size_t)(TITLE_BYTES - size),
                         ".%03dZ]: ", (int)(now.tv_nsec / 1000000));
    } else {
        size = snprintf(out, TITLE_BYTES, "gradwire: ");
    }
    return (size_t)size;
}

// ---- The environment -------------------------------------------------------------------------
static void complain(const char *about, const char *text) {
    dprintf(STDERR_FILENO, "gradwire: GW_LOG=%s: %s\n", about, text);
}

static bool find_level(const char *name, size_t size, gw_log_level *out) {
    for (gw_log_level level = GW_LOG_NONE; level <= GW_LOG_INFO; level++) {
        if (strlen(level_names[level]) != size || memcmp(level_names[level], name, size)) continue;
        *out = level;
        return true;
    }
    return false;
}

static void read_environment(void) {
    const char *text = getenv("GW_LOG");
    read_time();
    if (!text) return;
    size_t size = strcspn(text, ",");
    gw_log_level level = settings.level;
    if (size && !find_level(text, size, &level))
        complain(text, "a level must be none, error, warning or info");
    if (!settings.has_level) settings.level = level;
    if (!text[size] || !text[size + 1]) return;
    int fd = open(text + size + 1, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0) {
        complain(text, strerror(errno));
    } else {
        settings.fd = fd;
    }
}

void gw_log_set_level(gw_log_level level) {
    settings.level = level;
    settings.has_level = true;
}

void gw_log_set_sink(void (*sink)(void *context, gw_log_level level, const char *line),
                     void *context) {
    settings.context = context;
    settings.sink = sink;
}

// ---- Lines --------------------------------------------------------------------------------------
// In one write, so that lines of several threads and processes do not mix.
static void print(const char *line) {
    char text[LINE_MAX_BYTES + TITLE_BYTES];
    size_t at = put_title(text);
    at += (size_t)snprintf(text + at, sizeof text - at, "%s\n", line);
    ssize_t written = write(settings.fd, text, at);
    (void)written;  // a failure cannot be reported anywhere else
}

void log_read_environment(void) {
    pthread_once(&environment_once, read_environment);
}

bool log_is_wanted(gw_log_level level) {
    log_read_environment();
    return level <= settings.level;
}

// Arguments may contain texts of peers: a terminal must not interpret them.
static bool is_control(char c) {
    return (unsigned char)c < ' ' || c == 127;
}

static bool hand_out(gw_log_level level, const char *line) {
    if (log_hook) {
        log_hook(line);
    } else if (settings.sink) {
        settings.sink(settings.context, level, line);
    } else {
        print(line);
    }
    return !log_hook && !settings.sink && settings.fd == STDERR_FILENO;
}

static bool write_line(gw_log_level level, const char *format, va_list args) {
    char line[LINE_MAX_BYTES];
    if (!log_is_wanted(level)) return false;
    vsnprintf(line, sizeof line, format, args);
    for (char *c = line; *c; c++)
        if (is_control(*c)) *c = '?';
    return hand_out(level, line);
}

bool log_error(const char *format, ...) {
    va_list args;
    va_start(args, format);
    bool is_shown = write_line(GW_LOG_ERROR, format, args);
    va_end(args);
    return is_shown;
}

bool log_line(const char *format, ...) {
    va_list args;
    va_start(args, format);
    bool is_shown = write_line(GW_LOG_WARNING, format, args);
    va_end(args);
    return is_shown;
}

void log_info(const char *format, ...) {
    va_list args;
    va_start(args, format);
    write_line(GW_LOG_INFO, format, args);
    va_end(args);
}

// All lines in one write.
static void print_block(char *text) {
    char title[TITLE_BYTES];
    size_t title_size = put_title(title);
    struct iovec parts[3 * BLOCK_LINES_MAX];
    int count = 0;
    for (char *line = text; line && count < 3 * BLOCK_LINES_MAX;) {
        char *next = strchr(line, '\n');
        size_t size = next ? (size_t)(next - line) : strlen(line);
        parts[count++] = (struct iovec){ title, title_size };
        parts[count++] = (struct iovec){ line, size };
        parts[count++] = (struct iovec){ "\n", 1 };
        line = next ? next + 1 : NULL;
    }
    ssize_t written = writev(settings.fd, parts, count);
    (void)written;
}

void log_block(char *text) {
    if (!log_is_wanted(GW_LOG_WARNING)) return;
    for (char *c = text; *c; c++)
        if (*c != '\n' && is_control(*c)) *c = '?';
    if (!log_hook && !settings.sink) {
        print_block(text);
        return;
    }
    for (char *line = text; line;) {
        char *next = strchr(line, '\n');
        if (next) *next++ = '\0';
        hand_out(GW_LOG_WARNING, line);
        line = next;
    }
}
