// Plans of faults, chosen by a seed.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "testing/sim_parts.h"

enum {
    HOLD_NS_MIN = 5000000,
    SIZE_BITS_MIN = 5,  // of the number of decisions, or of sends, before a crash
    SIZE_BITS_MAX = 15,
    LINKS_MAX = 32,
};

typedef struct plan {
    sim *sim;
    uint64_t random;
    const sim_faults *faults;
    bool failed;  // no memory
} plan;

static uint64_t draw(plan *p, uint64_t below) {
    return below ? sim_mix(p->random += UINT64_C(0x9e3779b97f4a7c15)) % below : 0;
}

static int64_t draw_time(plan *p) {
    return (int64_t)draw(p, (uint64_t)p->faults->until_ns);
}

// As many short ones as long ones.
static int64_t draw_hold(plan *p) {
    int64_t limit = p->faults->hold_ns ? p->faults->hold_ns : 20 * SIM_SECOND;
    while (limit > 8 * HOLD_NS_MIN && draw(p, 3) == 0) limit /= 4;
    return HOLD_NS_MIN + (int64_t)draw(p, (uint64_t)(limit - HOLD_NS_MIN));
}

static uint64_t draw_count(plan *p) {
    return 1 + draw(p, UINT64_C(1) << (SIZE_BITS_MIN + draw(p, SIZE_BITS_MAX - SIZE_BITS_MIN)));
}

static int draw_victim(plan *p) {
    for (int tries = 0; tries < 32; tries++) {
        int node = (int)draw(p, (uint64_t)p->faults->nodes);
        if (!(p->faults->spared >> node & 1)) return node;
    }
    return -1;
}

static void append(plan *p, const char *format, ...) {
    char *text = p->sim->plan;
    size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, SIM_PLAN_MAX - used, format, args);
    va_end(args);
}

static double seconds(int64_t ns) {
    return (double)ns / 1e9;
}

static sim_cue *add(plan *p, void (*act)(sim *s, void *arg), sim_fault fault) {
    sim_cue *cue = sim_cue_open(p->sim, act, NULL);
    if (!cue) {
        p->failed = true;
        return NULL;
    }
    cue->arg = &cue->fault;
    fault.sim = p->sim;
    cue->fault = fault;
    return cue;
}

static void add_at(plan *p, int64_t when_ns, void (*act)(sim *s, void *arg), sim_fault fault) {
    sim_cue *cue = add(p, act, fault);
    if (when_ns > p->sim->plan_ends_ns) p->sim->plan_ends_ns = when_ns;
    if (cue) sim_event_at(p->sim, &cue->event, when_ns);
}

// ---- Actions -------------------------------------------------------------------------------

static void crash(sim *s, void *arg) {
    sim_crash(s, ((sim_fault *)arg)->a);
}

static void stop(sim *s, void *arg) {
    int node = ((sim_fault *)arg)->a;
    if (!sim_is_crashed(s, node)) sim_stop(s, node);
}

static void resume(sim *s, void *arg) {
    sim_continue(s, ((sim_fault *)arg)->a);
}

static void part(sim *s, void *arg) {
    sim_fault *f = arg;
    sim_partition(s, f->a, f->b, f->there, f->back);
}

static void heal(sim *s, void *arg) {
    sim_fault *f = arg;
    sim_heal_between(s, f->a, f->b);
}

static void cut_all(sim *s, void *arg) {
    (void)arg;
    sim_cut_all(s);
}

static void step(sim *s, void *arg) {
    sim_fault *f = arg;
    sim_step_wall(s, f->a, f->amount_ns);
}

// ---- When ---------------------------------------------------------------------------------------

static void plan_crash(plan *p) {
    int node = draw_victim(p);
    if (node < 0) return;
    sim_fault f = { .a = node };
    uint64_t how = draw(p, 3);
    if (how == 0) {
        int64_t when = draw_time(p);
        append(p, "  node %d crashes at %.6f s\n", node, seconds(when));
        add_at(p, when, crash, f);
        return;
    }
    uint64_t count = draw_count(p);
    append(p, "  node %d crashes at %s %llu\n", node, how == 1 ? "decision" : "send",
           (unsigned long long)count);
    sim_cue *cue = add(p, crash, f);
    if (cue) *(how == 1 ? &cue->at_decision : &cue->at_send) = count;
}

