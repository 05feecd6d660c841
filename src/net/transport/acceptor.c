#include "net/transport/acceptor.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/status.h"
#include "base/system_error.h"
#include "net/transport/exhausted.h"

enum {
    BACKLOG = 1024,
    RETRY_NS = 100 * 1000 * 1000,  // while there are no descriptors at all
};

static int open_spare(void) {
    return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

void acceptor_init(os_env *o) {
    o->spare_fd = open_spare();
}

void acceptor_fini(os_env *o) {
    if (o->spare_fd >= 0) close(o->spare_fd);
}

// Without a descriptor the connection would stay in the backlog and be reported for ever. Closing the spare
// descriptor makes room to accept the connection and close it, which notifies the peer; if the spare one is gone too,
// the listener pauses for a while.
static void refuse_one(acceptor *a, int lack) {
    os_env *o = a->env;
    exhausted_log("a connection is refused", lack);
    if (o->spare_fd >= 0) {
        close(o->spare_fd);
        int fd = accept4(a->fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0) close(fd);
        o->spare_fd = open_spare();
        if (fd >= 0 && o->spare_fd >= 0) return;
    }
    loop_change(o, a->fd, &a->source, 0);
    loop_set_timer(&o->base, &a->retry, os_now_ns(&o->base) + RETRY_NS);
}

static void retry_is_due(timer *t) {
    acceptor *a = list_entry(t, acceptor, retry);
    if (a->env->spare_fd < 0) a->env->spare_fd = open_spare();
    loop_change(a->env, a->fd, &a->source, EPOLLIN);
}

// Accepts one connection in each turn, so that messages of members do not wait for more; epoll reports the next one.
static void ready(source *s, uint32_t events) {
    acceptor *a = (acceptor *)s;
    (void)events;
    address peer = { .size = sizeof peer.bytes };
    int fd =
        accept4(a->fd, (struct sockaddr *)&peer.bytes, &peer.size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0)
        a->take(a, fd, &peer);
    else if (exhausted_is(errno))
        refuse_one(a, errno);
    // Any other error: the connection failed in the backlog, or there is none.
}

void acceptor_close(listener *closed) {
    acceptor *a = list_entry(closed, acceptor, listener);
    os_env *o = a->env;
    assert(loop_lock_held(&o->base) && a->fd >= 0);
    loop_set_timer(&o->base, &a->retry, ENV_NEVER);
    loop_remove(o, a->fd);
    close(a->fd);
    a->fd = -1;
    loop_retire(o, &a->source);
}

static void abandon(source *s) {
    acceptor_close(&((acceptor *)s)->listener);
}

static const source_class polled = { .ready = ready, .abandon = abandon };

gw_status acceptor_open(os_env *o, int fd, const char *text,
                        void (*take)(acceptor *a, int fd, const address *peer), listener as,
                        listener **out, gw_error *error) {
    gw_status status = GW_OK;
    acceptor *a = mem_alloc(sizeof *a);
    if (!a) {
        status = error_set(error, GW_NO_MEMORY, "%s: out of memory", text);
        goto close_socket;
    }
    *a = (acceptor){ .source.class = &polled,
                     .listener = as,
                     .env = o,
                     .fd = fd,
                     .retry.fire = retry_is_due,
                     .take = take };
    if (listen(fd, BACKLOG))
        status = error_set(error, errno == EADDRINUSE ? GW_ADDRESS_IN_USE : GW_SYSTEM,
                           "%s: listen: %s", text, system_error_text(errno).text);
    if (!status) status = loop_add(o, fd, &a->source, EPOLLIN, error);
    if (status) goto free_acceptor;
    loop_own(o, &a->source);
    *out = &a->listener;
    return GW_OK;

free_acceptor:
    mem_free(a);
close_socket:
    close(fd);
    return status;
}
