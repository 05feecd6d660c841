#include "link.h"

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

#include "clock.h"
#include "link_meet.h"

enum { LAUNCHER_FD = 3, TELL_MS = 5000, LEFT_MS = 3000, REVIVAL_MS = 3000, EARLY_MAX = 8 };

// What functions that are called here need; of this one process.
static struct {
    const run_options *run;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_decided;                // host 0: how the job ends
    bool is_over;                   // this host has been told
    bool is_ready;                  // its launcher knows that all have met
    link_message early[EARLY_MAX];  // what it is told then
    int early_count;
    int done_count;  // host 0: hosts whose ranks have ended well
    int done_code;   // the first that is not 0

    _Atomic(gw_scope *) meets;  // of the thread that watches the launcher; NULL: hosts have not met
} here = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static void send_to_launcher(const link_message *m) {
    // If it has ended, so will this process.
    ssize_t sent = send(LAUNCHER_FD, m, sizeof *m, MSG_NOSIGNAL);
    (void)sent;
}

static void tell_launcher(link_kind kind, int node, int number, const char *text) {
    link_message m = { .kind = kind, .node = node, .number = number };
    snprintf(m.text, sizeof m.text, "%s", text);
    send_to_launcher(&m);
}

// Another host may have met all, started its ranks and failed before this one knows that all have met.
static void tell_ready(const link_plan *plan) {
    tell_launcher(LINK_READY, 0, plan->port, plan->job_id);
    pthread_mutex_lock(&here.lock);
    here.is_ready = true;
    for (int i = 0; i < here.early_count; i++) send_to_launcher(&here.early[i]);
    pthread_mutex_unlock(&here.lock);
}

static void tell_verdict(link_kind kind, int node, int number, const char *text) {
    pthread_mutex_lock(&here.lock);
    bool is_ready = here.is_ready;
    if (!is_ready && here.early_count < EARLY_MAX) {
        link_message *m = &here.early[here.early_count++];
        *m = (link_message){ .kind = kind, .node = node, .number = number };
        snprintf(m->text, sizeof m->text, "%s", text);
    }
    pthread_mutex_unlock(&here.lock);
    if (is_ready) tell_launcher(kind, node, number, text);
}

// ---- How the job ends ---------------------------------------------------------------------------

static bool ends_job(link_kind kind) {
    return kind != LINK_DEAD && kind != LINK_ABSENT;
}

static void take_verdict(link_kind kind, int node, int number, const char *text) {
    pthread_mutex_lock(&here.lock);
    here.is_over |= ends_job(kind);
    pthread_cond_broadcast(&here.changed);
    pthread_mutex_unlock(&here.lock);
    tell_verdict(kind, node, number, text);
}

GW_FUNCTION(launcher_verdict, GW_INLINE, "int, int, int, string") {
    take_verdict((link_kind)gw_arg_int(s, a, 0), (int)gw_arg_int(s, a, 1), (int)gw_arg_int(s, a, 2),
                 gw_arg_string(s, a, 3));
    return gw_none();
}

// Whoever cannot be told is lost, and learns that by itself.
static void tell_all(gw_scope *s, const link_message *m) {
    gw_future *told[NODE_COUNT_MAX] = { 0 };
    for (int node = 1; node < here.run->node_count; node++)
        told[node] =
            gw_rpc_async_with(s, gw_to(node), "launcher_verdict",
                              GW_ARGS((int)m->kind, m->node, m->number, (const char *)m->text),
                              GW_OPTIONS(gw_call_options, .timeout_ms = TELL_MS));
    take_verdict(m->kind, m->node, m->number, m->text);
    for (int node = 1; node < here.run->node_count; node++) {
        gw_scope *one = gw_scope_open(s);
        gw_wait(one, told[node]);
        gw_error ignored = gw_scope_close(one);
        (void)ignored;
    }
}

// Host 0 decides, so that all say the same: the first failure that comes to it, or that all are
// done. A signal may come again, since who asks twice does not want to wait.
static bool decide(link_message *m) {
    if (!ends_job(m->kind)) return true;
    pthread_mutex_lock(&here.lock);
    bool tells = m->kind == LINK_SIGNAL || !here.is_decided;
    if (m->kind == LINK_DONE && tells) {
        if (!here.done_code) here.done_code = m->number;
        m->number = here.done_code;
        tells = ++here.done_count == here.run->node_count;
    }
    here.is_decided |= tells;
    pthread_mutex_unlock(&here.lock);
    return tells;
}

