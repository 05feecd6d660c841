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
#include "hosts/looks.h"
#include "options/failures.h"

enum {
    LAUNCHER_FD = 3,
    LOOKS_FD,
    FDS_END,
    NOTIFY_MS = 5000,
    LEFT_MS = 3000,
    REVIVAL_MS = 3000,
    PENDING_MAX = 64
};

// The state of this process that its registered functions use.
static struct {
    const link_options *options;
    const run_options *run;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_over;  // this host has received the outcome
    link_plan plan;
    bool has_plan;
    bool is_ready;              // the launcher has been notified that its ranks can start
    link_message place, round;  // LINK_ADMIT of this host and LINK_START_ROUND, in a dynamic job
    link_message pending[PENDING_MAX];  // sent to the launcher when it is ready
    int pending_count;

    int peer;  // of this link (roster.h)

    // host 0; of a dynamic job, the host whose link has created the job of links
    pthread_mutex_t order;  // in which decisions are made and sent
    coordinator *coordinator;

    pthread_mutex_t use;  // held while the thread that watches the launcher uses |meets|
    gw_scope *meets;      // a scope for that thread; NULL: the hosts have not met
} here = { .lock = PTHREAD_MUTEX_INITIALIZER,
           .order = PTHREAD_MUTEX_INITIALIZER,
           .use = PTHREAD_MUTEX_INITIALIZER,
           .changed = PTHREAD_COND_INITIALIZER };

static void set_peer(int peer) {
    pthread_mutex_lock(&here.lock);
    here.peer = peer;
    pthread_mutex_unlock(&here.lock);
}

// In a dynamic job every link has a coordinator, as it is not known yet whose host creates the job of links.
static bool decides(void) {
    return here.coordinator && here.peer == 0;
}

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

// In a dynamic job the hosts of the round have to be known, too: until then this host is a spare.
static void notify_if_ready(void) {
    bool is_dynamic = here.run->is_dynamic;
    bool is_known = here.place.kind == LINK_ADMIT && here.round.kind == LINK_START_ROUND;
    if (here.is_ready || !here.has_plan || (is_dynamic && !is_known)) return;
    if (is_dynamic) send_to_launcher(&here.place);
    if (is_dynamic) send_to_launcher(&here.round);
    notify_launcher(LINK_READY, 0, here.plan.port, here.plan.job_id);
    here.is_ready = true;
    for (int i = 0; i < here.pending_count; i++) send_to_launcher(&here.pending[i]);
}

// Another host may have met all hosts, started its ranks and failed before this host has found that all have met.
static void take_plan(const link_plan *plan) {
    pthread_mutex_lock(&here.lock);
    here.plan = *plan;
    here.has_plan = true;
    if (here.run->is_dynamic) notify_launcher(LINK_WAITS, NO_NODE, plan->has_started, "");
    notify_if_ready();
    pthread_mutex_unlock(&here.lock);
}

// Decisions are sent only to hosts that are in the job, so that the first one of a spare is about itself.
static void take_place(const link_message *m) {
    if (m->kind == LINK_ADMIT && m->number == here.peer) here.place = *m;
    if (m->kind == LINK_START_ROUND) here.round = *m;
    notify_if_ready();
}

// Until it is ready, this host has no ranks that could be dead or wait for an absent one. Those that join later wait for it
// in vain, and one such message is enough for them.
static bool matters_later(link_kind kind) {
    if (kind == LINK_DEAD || kind == LINK_ADMIT || kind == LINK_START_ROUND) return false;
    for (int i = 0; kind == LINK_ABSENT && i < here.pending_count; i++)
        if (here.pending[i].kind == kind) return false;
    return here.pending_count < PENDING_MAX;
}

static void take_decision(const link_message *m) {
    pthread_mutex_lock(&here.lock);
    here.is_over |= coordinator_ends_job(m->kind);
    pthread_cond_broadcast(&here.changed);
    bool is_last_of_spare = here.run->is_dynamic && coordinator_ends_job(m->kind);
    if (here.is_ready || is_last_of_spare)
        send_to_launcher(m);
    else if (matters_later(m->kind))
        here.pending[here.pending_count++] = *m;
    else
        take_place(m);
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
    const roster *r = coordinator_hosts(here.coordinator);
    gw_map *encoded = link_wire_encode(s, m);
    for (int node = 1; node < r->max; node++) {
        if (!r->hosts[node].is_in) continue;
        gw_scope *one = gw_scope_open(s);
        gw_rpc_notify(one, gw_to(r->hosts[node].peer), "launcher_outcome", encoded);
        gw_error ignored = gw_scope_close(one);
        (void)ignored;
    }
    take_decision(m);
}