static void plan_stop(plan *p) {
    int node = draw_victim(p);
    if (node < 0) return;
    int64_t when = draw_time(p), hold = draw_hold(p);
    append(p, "  node %d stops at %.6f s for %.6f s\n", node, seconds(when), seconds(hold));
    add_at(p, when, stop, (sim_fault){ .a = node });
    add_at(p, when + hold, resume, (sim_fault){ .a = node });
}

static void part_between(plan *p, int64_t when, int64_t hold, sim_fault f) {
    add_at(p, when, part, f);
    add_at(p, when + hold, heal, f);
}

// One link, one node, or two groups of nodes; one way or both ways.
static void plan_partition(plan *p) {
    int nodes = p->faults->nodes, a = (int)draw(p, (uint64_t)nodes);
    if (nodes < 2) return;
    int64_t when = draw_time(p), hold = draw_hold(p);
    uint64_t way = draw(p, 4), how = draw(p, 3), group = draw(p, UINT64_C(1) << nodes);
    sim_fault f = { .there = way != 0, .back = way != 1 };
    if (how == 0) group = UINT64_C(1) << a;
    if (how == 1) {
        f.a = a;
        f.b = (a + 1 + (int)draw(p, (uint64_t)nodes - 1)) % nodes;
        append(p, "  node %d and node %d are parted at %.6f s for %.6f s%s\n", f.a, f.b,
               seconds(when), seconds(hold), way < 2 ? ", one way" : "");
        part_between(p, when, hold, f);
        return;
    }
    append(p, "  nodes %llx (as bits) are parted from the others at %.6f s for %.6f s%s\n",
           (unsigned long long)group, seconds(when), seconds(hold),
           way == 0   ? ", receive nothing"
           : way == 1 ? ", send nothing"
                      : "");
    for (f.a = 0; f.a < nodes; f.a++)
        for (f.b = 0; f.b < nodes; f.b++)
            if ((group >> f.a & 1) && !(group >> f.b & 1)) part_between(p, when, hold, f);
}

// Swizzle-clog: links are held one after the other and let go in another order.
static void plan_clog(plan *p) {
    int nodes = p->faults->nodes, count = 0;
    if (nodes < 2) return;
    sim_fault links[LINKS_MAX];
    for (int a = 0; a < nodes; a++)
        for (int b = 0; b < nodes; b++)
            if (a != b && count < LINKS_MAX && draw(p, 2))
                links[count++] = (sim_fault){ .a = a, .b = b, .there = true };
    int64_t when = draw_time(p), hold = draw_hold(p);
    append(p, "  %d links are clogged from %.6f s on, for %.6f s\n", count, seconds(when),
           seconds(hold));
    p->sim->counts.clogs++;
    for (int i = 0; i < count; i++) {
        add_at(p, when + (int64_t)draw(p, (uint64_t)hold / 2), part, links[i]);
        add_at(p, when + hold / 2 + (int64_t)draw(p, (uint64_t)hold / 2), heal, links[i]);
    }
}

static void plan_cut(plan *p) {
    int64_t when = draw_time(p);
    append(p, "  all connections are cut at %.6f s\n", seconds(when));
    add_at(p, when, cut_all, (sim_fault){ 0 });
}

static void plan_step(plan *p) {
    static const int64_t steps_s[] = { 1, 3600, 31536000 };
    int node = (int)draw(p, (uint64_t)p->faults->nodes);
    int64_t when = draw_time(p), by = steps_s[draw(p, 3)] * (draw(p, 2) ? 1 : -1);
    append(p, "  the wall clock of node %d steps by %lld s at %.6f s\n", node, (long long)by,
           seconds(when));
    add_at(p, when, step, (sim_fault){ .a = node, .amount_ns = by * SIM_SECOND });
}

static void plan_some(plan *p, int most, void (*make)(plan *p)) {
    for (uint64_t i = draw(p, (uint64_t)most + 1); i > 0; i--) make(p);
}

bool sim_fault_plan(sim *s, uint64_t seed, sim_faults faults) {
    plan p = { .sim = s, .random = sim_mix(seed + 77), .faults = &faults };
    plan_some(&p, faults.crashes, plan_crash);
    plan_some(&p, faults.stops, plan_stop);
    plan_some(&p, faults.partitions, plan_partition);
    plan_some(&p, faults.clogs, plan_clog);
    plan_some(&p, faults.cuts, plan_cut);
    plan_some(&p, faults.wall_steps, plan_step);
    return !p.failed;
}

bool sim_plan_is_over(const sim *s) {
    return s->now_ns > s->plan_ends_ns;
}

const char *sim_plan_text(const sim *s) {
    return s->plan;
}
