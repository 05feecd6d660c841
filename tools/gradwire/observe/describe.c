#include "observe/describe.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "observe/clean.h"
#include "observe/show.h"

#define OLD_NS INT64_C(3000000000)

// A text that grows up to its size.
typedef struct sentence {
    char *text;
    size_t size, used;
} sentence;

__attribute__((format(printf, 2, 3))) static void add(sentence *s, const char *format, ...) {
    if (s->used + 1 >= s->size) return;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(s->text + s->used, s->size - s->used, format, args);
    va_end(args);
    if (n > 0) s->used += (size_t)n;
    if (s->used >= s->size) s->used = s->size - 1;
}

// ---- Workers ------------------------------------------------------------------------------------

void describe_worker(const graph_worker *w, char *out, size_t size) {
    if (w->agent)
        snprintf(out, size, "%s", w->agent->name);
    else
        snprintf(out, size, "rank %d", w->rank);
}

static void add_worker(sentence *s, const graph_worker *w) {
    char name[160];
    describe_worker(w, name, sizeof name);
    add(s, "%s", name);
}

static void add_rank(sentence *s, const graph *g, int rank) {
    for (int i = 0; i < g->worker_count; i++) {
        if (g->workers[i].rank != rank) continue;
        add_worker(s, &g->workers[i]);
        return;
    }
    add(s, "rank %d", rank);
}

static bool has_several_hosts(const graph *g) {
    const image *first = NULL;
    for (int i = 0; i < g->worker_count; i++) {
        const image *x = g->workers[i].image;
        if (!first) first = x;
        if (x && strcmp(x->host, first->host) != 0) return true;
    }
    return false;
}

static void add_process(sentence *s, const graph *g, const graph_worker *w) {
    if (!w->image) return;
    if (has_several_hosts(g))
        add(s, " (pid %d on %s)", (int)w->image->pid, w->image->host);
    else
        add(s, " (pid %d)", (int)w->image->pid);
}

// ---- Activities ---------------------------------------------------------------------------------

static void add_ranks(sentence *s, const graph *g, const trace_activity *a, const char *before) {
    int listed = a->rank_count < TRACE_RANKS_MAX ? a->rank_count : TRACE_RANKS_MAX;
    for (int i = 0; i < listed; i++) {
        add(s, "%s", i ? ", " : before);
        add_rank(s, g, a->ranks[i]);
    }
    if (listed < a->rank_count) add(s, " and %d more", a->rank_count - listed);
}

static void add_site(sentence *s, const trace_activity *a) {
    if (a->site[0]) add(s, " (%s)", a->site);
}

static void add_body(sentence *s, const graph *g, const trace_activity *a) {
    add(s, "%s", a->what);
    add_site(s, a);
    add(s, ", called by ");
    add_rank(s, g, a->caller);
}

static void add_wait(sentence *s, const graph *g, const trace_activity *a) {
    unsigned long long number = a->number;
    switch (a->kind) {
    case TRACE_WAITS_REPLY:
        add(s, "waits for call %llu of %s", number, a->what);
        add_ranks(s, g, a, " at ");
        add_site(s, a);
        return;
    case TRACE_WAITS_COLLECTIVE:
        add(s, "waits in %s %llu of group \"%s\"", a->what, number, a->in);
        break;
    case TRACE_WAITS_SHUTDOWN: add(s, "is in %s", a->what); break;
    case TRACE_WAITS_TURN: add(s, "waits for %s", a->in[0] ? a->in : a->what); break;
    default: add(s, a->in[0] ? "waits for %s (%s)" : "waits for %s", a->what, a->in); break;
    }
    add_site(s, a);
    if (a->kind != TRACE_WAITS_TURN)
        add_ranks(s, g, a, a->kind == TRACE_WAITS_COLLECTIVE ? " for " : ": ");
}

static void add_activity(sentence *s, const graph *g, const trace_activity *a) {
    if (a->kind == TRACE_RUNS) {
        add(s, " runs ");
        add_body(s, g, a);
    } else if (a->kind == TRACE_QUEUED) {
        add(s, " has queued ");
        add_body(s, g, a);
        if (a->in[0]) add(s, ", which waits for %s", a->in);
    } else {
        if (a->caller >= 0) {
            add(s, ", in a call of ");
            add_rank(s, g, a->caller);
            add(s, ",");
        }
        add(s, " ");
        add_wait(s, g, a);
    }
}

// ---- Nodes --------------------------------------------------------------------------------------