// Replies to the outcome.
typedef struct notified {
    gw_future *of[NODE_COUNT_MAX + SPARES_MAX];
    int count;
} notified;

static void send_to_peer(gw_scope *s, gw_map *encoded, int peer, notified *out) {
    if (peer == here.peer) return;
    out->of[out->count++] = gw_rpc_async_with(s, gw_to(peer), "launcher_outcome", GW_ARGS(encoded),
                                              GW_OPTIONS(gw_call_options, .timeout_ms = NOTIFY_MS));
}

static void send_outcome(gw_scope *s, const link_message *m, notified *out) {
    const roster *r = coordinator_hosts(here.coordinator);
    gw_map *encoded = link_wire_encode(s, m);
    out->count = 0;
    for (int node = 0; node < r->max; node++)
        if (r->hosts[node].is_in) send_to_peer(s, encoded, r->hosts[node].peer, out);
    for (int i = 0; i < r->spare_count; i++) send_to_peer(s, encoded, r->spares[i], out);
    take_decision(m);
}

// The outcome must arrive before the link of this host leaves.
static void await_outcome(gw_scope *s, const notified *n) {
    for (int i = 0; i < n->count; i++) {
        if (!n->of[i]) continue;
        gw_scope *one = gw_scope_open(s);
        gw_wait(one, n->of[i]);
        gw_error ignored = gw_scope_close(one);
        (void)ignored;
    }
}

// Makes and sends all decisions behind |report| of |peer|; NULL: behind the time that has passed.
static void coordinate(gw_scope *s, int peer, const link_message *report) {
    notified outcome = { 0 };
    pthread_mutex_lock(&here.order);
    coordinator *c = here.coordinator;
    if (report) {
        link_message m = *report;
        m.node = roster_find(coordinator_hosts(c), peer);
        if (m.node == NO_NODE) m.number = peer;
        coordinator_take(c, &m, clock_now_ms());
    } else {
        coordinator_tick(c, clock_now_ms());
    }
    for (link_message d; coordinator_next(c, &d);) {
        if (coordinator_ends_job(d.kind))
            send_outcome(s, &d, &outcome);
        else
            send_decision(s, &d);
    }
    pthread_mutex_unlock(&here.order);
    await_outcome(s, &outcome);
}

GW_FUNCTION(launcher_report, GW_POOL, "map") {
    link_message m;
    link_wire_decode(s, gw_arg_map(s, a, 0), &m);
    if (gw_ok(s)) coordinate(s, gw_arg_caller(a).rank, &m);
    return gw_none();
}

static bool is_over(void) {
    pthread_mutex_lock(&here.lock);
    bool is_over = here.is_over;
    pthread_mutex_unlock(&here.lock);
    return is_over;
}

static bool has_started(void) {
    pthread_mutex_lock(&here.order);
    bool has_started = coordinator_has_started(here.coordinator);
    pthread_mutex_unlock(&here.order);
    return has_started;
}

