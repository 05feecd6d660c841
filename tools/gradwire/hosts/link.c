#include "hosts/link.h"

#include <gradwire/membership.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "system/clock.h"
#include "hosts/coordinator.h"
#include "hosts/link_meet.h"
#include "hosts/link_wire.h"
#include "options/failures.h"

enum { LAUNCHER_FD = 3, NOTIFY_MS = 5000, LEFT_MS = 3000, REVIVAL_MS = 3000, PENDING_MAX = 64 };

// The state of this process that its registered functions use.
static struct {
    const run_options *run;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_over;                       // this host has received the outcome
    bool is_ready;                      // its launcher has been notified that all hosts have met
    link_message pending[PENDING_MAX];  // sent to the launcher then
    int pending_count;

    // host 0
    pthread_mutex_t order;  // in which decisions are made and sent
    coordinator *coordinator;

    pthread_mutex_t use;  // held while the thread that watches the launcher uses |meets|
    gw_scope *meets;      // a scope for that thread; NULL: the hosts have not met
} here = { .lock = PTHREAD_MUTEX_INITIALIZER,
           .order = PTHREAD_MUTEX_INITIALIZER,
           .use = PTHREAD_MUTEX_INITIALIZER,
           .changed = PTHREAD_COND_INITIALIZER };

static void send_to_launcher(const link_message *m) {
    // If the launcher has ended, this process ends, too.
    ssize_t sent = send(LAUNCHER_FD, m, sizeof *m, MSG_NOSIGNAL);
    (void)sent;
}

static void notify_launcher(link_kind kind, int node, int number, const char *text) {
    link_message m = message_of(kind, number, text);
    m.node = node;
    send_to_launcher(&m);
}

// Another host may have met all hosts, started its ranks and failed before this host has found that all have met.
static void notify_ready(const link_plan *plan) {
    notify_launcher(LINK_READY, 0, plan->port, plan->job_id);
    pthread_mutex_lock(&here.lock);
    here.is_ready = true;
    for (int i = 0; i < here.pending_count; i++) send_to_launcher(&here.pending[i]);
    pthread_mutex_unlock(&here.lock);
}

// Until it is ready, this host has no ranks that could be dead or wait for an absent one. Those that join later wait for it
// in vain, and one such message is enough for them.
static bool matters_later(link_kind kind) {
    if (kind == LINK_DEAD) return false;
    for (int i = 0; kind == LINK_ABSENT && i < here.pending_count; i++)
        if (here.pending[i].kind == kind) return false;
    return here.pending_count < PENDING_MAX;
}

static void take_decision(const link_message *m) {
    pthread_mutex_lock(&here.lock);
    here.is_over |= coordinator_ends_job(m->kind);
    pthread_cond_broadcast(&here.changed);
    if (here.is_ready)
        send_to_launcher(m);
    else if (matters_later(m->kind))
        here.pending[here.pending_count++] = *m;
    pthread_mutex_unlock(&here.lock);
}

// ---- Decisions of host 0 ------------------------------------------------------------------------

GW_FUNCTION(launcher_outcome, GW_INLINE, "map") {
    link_message m;
    link_wire_decode(s, gw_arg_map(s, a, 0), &m);
    if (gw_ok(s)) take_decision(&m);
    return gw_none();
}

// A session delivers messages in order, and an inline function runs when its message arrives: so all hosts take decisions in the
// order in which host 0 has made them. A host that cannot be notified is lost, and detects that by itself.
static void send_decision(gw_scope *s, const link_message *m) {
    gw_map *encoded = link_wire_encode(s, m);
    for (int node = 1; node < here.run->node_count; node++) {
        gw_scope *one = gw_scope_open(s);
        gw_rpc_notify(one, gw_to(node), "launcher_outcome", encoded);
        gw_error ignored = gw_scope_close(one);
        (void)ignored;
    }
    take_decision(m);
}