static const char *word_of(worker_state state) {
    switch (state) {
    case WORKER_LIVES: return "unknown call";
    case WORKER_IS_STOPPED: return "stopped";
    case WORKER_HAS_ENDED: return "ended";
    case WORKER_HAS_LEFT: return "left";
    case WORKER_HAS_NO_TABLE: return "no table";
    case WORKER_IS_UNSEEN: return "unseen";
    }
    return "?";
}

const char *describe_kind(const graph *g, int node) {
    const graph_node *n = &g->nodes[node];
    if (n->activity) return show_kind(n->activity->kind);
    return n->kind == NODE_PROGRAM ? "computes" : word_of(g->workers[n->worker].state);
}

static const char *sentence_of(worker_state state) {
    switch (state) {
    case WORKER_LIVES: return " does not have the call that another worker waits for";
    case WORKER_IS_STOPPED: return " is stopped (SIGSTOP)";
    case WORKER_HAS_ENDED: return " was killed, or has ended without leaving the job";
    case WORKER_HAS_LEFT: return " has left the job";
    case WORKER_HAS_NO_TABLE: return " has not published what it does";
    case WORKER_IS_UNSEEN: return " cannot be seen from this host";
    }
    return "";
}

static void add_node(sentence *s, const graph *g, int node) {
    const graph_node *n = &g->nodes[node];
    if (n->activity)
        add_activity(s, g, n->activity);
    else if (n->kind == NODE_PROGRAM)
        add(s, g->min_ns ? " computes in its program, or waits only for short times"
                         : " computes in its program");
    else
        add(s, "%s", sentence_of(g->workers[n->worker].state));
    if (n->activity) add(s, ", for %s", show_duration(graph_age_ns(g, node)).text);
}

// A worker without activities publishes no tables.
static void add_state(sentence *s, const graph *g, int node) {
    const graph_node *n = &g->nodes[node];
    const graph_worker *w = &g->workers[n->worker];
    if (w->state != WORKER_LIVES) return;
    int64_t age_ns = image_table_age_ns(w->image, w->agent);
    if (age_ns > OLD_NS && (w->agent->table->activity_count || n->kind == NODE_WORKER))
        add(s, "; its table is %s old", show_duration(age_ns).text);
    bool is_body = n->activity && n->activity->kind == TRACE_RUNS;
    if (is_body && n->activity->in[0])
        add(s, "; its thread sleeps in %s", n->activity->in);
    else if (n->kind == NODE_PROGRAM && w->image->wchan[0])
        add(s, "; its first thread sleeps in %s", w->image->wchan);
}

static void describe(const graph *g, int node, bool with_process, char *out, size_t size) {
    sentence s = { .text = out, .size = size };
    const graph_worker *w = &g->workers[g->nodes[node].worker];
    out[0] = '\0';
    add_worker(&s, w);
    if (with_process) add_process(&s, g, w);
    add_node(&s, g, node);
    if (with_process) add_state(&s, g, node);
    clean_text(out);  // it may be cut inside a character
}

void describe_node(const graph *g, int node, char *out, size_t size) {
    describe(g, node, false, out, size);
}

void describe_root(const graph *g, int node, char *out, size_t size) {
    describe(g, node, true, out, size);
}

// ---- What waits ---------------------------------------------------------------------------------

// Depth first. A node without an activity has the depth of what it stands for, and is left out.
static int walk(const graph *g, const int *starts, int start_count, bool *seen, waiter_step *stack,
                waiter_step *out) {
    int stacked = 0, count = 0;
    for (int i = start_count; i-- > 0;) {
        seen[starts[i]] = true;
        stack[stacked++] = (waiter_step){ starts[i], 0 };
    }
    while (stacked) {
        waiter_step x = stack[--stacked];
        bool is_given = false;
        for (int i = 0; i < start_count; i++) is_given |= starts[i] == x.node;
        if (!is_given && g->nodes[x.node].activity) out[count++] = x;
        int below = is_given || !g->nodes[x.node].activity ? x.depth : x.depth + 1;
        for (int i = g->in.first[x.node + 1]; i-- > g->in.first[x.node];) {
            int from = g->in.to[i];
            if (seen[from] || !g->is_reached[from]) continue;
            seen[from] = true;
            stack[stacked++] = (waiter_step){ from, below };
        }
    }
    return count;
}

int describe_waiters(const graph *g, const int *starts, int start_count, bool *seen,
                     waiter_step **out) {
    waiter_step *stack = malloc(((size_t)g->node_count + 1) * sizeof *stack);
    *out = malloc(((size_t)g->node_count + 1) * sizeof **out);
    int count = stack && *out ? walk(g, starts, start_count, seen, stack, *out) : -1;
    free(stack);
    return count;
}
