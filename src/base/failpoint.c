#include "base/failpoint.h"

#ifdef GW_MUTATIONS

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
    char name[64];
    _Atomic long left;  // times that it is passed, this one included
    int out_fd, in_fd;
} chosen;

static int descriptor(const char *variable) {
    const char *text = getenv(variable);
    return text ? (int)strtol(text, NULL, 10) : -1;
}

__attribute__((constructor)) static void choose(void) {
    const char *text = getenv("GW_FAILPOINT");
    if (!text) return;
    size_t size = strcspn(text, ":");
    if (size >= sizeof chosen.name) return;
    memcpy(chosen.name, text, size);
    atomic_store(&chosen.left, text[size] ? strtol(text + size + 1, NULL, 10) : 1);
    chosen.out_fd = descriptor("GW_FAILPOINT_OUT");
    chosen.in_fd = descriptor("GW_FAILPOINT_IN");
}

bool failpoint_is_chosen(const char *name) {
    return chosen.name[0] && strcmp(chosen.name, name) == 0;
}

bool failpoint_is_due(const char *name) {
    return failpoint_is_chosen(name) && atomic_fetch_sub(&chosen.left, 1) == 1;
}

void failpoint_halt(void) {
    char byte = '!';
    while (write(chosen.out_fd, &byte, 1) < 0 && errno == EINTR) continue;
    while (read(chosen.in_fd, &byte, 1) < 0 && errno == EINTR) continue;
}

void failpoint(const char *name) {
    if (failpoint_is_due(name)) failpoint_halt();
}

#endif
