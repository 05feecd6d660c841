#include "monitor/remote_hosts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "system/clock.h"
#include "system/pass_fd.h"
#include "trace/clock.h"

// NULL: there is no room, or no memory.
static remote_host *find(remote_hosts *h, int peer) {
    for (int i = 0; i < h->count; i++)
        if (h->of[i]->peer == peer) return h->of[i];
    remote_host *x = h->count < REMOTE_HOSTS_MAX ? calloc(1, sizeof *x) : NULL;
    if (!x) return NULL;
    x->peer = peer;
    return h->of[h->count++] = x;
}

// The offset stays, so that a table that is seen again has the same time.
static void shift(remote_host *x, look *taken, int64_t now_ns) {
    if (!x->seen_ms && taken->now.count)
        x->offset_ns = now_ns - taken->now.images[0].taken.monotonic_ns;
    look_shift(taken, x->offset_ns);
}

void remote_hosts_take(remote_hosts *h, int peer, const void *data, size_t size, int64_t now_ms,
                       int64_t now_ns) {
    char why[IMAGE_WHY_SIZE];
    look taken;
    if (!look_decode(data, size, &taken, why, sizeof why)) return;
    remote_host *x = taken.now.count ? find(h, peer) : NULL;
    if (!x) {
        look_free(&taken);
        return;
    }
    shift(x, &taken, now_ns);
    live_take(&x->live, &taken.now, taken.usages);
    taken.usages = NULL;  // now those of |live|
    x->seen_ms = now_ms;
    look_free(&taken);
}

static void take_file(remote_hosts *h, int peer, int fd) {
    struct stat is;
    void *data = MAP_FAILED;
    if (fstat(fd, &is) == 0 && is.st_size > 0)
        data = mmap(NULL, (size_t)is.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) return;
    remote_hosts_take(h, peer, data, (size_t)is.st_size, clock_now_ms(),
                      trace_read_ns(CLOCK_MONOTONIC));
    munmap(data, (size_t)is.st_size);
}

// Returns false if none has arrived.
static bool read_one(remote_hosts *h) {
    int fd;
    int32_t peer = 0;
    ssize_t n = receive_fd(h->fd, &peer, sizeof peer, &fd);
    if (n < 0) return errno == EINTR;
    if (n == 0) h->fd = -1;
    if (fd < 0) return n > 0;
    if (n == sizeof peer) take_file(h, peer, fd);
    close(fd);
    return true;
}

void remote_hosts_read(remote_hosts *h) {
    while (h->fd >= 0 && read_one(h)) continue;
}

bool remote_hosts_is_seen(const remote_host *x, int64_t now_ms) {
    return x->seen_ms && now_ms - x->seen_ms < REMOTE_HOSTS_SILENT_MS;
}

void remote_hosts_close(remote_hosts *h) {
    for (int i = 0; i < h->count; i++) {
        live_close(&h->of[i]->live);
        free(h->of[i]);
    }
    h->count = 0;
}