// A host wants to take part. Returns the plan; host 0 decides later when it does.
GW_FUNCTION(launcher_join, GW_POOL, "map") {
    gw_map *plan = link_meet_compare(s, here.options, gw_arg_map(s, a, 0));
    if (gw_ok(s) && is_over()) gw_fail(s, GW_WRONG_STATE, "the job has ended");
    if (!gw_ok(s)) return gw_none();
    const link_message joins = message_of(LINK_JOINS, 0, "");
    gw_map_put(s, plan, "started", has_started());
    coordinate(s, gw_arg_caller(a).rank, &joins);
    return gw_value_of(plan);
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

static void coordinate_in(gw_scope *s, int peer, const link_message *report) {
    gw_scope *one = gw_scope_open(s);
    coordinate(one, peer, report);
    gw_error ignored = gw_scope_close(one);
    (void)ignored;
}

// If the job may continue without that host, host 0 decides; otherwise each host ends by itself. The numbers of the other hosts of a
// dynamic job are those of host 0.
static void lose_other_host(gw_scope *s, int peer, link_kind kind, const char *why) {
    link_message m = message_of(kind, 0, why);
    bool survives = here.run->is_dynamic || failures_survive_host(here.run->on_failure, true, true);
    bool may_continue = peer > 0 && survives;
    m.node = peer;
    if (may_continue && decides()) coordinate_in(s, peer, &m);
    if (!may_continue) send_to_launcher(&m);
}

static void take_event(gw_scope *s, const gw_member_event *e) {
    int peer = e->worker.rank;
    if (e->kind == GW_MEMBER_DIED) lose_other_host(s, peer, LINK_LOST, e->why.text);
    if (e->kind != GW_MEMBER_LEFT) return;
    if (here.run->is_dynamic && decides())
        lose_other_host(s, peer, LINK_LEFT, "it has left the other hosts");
    else if ((peer == 0 || !here.run->is_dynamic) && !is_over_soon())
        lose_other_host(s, peer, LINK_LOST, e->why.text);
}

static void *watch_members(void *arg) {
    const link_watch *of = arg;
    gw_scope *s = of->scope;
    for (;;) {
        gw_member_event e = gw_watch_next(s, of->watch);
        if (!gw_ok(s)) break;
        take_event(s, &e);
    }
    // DISCONNECTED: no other host is left, and each loss has been handled. WRONG_STATE: this link has left.
    const gw_error *why = gw_scope_error(s);
    if (why->status != GW_WRONG_STATE && why->status != GW_DISCONNECTED)
        notify_launcher(LINK_LOST, NO_NODE, 0, why->text);
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
    snprintf(m.text, sizeof m.text, "gradwire run on that host has not run for %d s",
             SILENT_MS / 1000);
    report(here.meets, &m);
    pthread_mutex_unlock(&here.use);
}

static void tick(void) {
    if (!here.run->is_dynamic) return;
    pthread_mutex_lock(&here.use);
    if (here.meets && decides()) coordinate_in(here.meets, here.peer, NULL);
    pthread_mutex_unlock(&here.use);
}

// A launcher that does not run cannot end its ranks; they end when it is killed (LAUN-12).
static void *watch_launcher(void *options) {
    const link_options *o = options;
    heartbeat_check p = { 0 };
    int64_t lost_ms = 0;
    for (;; pause_heartbeat()) {
        atomic_fetch_add(&o->heartbeats->link, 1);
        tick();
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
static void detach(int fd, int looks_fd, pid_t launcher) {
    setsid();  // excludes this process from the signals and the hang-up of a terminal
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != launcher) _exit(1);  // it ended before the line above
    prctl(PR_SET_NAME, "gradwire-link");
    int high = looks_fd < 0 ? -1 : fcntl(looks_fd, F_DUPFD_CLOEXEC, FDS_END);
    if (dup2(fd, LAUNCHER_FD) < 0) _exit(1);
    if (high >= 0 && dup2(high, LOOKS_FD) < 0) _exit(1);
    for (int i = 0; i < 2; i++) {
        close(i);
        if (open("/dev/null", O_RDWR) != i) _exit(1);
    }
    syscall(SYS_close_range, high < 0 ? LOOKS_FD : FDS_END, ~0U, 0);
}

static void serve(gw_scope *root, link_watch *of) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, watch_members, of)) {
        notify_launcher(LINK_LOST, NO_NODE, 0, "no thread could be started");
        return;
    }
    pthread_mutex_lock(&here.use);
    here.meets = gw_scope_open(root);
    pthread_mutex_unlock(&here.use);
    looks_open(root, here.options->looks_fd < 0 ? -1 : LOOKS_FD);
    link_message m;
    for (;;) {
        ssize_t n = recv(LAUNCHER_FD, &m, sizeof m, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n != sizeof m) break;
        report(root, &m);
    }
    looks_stop();
    gw_rpc_leave(root);
    looks_close();
    pthread_join(thread, NULL);
}

_Noreturn void link_main(int fd, const link_options *o) {
    detach(fd, o->looks_fd, o->launcher);
    looks_init(o->mark, o->run->rank_count);
    here.options = o;
    here.run = o->run;
    if (o->run->node_rank == 0 && !(here.coordinator = coordinator_open(o->run))) _exit(1);
    pthread_t heartbeat_thread;
    if (pthread_create(&heartbeat_thread, NULL, watch_launcher, (void *)(uintptr_t)o)) _exit(1);
    let_launcher_interrupt();
    gw_scope *root = gw_scope_open(NULL);
    link_plan plan;
    link_watch watch;
    link_meet_join(root, o, &watch);
    if (gw_ok(root)) set_peer(gw_rpc_self(root).rank);
    if (gw_ok(root)) link_meet_agree(root, o, &plan);
    if (gw_ok(root)) {
        take_plan(&plan);
        serve(root, &watch);
    } else {
        notify_launcher(LINK_CANNOT, NO_NODE, 0, gw_scope_error(root)->text);
    }
    pthread_mutex_lock(&here.use);  // until this process has ended: closing root closes here.meets
    gw_error ignored = gw_scope_close(root);
    (void)ignored;
    _exit(0);
}