static void send_outcome(gw_scope *s, const link_message *m, gw_future *notified[NODE_COUNT_MAX]) {
    gw_map *encoded = link_wire_encode(s, m);
    for (int node = 1; node < here.run->node_count; node++)
        notified[node] = gw_rpc_async_with(s, gw_to(node), "launcher_outcome", GW_ARGS(encoded),
                                           GW_OPTIONS(gw_call_options, .timeout_ms = NOTIFY_MS));
    take_decision(m);
}

// The outcome must arrive before the link of this host leaves.
static void await_outcome(gw_scope *s, gw_future *notified[NODE_COUNT_MAX]) {
    for (int node = 1; node < here.run->node_count; node++) {
        if (!notified[node]) continue;
        gw_scope *one = gw_scope_open(s);
        gw_wait(one, notified[node]);
        gw_error ignored = gw_scope_close(one);
        (void)ignored;
    }
}

static void coordinate(gw_scope *s, const link_message *report) {
    gw_future *notified[NODE_COUNT_MAX] = { 0 };
    pthread_mutex_lock(&here.order);
    coordinator_take(here.coordinator, report, clock_now_ms());
    for (link_message d; coordinator_next(here.coordinator, &d);) {
        if (coordinator_ends_job(d.kind))
            send_outcome(s, &d, notified);
        else
            send_decision(s, &d);
    }
    pthread_mutex_unlock(&here.order);
    await_outcome(s, notified);
}

GW_FUNCTION(launcher_report, GW_POOL, "map") {
    link_message m;
    link_wire_decode(s, gw_arg_map(s, a, 0), &m);
    if (gw_ok(s)) coordinate(s, &m);
    return gw_none();
}

static void report(gw_scope *root, const link_message *m) {
    gw_scope *s = gw_scope_open(root);
    gw_rpc_sync_with(s, gw_to(0), "launcher_report", GW_ARGS(link_wire_encode(s, m)),
                     GW_OPTIONS(gw_call_options, .timeout_ms = 2 * NOTIFY_MS));
    gw_error error = gw_scope_close(s);
    if (error.status) notify_launcher(LINK_LOST, 0, 0, error.text);
}

// ---- Lost hosts ---------------------------------------------------------------------------------

// A host that leaves has received the outcome of the job; this host may be about to receive it.
static bool is_over_soon(void) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += LEFT_MS / 1000;
    pthread_mutex_lock(&here.lock);
    int failed = 0;
    while (!here.is_over && !failed)
        failed = pthread_cond_timedwait(&here.changed, &here.lock, &until);
    bool is_over = here.is_over;
    pthread_mutex_unlock(&here.lock);
    return is_over;
}

// If the job may continue without that host, host 0 decides; otherwise each host ends by itself.
static void lose_other_host(gw_scope *s, int node, const char *why) {
    link_message m = message_of(LINK_LOST, 0, why);
    m.node = node;
    bool may_continue = node > 0 && failures_survive_host(here.run->on_failure, true, true);
    if (!may_continue) {
        send_to_launcher(&m);
    } else if (here.coordinator) {
        gw_scope *one = gw_scope_open(s);
        coordinate(one, &m);
        gw_error ignored = gw_scope_close(one);
        (void)ignored;
    }
}

static void *watch_members(void *arg) {
    const link_watch *of = arg;
    gw_scope *s = of->scope;
    for (;;) {
        gw_member_event e = gw_watch_next(s, of->watch);
        if (!gw_ok(s)) break;
        if (e.kind == GW_MEMBER_DIED || (e.kind == GW_MEMBER_LEFT && !is_over_soon()))
            lose_other_host(s, e.worker.rank, e.why.text);
    }
    // DISCONNECTED: no other host is left, and each loss has been handled. WRONG_STATE: this link has left.
    const gw_error *why = gw_scope_error(s);
    if (why->status != GW_WRONG_STATE && why->status != GW_DISCONNECTED)
        notify_launcher(LINK_LOST, here.run->node_rank, 0, why->text);
    return NULL;
}

// ---- Whether the launcher runs --------------------------------------------------------------------

static void pause_heartbeat(void) {
    nanosleep(&(struct timespec){ .tv_nsec = HEARTBEAT_MS * INT64_C(1000000) }, NULL);
}

