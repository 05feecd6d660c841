#include "live/live.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "system/clock.h"

const image *live_image(const live *l, const live_worker *w) {
    return &l->now.images[w->image];
}

const image_agent *live_agent(const live *l, const live_worker *w) {
    return w->agent >= 0 ? &live_image(l, w)->agents[w->agent] : NULL;
}

static bool runs(const image *x) {
    return x->life == IMAGE_RUNS || x->life == IMAGE_STOPPED;
}

bool live_any_runs(const live *l) {
    for (int i = 0; i < l->now.count; i++)
        if (runs(&l->now.images[i])) return true;
    return false;
}

bool live_is_incomplete(const live *l) {
    for (int i = 0; i < l->count; i++) {
        const image_agent *a = live_agent(l, &l->workers[i]);
        if (a && a->is_open && !l->workers[i].table_before_ns &&
            live_image(l, &l->workers[i])->life == IMAGE_RUNS)
            return true;
    }
    return false;
}

// ---- Reading again ------------------------------------------------------------------------------

// |fd| is the memory of |x|: its tables and times replace the old ones.
static void take_tables(image *x, int fd) {
    image fresh;
    char why[IMAGE_WHY_SIZE];
    if (!image_take_tables(fd, &fresh, why, sizeof why)) return;
    image old = *x;
    x->agents = fresh.agents;
    x->agent_count = fresh.agent_count;
    x->taken = fresh.taken;
    fresh.agents = old.agents;
    fresh.agent_count = old.agent_count;
    image_free(&fresh);
}

static void read_tables(image *x) {
    int fd = find_open(x, O_RDONLY);
    if (fd < 0) return;
    take_tables(x, fd);
    close(fd);
}

// ---- Workers ------------------------------------------------------------------------------------

static live_worker *find_worker(live_worker *workers, int count, const live_worker *like) {
    for (int i = 0; i < count; i++)
        if (workers[i].pid == like->pid && workers[i].start_time == like->start_time &&
            workers[i].agent == like->agent)
            return &workers[i];
    return NULL;
}

static int count_workers(const found *f) {
    int count = 0;
    for (int i = 0; i < f->count; i++)
        count += f->images[i].agent_count ? f->images[i].agent_count : 1;
    return count;
}

// Makes the workers of the images, with what is known of them. Returns false without memory.
static bool list_workers(live *l) {
    live_worker *workers = calloc((size_t)count_workers(&l->now) + 1, sizeof *workers);
    int count = 0;
    if (!workers) return false;
    for (int i = 0; i < l->now.count; i++) {
        const image *x = &l->now.images[i];
        for (int k = 0; k < (x->agent_count ? x->agent_count : 1); k++) {
            live_worker w = { .pid = x->pid,
                              .start_time = x->start_time,
                              .agent = x->agent_count ? k : -1 };
            const live_worker *known = find_worker(l->workers, l->count, &w);
            if (known) w = *known;
            w.image = i;
            workers[count++] = w;
        }
    }
    free(l->workers);
    l->workers = workers;
    l->count = count;
    return true;
}

static void find_rates(const live_worker *w, int64_t now_ns, const uint64_t *counters,
                       const uint64_t *before, int count, double *out) {
    double seconds = (double)(w->table_ns - w->table_before_ns) * 1e-9;
    bool is_old = now_ns - w->table_ns > LIVE_OLD_MS * INT64_C(1000000);
    for (int i = 0; i < count; i++)
        out[i] = !w->table_before_ns || seconds <= 0 || is_old || counters[i] < before[i]
                     ? 0
                     : (double)(counters[i] - before[i]) / seconds;
}

void live_peer_rates(const live *l, const live_worker *w, const trace_peer *peer,
                     double out[TRACE_PEER_COUNTERS]) {
    const trace_peer *before = NULL;
    for (int i = 0; i < w->peers_before.count; i++)
        if (w->peers_before.of[i].rank == peer->rank) before = &w->peers_before.of[i];
    find_rates(w, live_image(l, w)->taken.monotonic_ns, peer->counters,
               before ? before->counters : peer->counters, TRACE_PEER_COUNTERS, out);
}

