#include "net/loop/timers.h"

static bool is_before(const timer *a, const timer *b) {
    return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->order < b->order;
}

static void hang(timer **place, timer *t) {
    *place = t;
    if (t) t->place = place;
}

// Joins two heaps, either of which may be empty; their roots' |next| and |place| are overwritten.
static timer *join(timer *a, timer *b) {
    if (!a) return b;
    if (!b) return a;
    if (is_before(b, a)) {
        timer *swapped = a;
        a = b;
        b = swapped;
    }
    hang(&b->next, a->child);
    hang(&a->child, b);
    a->next = NULL;
    return a;
}

// Joins a list of siblings: neighbours first, then all pairs from the last to the first, which
// makes removal logarithmic (amortised).
static timer *join_siblings(timer *t) {
    timer *pairs = NULL;
    while (t) {
        timer *a = t, *b = t->next;
        t = b ? b->next : NULL;
        a->next = NULL;
        if (b) b->next = NULL;
        a = join(a, b);
        a->next = pairs;
        pairs = a;
    }
    timer *all = NULL;
    while (pairs) {
        timer *rest = pairs->next;
        pairs->next = NULL;
        all = join(all, pairs);
        pairs = rest;
    }
    return all;
}

static void insert(timers *all, timer *t) {
    t->child = t->next = NULL;
    hang(&all->first, join(all->first, t));
}

static void take_out(timers *all, timer *t) {
    hang(t->place, t->next);
    timer *children = join_siblings(t->child);
    t->child = t->next = NULL;
    t->place = NULL;
    t->armed = false;
    if (children) hang(&all->first, join(all->first, children));
}

void timers_set(timers *all, timer *t, int64_t due_ns) {
    if (t->armed) take_out(all, t);
    if (due_ns == ENV_NEVER) return;
    t->due_ns = due_ns > all->firing_ns ? due_ns : all->firing_ns;
    t->order = ++all->order;
    t->armed = true;
    insert(all, t);
}

timer *timers_take_due(timers *all, int64_t now_ns) {
    timer *t = all->first;
    if (!t || t->due_ns > now_ns) return NULL;
    take_out(all, t);
    return t;
}

void timers_fire_due(timers *all, int64_t now_ns) {
    uint64_t last = all->order;
    all->firing_ns = now_ns;
    while (all->first && all->first->order <= last) {
        timer *t = timers_take_due(all, now_ns);
        if (!t) break;
        t->fire(t);
    }
    all->firing_ns = 0;
}