// Otherwise the other hosts would wait for ranks that no launcher watches.
static void lose_host(void) {
    pthread_mutex_lock(&here.use);
    if (!here.meets) _exit(0);
    link_message m = message_of(LINK_LOST, 0, "");
    m.node = here.run->node_rank;
    snprintf(m.text, sizeof m.text, "gradwire run on that host has not run for %d s",
             SILENT_MS / 1000);
    report(here.meets, &m);
    pthread_mutex_unlock(&here.use);
}

// A launcher that does not run cannot end its ranks; they end when it is killed (LAUN-12).
static void *watch_launcher(void *options) {
    const link_options *o = options;
    heartbeat_check p = { 0 };
    int64_t lost_ms = 0;
    for (;; pause_heartbeat()) {
        atomic_fetch_add(&o->heartbeats->link, 1);
        if (!heartbeat_is_silent(&p, atomic_load(&o->heartbeats->launcher), clock_now_ms()))
            continue;
        if (lost_ms && clock_now_ms() - lost_ms > REVIVAL_MS) kill(o->launcher, SIGKILL);
        if (lost_ms) continue;
        lose_host();
        lost_ms = clock_now_ms();
    }
    return NULL;
}

// ---- The process --------------------------------------------------------------------------------

static void do_nothing(int signal_number) {
    (void)signal_number;
}

// Allows SIGTERM to end the wait for the other hosts. The thread that watches the launcher keeps it blocked.
static void let_launcher_interrupt(void) {
    struct sigaction action = { .sa_handler = do_nothing };
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, SIGTERM);
    sigaction(SIGTERM, &action, NULL);
    sigprocmask(SIG_UNBLOCK, &one, NULL);
}

// Of the launcher's descriptors the link keeps standard error, for the messages of the library.
static void detach(int fd, pid_t launcher) {
    setsid();  // excludes this process from the signals and the hang-up of a terminal
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != launcher) _exit(1);  // it ended before the line above
    prctl(PR_SET_NAME, "gradwire-link");
    if (dup2(fd, LAUNCHER_FD) < 0) _exit(1);
    for (int i = 0; i < 2; i++) {
        close(i);
        if (open("/dev/null", O_RDWR) != i) _exit(1);
    }
    syscall(SYS_close_range, LAUNCHER_FD + 1, ~0U, 0);
}

static void serve(gw_scope *root, link_watch *of) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, watch_members, of)) {
        notify_launcher(LINK_LOST, here.run->node_rank, 0, "no thread could be started");
        return;
    }
    pthread_mutex_lock(&here.use);
    here.meets = gw_scope_open(root);
    pthread_mutex_unlock(&here.use);
    link_message m;
    for (;;) {
        ssize_t n = recv(LAUNCHER_FD, &m, sizeof m, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n != sizeof m) break;
        m.node = here.run->node_rank;
        report(root, &m);
    }
    gw_rpc_leave(root);
    pthread_join(thread, NULL);
}

_Noreturn void link_main(int fd, const link_options *o) {
    detach(fd, o->launcher);
    here.run = o->run;
    if (o->run->node_rank == 0 && !(here.coordinator = coordinator_open(o->run))) _exit(1);
    pthread_t heartbeat_thread;
    if (pthread_create(&heartbeat_thread, NULL, watch_launcher, (void *)(uintptr_t)o)) _exit(1);
    let_launcher_interrupt();
    gw_scope *root = gw_scope_open(NULL);
    link_plan plan;
    link_watch watch;
    link_meet(root, o, &plan, &watch);
    if (gw_ok(root)) {
        notify_ready(&plan);
        serve(root, &watch);
    } else {
        notify_launcher(LINK_CANNOT, here.run->node_rank, 0, gw_scope_error(root)->text);
    }
    pthread_mutex_lock(&here.use);  // until this process has ended: closing root closes here.meets
    gw_error ignored = gw_scope_close(root);
    (void)ignored;
    _exit(0);
}