GW_FUNCTION(launcher_report, GW_POOL, "int, int, int, string") {
    link_message m = { .kind = (link_kind)gw_arg_int(s, a, 0),
                       .node = (int)gw_arg_int(s, a, 1),
                       .number = (int)gw_arg_int(s, a, 2) };
    snprintf(m.text, sizeof m.text, "%s", gw_arg_string(s, a, 3));
    if (gw_ok(s) && decide(&m)) tell_all(s, &m);
    return gw_none();
}

static void report(gw_scope *root, const link_message *m) {
    gw_scope *s = gw_scope_open(root);
    gw_rpc_sync_with(s, gw_to(0), "launcher_report",
                     GW_ARGS((int)m->kind, here.run->node_rank, m->number, (const char *)m->text),
                     GW_OPTIONS(gw_call_options, .timeout_ms = 2 * TELL_MS));
    gw_error error = gw_scope_close(s);
    if (error.status) tell_launcher(LINK_LOST, 0, 0, error.text);
}

// ---- Who is there -------------------------------------------------------------------------------

// One that leaves has been told how the job ends; this host may just be about to be.
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

static void *watch_members(void *arg) {
    const link_watch *of = arg;
    gw_scope *s = of->scope;
    for (;;) {
        gw_member_event e = gw_watch_next(s, of->watch);
        if (!gw_ok(s)) break;
        if (e.kind == GW_MEMBER_DIED || (e.kind == GW_MEMBER_LEFT && !is_over_soon()))
            tell_launcher(LINK_LOST, e.worker.rank, 0, e.why.text);
    }
    const gw_error *why = gw_scope_error(s);
    if (why->status != GW_WRONG_STATE) tell_launcher(LINK_LOST, here.run->node_rank, 0, why->text);
    return NULL;
}

// ---- Whether the launcher runs --------------------------------------------------------------------

static void pause_beat(void) {
    nanosleep(&(struct timespec){ .tv_nsec = BEAT_MS * INT64_C(1000000) }, NULL);
}

// The others would wait for ranks that nobody watches over any more.
static void lose_host(void) {
    gw_scope *s = atomic_load(&here.meets);
    if (!s) _exit(0);
    link_message m = { .kind = LINK_LOST, .node = here.run->node_rank };
    snprintf(m.text, sizeof m.text, "its launcher has not run for %d s", SILENT_MS / 1000);
    report(s, &m);
}

// A launcher that does not run cannot end its ranks; killing it does (LAUN-12).
static void *watch_launcher(void *options) {
    const link_options *o = options;
    pulse p = { 0 };
    int64_t lost_ms = 0;
    for (;; pause_beat()) {
        atomic_fetch_add(&o->beats->link, 1);
        if (!pulse_is_silent(&p, atomic_load(&o->beats->launcher), clock_now_ms())) continue;
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

// Ends the wait for the others, by SIGTERM. The thread that watches the launcher leaves it to this one.
static void let_launcher_interrupt(void) {
    struct sigaction action = { .sa_handler = do_nothing };
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, SIGTERM);
    sigaction(SIGTERM, &action, NULL);
    sigprocmask(SIG_UNBLOCK, &one, NULL);
}

// Of the launcher's it keeps standard error, for what the library says.
static void let_go_of_the_rest(int fd, pid_t launcher) {
    setsid();  // a terminal's signals and its closing do not come here
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
        tell_launcher(LINK_LOST, here.run->node_rank, 0, "no thread could be made");
        return;
    }
    atomic_store(&here.meets, gw_scope_open(root));
    link_message m;
    for (;;) {
        ssize_t n = recv(LAUNCHER_FD, &m, sizeof m, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n != sizeof m) break;
        report(root, &m);
    }
    gw_rpc_leave(root);
    pthread_join(thread, NULL);
}

_Noreturn void link_main(int fd, const link_options *o) {
    let_go_of_the_rest(fd, o->launcher);
    here.run = o->run;
    pthread_t beating;
    if (pthread_create(&beating, NULL, watch_launcher, (void *)(uintptr_t)o)) _exit(1);
    let_launcher_interrupt();
    gw_scope *root = gw_scope_open(NULL);
    link_plan plan;
    link_watch watch;
    link_meet(root, o, &plan, &watch);
    if (gw_ok(root)) {
        tell_ready(&plan);
        serve(root, &watch);
    } else {
        tell_launcher(LINK_CANNOT, here.run->node_rank, 0, gw_scope_error(root)->text);
    }
    gw_error ignored = gw_scope_close(root);
    (void)ignored;
    _exit(0);
}
