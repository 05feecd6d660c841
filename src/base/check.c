#include "base/check.h"

#include "base/log.h"
#include "base/process_lock.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ASIDE_MAX = 16384 };

bool check_enabled;

PROCESS_LOCK(lock, PROCESS_LOCK_LEAF, NULL);  // of |aside|
static struct {
    struct {
        void *object;
        void (*release)(void *object);
    } items[ASIDE_MAX];
    unsigned next;
} aside;

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
    process_lock_take(&lock);
    unsigned at = aside.next++ % ASIDE_MAX;
    void *oldest = aside.items[at].object;
    void (*release_oldest)(void *object) = aside.items[at].release;
    aside.items[at].object = object;
    aside.items[at].release = release;
    process_lock_release(&lock);
    if (oldest) release_oldest(oldest);
}

bool check_is_aside(const void *object) {
    const void *value;
    memcpy(&value, object, sizeof value);
    return value == &mark;
}
