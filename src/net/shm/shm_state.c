// The states of a shared-memory stream, as a table.
#include "net/shm/shm.h"

#include <assert.h>
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/machine.h"
#include "base/status.h"

// ---- Actions ------------------------------------------------------------------------------------

static void begin(shm_stream *t) {
    loop_change(t->env, t->fd, &t->source, EPOLLIN);
    t->stream.events->opened(t->stream.user);
}

static void watch(shm_stream *t) {
    if (loop_add(t->env, t->fd, &t->source, EPOLLIN, NULL)) shm_end_soon(t, ENOMEM);
}

static void resume(shm_stream *t) {
    if (!t->wants_writable) return;
    t->wants_writable = false;
    t->stream.events->writable(t->stream.user);
}

static void shut_both_directions(shm_stream *t) {
    shutdown(t->fd, SHUT_RDWR);  // it becomes ready
}

// The memory stays until the loop frees the stream: a poller may be reading it. A forked child may hold the
// socket too, so that closing it here is not its end.
static void release(shm_stream *t) {
    loop_set_timer(&t->env->base, &t->timer, ENV_NEVER);
    loop_set_timer(&t->env->base, &t->shrink, ENV_NEVER);
    loop_remove(t->env, t->fd);
    shutdown(t->fd, SHUT_RDWR);
    close(t->fd);
    t->fd = -1;
    loop_retire(t->env, &t->source);
}

static void report(shm_stream *t, gw_status status) {
    gw_error error;
    error_set(&error, status, "%s", t->why);
    release(t);
    t->stream.events->closed(t->stream.user, &error);
}

static void report_unreached(shm_stream *t) {
    report(t, t->error == ECONNREFUSED ? GW_NOT_FOUND : GW_DISCONNECTED);
}

static void report_end(shm_stream *t) {
    report(t, GW_DISCONNECTED);
}

static void nothing(shm_stream *t) {
    (void)t;
}

// ---- The table ----------------------------------------------------------------------------------

typedef MACHINE_RULE(shm_state, shm_event, shm_stream *t) rule;

// clang-format off
static const rule rules[] = {
    { SHM_CONNECTING,       SHM_CONNECTED,   SHM_OPEN,             begin,                "the peer has the shared memory, or receives it with its next read" },
    { SHM_CONNECTING,       SHM_ENDED,       SHM_CLOSED,           report_unreached,     "there is no listener" },
    { SHM_CONNECTING,       SHM_CLOSED_HERE, SHM_CLOSED,           release,              "closed before it was connected" },
    { SHM_CONNECTING,       SHM_ABANDONED,   SHM_CLOSED,           release,              "its env closes" },

    { SHM_ACCEPTED,         SHM_ADOPTED,     SHM_AWAITING_SEGMENT, watch,                "its user has set its events: the loop reads it from now on" },
    { SHM_ACCEPTED,         SHM_CLOSED_HERE, SHM_CLOSED,           release,              "it was not adopted" },
    { SHM_ACCEPTED,         SHM_ABANDONED,   SHM_CLOSED,           release,              "its env closes" },

    { SHM_AWAITING_SEGMENT, SHM_MAPPED,      SHM_OPEN,             resume,               "the memory is mapped, and cannot shrink" },
    { SHM_AWAITING_SEGMENT, SHM_ENDED,       SHM_CLOSED,           report_end,           "the peer has sent no shared memory, or memory that cannot be used" },
    { SHM_AWAITING_SEGMENT, SHM_CLOSED_HERE, SHM_CLOSED,           release,              "its time is over" },
    { SHM_AWAITING_SEGMENT, SHM_ABANDONED,   SHM_CLOSED,           release,              "its env closes" },

    { SHM_OPEN,             SHM_TEST_CUTS,   SHM_CUT,              shut_both_directions, "the loop reports the end in a later turn" },
    { SHM_OPEN,             SHM_ENDED,       SHM_CLOSED,           report_end,           "the peer has closed, and all its bytes have been read" },
    { SHM_OPEN,             SHM_CLOSED_HERE, SHM_CLOSED,           release,              "the peer can still read sent bytes in its mapping" },
    { SHM_OPEN,             SHM_ABANDONED,   SHM_CLOSED,           release,              "its env closes" },

    { SHM_CUT,              SHM_ENDED,       SHM_CLOSED,           report_end,           "the test cut discards bytes in transit, as a network failure does" },
    { SHM_CUT,              SHM_CLOSED_HERE, SHM_CLOSED,           release,              "all sent bytes have been delivered or lost" },
    { SHM_CUT,              SHM_ABANDONED,   SHM_CLOSED,           release,              "its env closes" },

    { SHM_CLOSED,           SHM_CLOSED_HERE, SHM_CLOSED,           nothing,              "its user has closed it already, inside one of its events" },
};
// clang-format on

void shm_apply(shm_stream *t, shm_event event) {
    const rule *r = machine_find(rules, sizeof rules, sizeof *rules, t->state, event);
    assert(r);  // all events are local: no byte of a peer is one
    t->state = r->to;
    r->action(t);
}

void shm_end(shm_stream *t, const char *why) {
    t->why = why;
    shm_apply(t, SHM_ENDED);
}

void shm_end_soon(shm_stream *t, int errno_code) {
    t->error = errno_code;
    loop_set_timer(&t->env->base, &t->timer, os_now_ns(&t->env->base));
}
