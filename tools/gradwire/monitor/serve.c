#include "monitor/serve.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "monitor/http.h"
#include "monitor/remote_hosts.h"
#include "system/clock.h"

enum { LOOK_MS = 1000, SERVERS = 2 };

typedef struct monitor {
    live live;
    remote_hosts others;
    model *model;
    live_row *rows;
    int row_capacity;
    image *images;  // of all hosts: copies that own nothing
    int image_capacity;
    http *servers[SERVERS];  // of the page, of the metrics; NULL: none
    int64_t next_ms;
} monitor;

static volatile sig_atomic_t ended;

static void note_end(int signal_number) {
    (void)signal_number;
    ended = 1;
}

// Without SA_RESTART, so that waits end.
static void catch_signals(void) {
    static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
    struct sigaction action = { .sa_handler = note_end };
    sigset_t none;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        sigaction(signals[i], &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

// ---- The job ------------------------------------------------------------------------------------

// The |index|-th of this host and all others that are seen; NULL: there are no more.
static const live *host_at(const monitor *m, int index, int64_t now_ms) {
    if (index == 0) return &m->live;
    for (int i = 0; i < m->others.count; i++)
        if (remote_hosts_is_seen(m->others.of[i], now_ms) && --index == 0)
            return &m->others.of[i]->live;
    return NULL;
}

static bool reserve(void *array, int *capacity, int count, size_t size) {
    void **at = array;
    if (count <= *capacity) return true;
    void *larger = realloc(*at, (size_t)count * size);
    if (!larger) return false;
    *at = larger;
    *capacity = count;
    return true;
}

typedef struct looked {
    int rows, images;
} looked;

// Without memory for those of a host, the hosts before it are shown.
static bool add_host(monitor *m, const live *l, looked *at) {
    if (!reserve(&m->rows, &m->row_capacity, at->rows + l->count, sizeof *m->rows) ||
        !reserve(&m->images, &m->image_capacity, at->images + l->now.count, sizeof *m->images))
        return false;
    for (int i = 0; i < l->count; i++) live_row_fill(l, &l->workers[i], &m->rows[at->rows++]);
    for (int i = 0; i < l->now.count; i++) m->images[at->images++] = l->now.images[i];
    return true;
}

static void take_look(monitor *m) {
    looked at = { 0 };
    const live *l;
    int64_t now_ms = clock_now_ms();
    for (int i = 0; (l = host_at(m, i, now_ms)) && add_host(m, l, &at); i++) continue;
    model_update(m->model, m->rows, at.rows, m->images, at.images, now_ms, (int64_t)time(NULL));
    for (int i = 0; i < SERVERS; i++)
        if (m->servers[i]) http_renew(m->servers[i]);
}

static void look_again(monitor *m) {
    int64_t now_ms = clock_now_ms();
    if (now_ms < m->next_ms) return;
    live_update(&m->live);
    take_look(m);
    m->next_ms += LOOK_MS;
    if (m->next_ms < now_ms) m->next_ms = now_ms + LOOK_MS;
}

// ---- The loop -----------------------------------------------------------------------------------

static int time_to_wait_ms(const monitor *m) {
    int64_t left_ms = m->next_ms - clock_now_ms();
    int wait_ms = left_ms > 0 ? (int)left_ms : 0;
    for (int i = 0; i < SERVERS; i++) {
        int ms = m->servers[i] ? http_timeout_ms(m->servers[i]) : -1;
        if (ms >= 0 && ms < wait_ms) wait_ms = ms;
    }
    return wait_ms;
}

static void run(monitor *m, int lifeline_fd) {
    struct pollfd polls[SERVERS + 2];
    while (!ended) {
        for (int i = 0; i < SERVERS; i++)
            polls[i] = (struct pollfd){ .fd = m->servers[i] ? http_poll_fd(m->servers[i]) : -1,
                                        .events = POLLIN };
        polls[SERVERS] = (struct pollfd){ .fd = lifeline_fd, .events = POLLIN };
        polls[SERVERS + 1] = (struct pollfd){ .fd = m->others.fd, .events = POLLIN };
        poll(polls, SERVERS + 2, time_to_wait_ms(m));
        if (lifeline_fd >= 0 && polls[SERVERS].revents) return;
        remote_hosts_read(&m->others);
        look_again(m);
        for (int i = 0; i < SERVERS; i++)
            if (m->servers[i]) http_run(m->servers[i]);
    }
}

static bool open_server(monitor *m, int which, int *fd, const site_rules *rules, char *why,
                        size_t why_size) {
    if (*fd < 0) return true;
    m->servers[which] = http_open(*fd, rules, m->model, why, why_size);
    if (m->servers[which]) *fd = -1;
    return m->servers[which] != NULL;
}

bool serve(const serve_options *o, char *why, size_t why_size) {
    monitor m = { .model = model_open(o->name),
                  .others.fd = o->looks_fd,
                  .next_ms = clock_now_ms() + LOOK_MS };
    bool ok = m.model != NULL;
    if (!ok) snprintf(why, why_size, "no memory");
    catch_signals();
    ok = ok && open_server(&m, 0, &o->site->page_fd, &o->site->page, why, why_size) &&
         open_server(&m, 1, &o->site->metrics_fd, &o->site->metrics, why, why_size);
    if (ok) {
        live_start(o->wanted, o->expected, &m.live);
        take_look(&m);
        run(&m, o->lifeline_fd);
        live_close(&m.live);
        remote_hosts_close(&m.others);
    }
    for (int i = 0; i < SERVERS; i++) http_close(m.servers[i]);
    model_close(m.model);
    free(m.rows);
    free(m.images);
    return ok;
}
