#include "hosts/looks.h"

#include <gradwire.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "live/look.h"
#include "system/pass_fd.h"

enum { INTERVAL_S = 1, REPLY_MS = 5000 };

// ---- This host ----------------------------------------------------------------------------------

static struct {
    pthread_mutex_t lock;
    const char *mark;
    int expected;
    live live;
    bool is_open;
} own = { .lock = PTHREAD_MUTEX_INITIALIZER };

void looks_init(const char *mark, int expected) {
    own.mark = mark;
    own.expected = expected;
}

static void take_look(bytes *out) {
    pthread_mutex_lock(&own.lock);
    if (own.is_open)
        live_update(&own.live);
    else
        live_start(own.mark, own.expected, &own.live);
    own.is_open = true;
    look_encode(&own.live, out);
    pthread_mutex_unlock(&own.lock);
}

GW_FUNCTION(launcher_look, GW_POOL) {
    (void)a;
    bytes taken = { 0 };
    take_look(&taken);
    void *copy = taken.failed ? NULL : gw_alloc(s, taken.size);
    size_t size = taken.size;
    if (copy) memcpy(copy, taken.data, size);
    bytes_fini(&taken);
    if (!copy) gw_fail(s, GW_NO_MEMORY, "no memory for a look");
    return gw_ok(s) ? gw_value_of_bytes(copy, size) : gw_none();
}

// ---- Other hosts --------------------------------------------------------------------------------

static struct {
    gw_scope *scope;
    int fd;  // -1: not open
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_over;
} others = { .fd = -1, .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static bool write_all(int fd, const char *data, size_t size) {
    while (size) {
        ssize_t n = write(fd, data, size);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        data += n;
        size -= (size_t)n;
    }
    return true;
}

static void send_fd(int peer, int fd) {
    const looks_message message = { peer };
    // A monitor that does not read loses looks.
    (void)!pass_fd(others.fd, &message, sizeof message, fd);
}

static void pass_on(int peer, gw_value look) {
    int fd = memfd_create("gradwire-look", MFD_CLOEXEC);
    if (fd < 0) return;
    if (write_all(fd, look.as.bytes, look.size)) send_fd(peer, fd);
    close(fd);
}

static void look_at_all(gw_scope *s) {
    int count = 0, self = gw_rpc_self(s).rank;
    const gw_worker *all = gw_rpc_workers(s, &count);
    gw_future **replies = gw_alloc(s, (size_t)(count + 1) * sizeof(gw_future *));
    if (!replies) return;
    for (int i = 0; i < count; i++)
        replies[i] =
            all[i].rank == self
                ? NULL
                : gw_rpc_async_with(s, gw_to(all[i].rank), "launcher_look", (gw_values){ 0 },
                                    GW_OPTIONS(gw_call_options, .timeout_ms = REPLY_MS));
    for (int i = 0; i < count; i++) {
        gw_scope *one = gw_scope_open(s);
        gw_value look = replies[i] ? gw_wait(one, replies[i]) : gw_none();
        if (gw_ok(one) && look.kind == GW_BYTES) pass_on(all[i].rank, look);
        gw_error ignored = gw_scope_close(one);
        (void)ignored;
    }
}

// Returns whether to continue.
static bool wait_for_next(void) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += INTERVAL_S;
    pthread_mutex_lock(&others.lock);
    int failed = 0;
    while (!others.is_over && !failed)
        failed = pthread_cond_timedwait(&others.changed, &others.lock, &until);
    bool is_over = others.is_over;
    pthread_mutex_unlock(&others.lock);
    return !is_over;
}

static void *run(void *unused) {
    (void)unused;
    do {
        gw_scope *s = gw_scope_open(others.scope);
        look_at_all(s);
        gw_error ignored = gw_scope_close(s);
        (void)ignored;
    } while (wait_for_next());
    return NULL;
}

void looks_open(gw_scope *root, int fd) {
    if (fd < 0) return;
    others.scope = gw_scope_open(root);
    others.fd = fd;
    if (pthread_create(&others.thread, NULL, run, NULL)) others.fd = -1;
}

void looks_stop(void) {
    pthread_mutex_lock(&others.lock);
    others.is_over = true;
    pthread_cond_signal(&others.changed);
    pthread_mutex_unlock(&others.lock);
}

void looks_close(void) {
    if (others.fd >= 0) pthread_join(others.thread, NULL);
}
