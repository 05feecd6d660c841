#include "base/check.h"

#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ASIDE_MAX = 16384 };

bool check_enabled;

static struct {
    pthread_mutex_t lock;
    struct {
        void *object;
        void (*release)(void *object);
    } items[ASIDE_MAX];
    unsigned next;
} aside = { .lock = PTHREAD_MUTEX_INITIALIZER };

static const char mark;

__attribute__((constructor)) static void read_environment(void) {
    const char *text = getenv("GW_CHECK");
    check_enabled = text && *text && strcmp(text, "0") != 0;
}

void check_die(const char *format, ...) {
    char text[GW_ERROR_TEXT_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    log_error("GW_CHECK: %s", text);
    abort();
}

void check_lay_aside(void *object, void (*release)(void *object)) {
    const void *value = &mark;
    memcpy(object, &value, sizeof value);
    pthread_mutex_lock(&aside.lock);
    unsigned at = aside.next++ % ASIDE_MAX;
    void *oldest = aside.items[at].object;
    void (*release_oldest)(void *object) = aside.items[at].release;
    aside.items[at].object = object;
    aside.items[at].release = release;
    pthread_mutex_unlock(&aside.lock);
    if (oldest) release_oldest(oldest);
}

bool check_is_aside(const void *object) {
    const void *value;
    memcpy(&value, object, sizeof value);
    return value == &mark;
}
