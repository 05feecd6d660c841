// The simulator: randomness, events, and the choice of the next one.
#include "testing/sim.h"

#include <assert.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "testing/sim_parts.h"

enum {
    DELAY_US = 200,
    WINDOW_BYTES = 64 * 1024,
    INTERLEAVE_PER_MILLION = 50000,
    STEP_MAX_NS =
        500,  // virtual time of one decision, so that nothing can run for ever at one instant
};

// ---- Randomness and the trace -------------------------------------------------------------------

uint64_t sim_mix(uint64_t x) {
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

uint64_t sim_random(sim *s) {
    return sim_mix(s->random += UINT64_C(0x9e3779b97f4a7c15));
}

uint64_t sim_random_below(sim *s, uint64_t limit) {
    return sim_random(s) % limit;
}

bool sim_chance(sim *s, int per_million) {
    return per_million > 0 && sim_random_below(s, 1000000) < (uint64_t)per_million;
}

int64_t sim_delay_ns(sim *s) {
    if (s->options.delay_max_us < 0) return 0;
    return 1 + (int64_t)sim_random_below(s, (uint64_t)s->options.delay_max_us * 1000);
}

void sim_note(sim *s, const sim_thread *t, const char *what, uint64_t a, uint64_t b) {
    uint64_t name = t ? t->id : 0;
    for (const char *c = what; *c; c++) name = name * 31 + (unsigned char)*c;
    s->hash = sim_mix(s->hash ^ sim_mix(name + sim_mix(a + sim_mix(b + (uint64_t)s->now_ns))));
    if (s->traces)
        fprintf(stderr, "%.9f %s: %s %llu %llu\n", (double)s->now_ns / 1e9,
                t ? t->label : "simulator", what, (unsigned long long)a, (unsigned long long)b);
}

// ---- Events -------------------------------------------------------------------------------------

void sim_event_init(sim *s, sim_event *ev, sim_env_ *env, const char *what,
                    void (*happen)(sim_event *ev)) {
    *ev = (sim_event){ .env = env, .what = what, .happen = happen, .id = ++s->next_id };
}

void sim_event_at(sim *s, sim_event *ev, int64_t due_ns) {
    list_remove(&ev->ready);
    timers_set(&s->events, &ev->timer, due_ns);
}

bool sim_event_is_set(const sim_event *ev) {
    return ev->timer.armed || list_has(&ev->ready);
}

static void take_due(sim *s) {
    for (timer *t; (t = timers_take_due(&s->events, s->now_ns));) {
        sim_event *ev = (sim_event *)t;
        if (ev->env) {
            list_append(&s->ready, &ev->ready);
        } else {
            sim_note(s, NULL, ev->what, ev->id, 0);
            ev->happen(ev);
        }
    }
}

// ---- The choice ---------------------------------------------------------------------------------

// The threads that may let an event of |x| happen, preferably not an idle one. Only the thread that
// runs the tasks of the last events may make the next turn before those tasks have ended, and only
// because one of them waits.
static sim_thread *choose_dispatcher(sim *s, sim_env_ *x) {
    if (x->dispatcher) return x->dispatcher->state == SIM_WAITING ? x->dispatcher : NULL;
    int count[2] = { 0, 0 };
    list_each(l, &x->waiting) count[list_entry(l, sim_thread, queued)->waiter->idle]++;
    if (count[0] + count[1] == 0) return NULL;
    bool idle = count[0] == 0;
    uint64_t chosen = sim_random_below(s, (uint64_t)count[idle]);
    list_each(l, &x->waiting) {
        sim_thread *t = list_entry(l, sim_thread, queued);
        if (t->waiter->idle == idle && chosen-- == 0) return t;
    }
    return NULL;
}

static bool can_happen(const sim_event *ev) {
    const sim_env_ *x = ev->env;
    if (x->sim->nodes[x->node].is_stopped) return false;
    return x->dispatcher ? x->dispatcher->state == SIM_WAITING : !list_is_empty(&x->waiting);
}

static sim_thread *give_event(sim *s, sim_event *ev) {
    sim_thread *t = choose_dispatcher(s, ev->env);
    list_remove(&ev->ready);
    list_remove(&t->queued);
    t->given = ev;
    sim_note(s, t, ev->what, ev->id, 0);
    return t;
}

static sim_thread *choose_among(sim *s, uint64_t count) {
    uint64_t chosen = sim_random_below(s, count);
    list_each(l, &s->runnable) {
        sim_thread *t = list_entry(l, sim_thread, queued);
        if (!sim_thread_can_run(t) || chosen-- > 0) continue;
        list_remove(l);
        sim_note(s, t, "continues", 0, 0);
        return t;
    }
    list_each(l, &s->ready) {
        sim_event *ev = list_entry(l, sim_event, ready);
        if (can_happen(ev) && chosen-- == 0) return give_event(s, ev);
    }
    abort();
}

static uint64_t count_choices(const sim *s) {
    uint64_t count = 0;
    list_each(l, &s->runnable) count += sim_thread_can_run(list_entry(l, sim_thread, queued));
    list_each(l, &s->ready) count += can_happen(list_entry(l, sim_event, ready));
    return count;
}

// The thread that continues; the one outside when the run is over or stuck.
sim_thread *sim_choose(sim *s) {
    s->counts.decisions++;
    s->now_ns += 1 + (int64_t)sim_random_below(s, STEP_MAX_NS);
    sim_give_cues(s);
    while (s->now_ns <= s->until_ns) {
        take_due(s);
        if (s->waits_for_mains && s->main_count == 0) return &s->outside;
        uint64_t count = count_choices(s);
        if (count > 0) return choose_among(s, count);
        int64_t next_ns = timers_due_ns(&s->events);
        if (next_ns == ENV_NEVER) break;
        s->now_ns = next_ns <= s->until_ns ? next_ns : s->until_ns + 1;
    }
    s->is_stuck = true;
    list_remove(&s->outside.queued);
    return &s->outside;
}

// ---- Running ------------------------------------------------------------------------------------

static void append(sim *s, const char *format, ...) {
    size_t used = strlen(s->report);
    va_list args;
    va_start(args, format);
    vsnprintf(s->report + used, sizeof s->report - used, format, args);
    va_end(args);
}

static void report_thread(sim *s, const sim_thread *t) {
    if (t->state == SIM_WAITING) {
        append(s, "  %s waits for %s", t->label,
               t->waiter->what   ? t->waiter->what
               : t->waiter->idle ? "work"
                                 : "something");
        if (t->until_ns != ENV_NEVER) append(s, " until %.6f s", (double)t->until_ns / 1e9);
    } else {
        append(s, "  %s %s", t->label,
               t->state == SIM_JOINING ? "waits for the threads of its env" : "can continue");
    }
    append(s, "%s\n", t->is_main ? "" : " (not a main)");
}

void sim_write_report(sim *s) {
    bool is_late = s->now_ns > s->until_ns;
    s->report[0] = '\0';
    append(s, "sim: %s at virtual time %.6f s, seed %llu\n", is_late ? "not done" : "deadlock",
           (double)s->now_ns / 1e9, (unsigned long long)s->seed);
    list_each(l, &s->threads) report_thread(s, list_entry(l, sim_thread, link));
    list_each(l, &s->ready) {
        const sim_event *ev = list_entry(l, sim_event, ready);
        append(s, "  node %d %s: %s\n", ev->env->node,
               s->nodes[ev->env->node].is_stopped ? "is stopped" : "has no thread to see to",
               ev->what);
    }
    append(s, "%s", s->plan);
    if (!s->options.quiet) fputs(s->report, stderr);
}

bool sim_run(sim *s, int64_t until_ns) {
    assert(s->running == &s->outside);
    cpu_set_t before;
    int pinned = sim_pin(s, &before, sizeof before);
    s->report[0] = '\0';
    s->is_stuck = false;
    s->until_ns = until_ns;
    s->waits_for_mains = true;
    sim_pass_baton(s);
    s->waits_for_mains = false;
    if (s->is_stuck) sim_write_report(s);
    s->until_ns = ENV_NEVER;
    if (pinned) sim_unpin(&before, sizeof before);
    return !s->is_stuck;
}

// ---- Opening and closing ------------------------------------------------------------------------

static sim_options filled(sim_options o) {
    if (o.delay_max_us == 0) o.delay_max_us = DELAY_US;
    if (o.window_bytes <= 0) o.window_bytes = WINDOW_BYTES;
    if (o.interleave_per_million == 0) o.interleave_per_million = INTERLEAVE_PER_MILLION;
    return o;
}

sim_options sim_varied(uint64_t seed, int cut_per_million) {
    static const int delays_us[] = { -1, 1, 20, 200, 200, 1000, 20000, 200000 };
    static const int windows[] = { 100, 1000, 10000, 64 * 1024, 64 * 1024, 1 << 20 };
    static const int interleaves[] = { -1, 1000, 50000, 50000, 300000 };
    uint64_t choice = sim_mix(seed + 3);
    return (sim_options){
        .delay_max_us = delays_us[choice % 8],
        .window_bytes = windows[(choice >> 16) % 6],
        .interleave_per_million = interleaves[(choice >> 32) % 5],
        .cut_per_million = cut_per_million,
    };
}

sim *sim_open(uint64_t seed, sim_options options) {
    sim *s = mem_calloc(sizeof *s);
    if (!s) return NULL;
    s->seed = seed;
    s->random = sim_mix(seed + 1);
    s->hash = sim_mix(seed + 2);
    s->options = filled(options);
    s->traces = getenv("SIM_TRACE") != NULL;
    s->until_ns = ENV_NEVER;
    s->next_port = 40000;
    s->cpu = -1;
    list_init(&s->ready);
    list_init(&s->runnable);
    list_init(&s->threads);
    list_init(&s->envs);
    list_init(&s->dead_conns);
    list_init(&s->cues);
    list_init(&s->given_cues);
    list_init(&s->names);
    sim_set_walls(s);
    s->outside.sim = s;
    s->outside.node = -1;
    snprintf(s->outside.label, sizeof s->outside.label, "outside");
    s->running = &s->outside;
    return s;
}

void sim_close(sim *s) {
    if (!s) return;
    assert(s->running == &s->outside);
    sim_cancel_all(s);
    for (list_node *l; (l = list_take(&s->envs));) {
        sim_env_ *x = list_entry(l, sim_env_, link);
        sim_env_close(&x->base);
        sim_env_free(x);
    }
    sim_net_free(s);
    sim_director_free(s);
    mem_free(s);
}

int64_t sim_now_ns(const sim *s) {
    return s->now_ns;
}
uint64_t sim_trace_hash(const sim *s) {
    return s->hash;
}
sim_counts sim_count(const sim *s) {
    return s->counts;
}
const char *sim_report(const sim *s) {
    return s->report;
}