static void update_table(live_worker *w, const image_agent *a) {
    if (!a || !a->table || a->table->now_ns <= w->table_ns) return;
    w->table_before_ns = w->table_ns;
    memcpy(w->counters_before, w->counters, sizeof w->counters);
    w->table_ns = a->table->now_ns;
    memcpy(w->counters, a->table->counters, sizeof w->counters);
    w->peers_before = w->peers;
    w->peers = a->table->peers;
}

static bool read_usage(const live *l, live_worker *w, const image *x) {
    if (!l->usages) return runs(x) && process_usage_read(x->pid, &w->usage);
    w->usage = l->usages[w->image];
    return true;
}

static void update_usage(const live *l, live_worker *w, const image *x) {
    w->usage_before = w->usage;
    w->usage_before_ns = w->usage_ns;
    w->usage_ns = clock_now_ms() * 1000000;
    if (!read_usage(l, w, x)) w->usage = (process_usage){ 0 };
    int64_t used = w->usage.processor_ns - w->usage_before.processor_ns;
    int64_t passed = w->usage_ns - w->usage_before_ns;
    w->processor = w->usage_before_ns && passed > 0 && used > 0 ? (double)used / (double)passed : 0;
}

static void update_workers(live *l) {
    for (int i = 0; i < l->count; i++) {
        live_worker *w = &l->workers[i];
        const image *x = live_image(l, w);
        update_table(w, live_agent(l, w));
        update_usage(l, w, x);
        find_rates(w, x->taken.monotonic_ns, w->counters, w->counters_before, TRACE_COUNTERS,
                   w->rates);
    }
}

// ---- All ----------------------------------------------------------------------------------------

static bool find(live *l, char *why, size_t why_size) {
    found f;
    l->found_ms = clock_now_ms();
    l->is_old = false;
    if (!find_tables(l->wanted, &f, why, why_size)) return false;
    if (!f.count && l->now.count) {
        find_free(&f);
        return true;
    }
    find_free(&l->now);
    l->now = f;
    return true;
}

// Processes that have ended stay as they were last.
static void read_again(live *l) {
    for (int i = 0; i < l->now.count; i++) {
        image *x = &l->now.images[i];
        bool did_run = runs(x);
        if (!did_run) continue;
        read_tables(x);
        find_life(x);
        l->is_old |= !runs(x);
    }
}

void live_update(live *l) {
    char why[FIND_WHY_SIZE];
    int64_t age_ms = clock_now_ms() - l->found_ms;
    bool are_missing = l->is_old || l->count < l->expected;
    if (age_ms >= LIVE_FIND_MS || (are_missing && age_ms >= LIVE_FIND_AGAIN_MS))
        find(l, why, sizeof why);
    read_again(l);
    if (list_workers(l)) update_workers(l);
}

bool live_open(const char *wanted, live *out, char *why, size_t why_size) {
    *out = (live){ .wanted = wanted };
    if (!find(out, why, why_size)) return false;
    if (!list_workers(out)) {
        snprintf(why, why_size, "no memory");
        live_close(out);
        return false;
    }
    update_workers(out);
    return true;
}

void live_start(const char *wanted, int expected, live *out) {
    *out = (live){ .wanted = wanted, .expected = expected, .found_ms = -LIVE_FIND_MS };
    live_update(out);
}

void live_take(live *l, found *now, process_usage *usages) {
    find_free(&l->now);
    free(l->usages);
    l->now = *now;
    l->usages = usages;
    *now = (found){ 0 };
    if (list_workers(l)) update_workers(l);
}

void live_close(live *l) {
    find_free(&l->now);
    free(l->workers);
    free(l->usages);
    *l = (live){ 0 };
}
