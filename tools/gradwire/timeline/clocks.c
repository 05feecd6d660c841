#include "timeline/clocks.h"

#include <stdlib.h>
#include <string.h>

#include "base/mutation.h"
#include "timeline/corrections.h"
#include "timeline/offsets.h"
#include "timeline/order.h"
#include "trace/kinds.h"

// Of two hosts, |a| < |b|: the offset of the clock of |a| to that of |b|.
typedef struct pair {
    offsets_points points;
    offsets offsets;
    offsets_result result;
} pair;

typedef struct aligning {
    image *images;
    int count;
    clocks *out;
    pair *pairs;    // [a * host_count + b]
    bool *is_done;  // by host: its method is chosen
    corrections corrections;
} aligning;

// ---- Times --------------------------------------------------------------------------------------

// The times of a file may be anything.
static int64_t limit(int64_t at) {
    return at < 0 ? 0 : at > INT64_MAX / 4 ? INT64_MAX / 4 : at;
}

static int64_t sum(int64_t a, int64_t b) {
    int64_t out;
    return __builtin_add_overflow(a, b, &out) ? (b > 0 ? INT64_MAX : INT64_MIN) : out;
}

static int64_t difference(int64_t a, int64_t b) {
    int64_t out;
    return __builtin_sub_overflow(a, b, &out) ? 0 : out;
}

// ---- Hosts --------------------------------------------------------------------------------------

static bool find_hosts(aligning *a) {
    clocks *c = a->out;
    c->hosts = calloc((size_t)a->count + 1, sizeof *c->hosts);
    c->host_of_image = calloc((size_t)a->count + 1, sizeof *c->host_of_image);
    if (!c->hosts || !c->host_of_image) return false;
    for (int i = 0; i < a->count; i++) {
        int h = 0;
        while (h < c->host_count && strcmp(c->hosts[h].name, a->images[i].host) != 0) h++;
        c->host_of_image[i] = h;
        if (h < c->host_count) continue;
        c->hosts[c->host_count++] =
            (clocks_host){ .name = a->images[i].host, .first_image = i, .parent = -1 };
    }
    return true;
}

static pair *pair_of(const aligning *a, int x, int y) {
    int low = x < y ? x : y, high = x < y ? y : x;
    return &a->pairs[low * a->out->host_count + high];
}

static void add_bound(void *user, const order_pair *p) {
    aligning *a = user;
    int before = a->out->host_of_image[p->before_image];
    int after = a->out->host_of_image[p->after_image];
    offsets_points *points = &pair_of(a, before, after)->points;
    bool is_upper = before > after;
    // Of the hosts with the larger and the smaller number.
    int64_t high_ns = is_upper ? p->before_ns : p->after_ns;
    int64_t low_ns = is_upper ? p->after_ns : p->before_ns;
    int64_t offset_ns = difference(low_ns, high_ns);
    if (has_mutation(MUTATION_TRACE_OFFSET_SIGN)) offset_ns = difference(high_ns, low_ns);
    offsets_add(points, high_ns, offset_ns, is_upper);
}

static bool find_offsets(aligning *a) {
    int n = a->out->host_count;
    a->pairs = calloc((size_t)n * (size_t)n, sizeof *a->pairs);
    a->is_done = calloc((size_t)n, sizeof *a->is_done);
    if (!a->pairs || !a->is_done) return false;
    if (!order_visit(a->images, a->count, a->out->host_of_image, add_bound, a)) return false;
    for (int i = 0; i < n * n; i++) {
        pair *p = &a->pairs[i];
        p->result = offsets_find(&p->points, &p->offsets);
        if (p->result == OFFSETS_WITHOUT_MEMORY) return false;
    }
    return true;
}

// ---- One host after the other -------------------------------------------------------------------

// The host that is next to be aligned by messages with one that is: the one with the least uncertainty. -1: there is none.
static int choose_next(const aligning *a, int *out_parent) {
    int found = -1, n = a->out->host_count;
    int64_t least = INT64_MAX;
    for (int parent = 0; parent < n; parent++)
        for (int h = 0; a->is_done[parent] && h < n; h++) {
            const pair *p = pair_of(a, parent, h);
            if (a->is_done[h] || p->result != OFFSETS_FOUND) continue;
            int64_t u = sum(a->out->hosts[parent].uncertainty_ns, p->offsets.uncertainty);
            if (found >= 0 && u >= least) continue;
            found = h;
            least = u;
            *out_parent = parent;
        }
    return found;
}

static clocks_reason reason_of(const aligning *a, int host) {
    for (int h = 0; h < a->out->host_count; h++)
        if (h != host && pair_of(a, h, host)->result == OFFSETS_CONTRADICTORY)
            return CLOCKS_CONTRADICTION;
    return CLOCKS_NO_MESSAGES;
}

static int64_t wall_minus_monotonic(const image *x) {
    return difference(x->opened.wall_ns, x->opened.monotonic_ns);
}

// The time of the parent of |host| at |at| of |host|.
static int64_t to_parent(const aligning *a, int host, int64_t at) {
    int parent = a->out->hosts[host].parent;
    const offsets *o = &pair_of(a, host, parent)->offsets;
    return host < parent ? offsets_unmap(o, at) : offsets_map(o, at);
}

// The time of the host at the root of the tree of messages.
static int64_t to_root(const aligning *a, int host, int64_t at) {
    for (int h = host; a->out->hosts[h].parent >= 0; h = a->out->hosts[h].parent)
        at = to_parent(a, h, at);
    return at;
}

static int root_of(const aligning *a, int host) {
    while (a->out->hosts[host].parent >= 0) host = a->out->hosts[host].parent;
    return host;
}

static void align_by_messages(const aligning *a, int host, int parent) {
    clocks_host *h = &a->out->hosts[host];
    h->parent = parent;
    h->method = CLOCKS_BY_MESSAGES;
    if (a->out->hosts[parent].reason) h->reason = CLOCKS_PARENT;
    h->uncertainty_ns =
        sum(a->out->hosts[parent].uncertainty_ns, pair_of(a, host, parent)->offsets.uncertainty);
}

static void align_by_wall_time(const aligning *a, int host) {
    clocks_host *h = &a->out->hosts[host];
    h->method = host ? CLOCKS_BY_WALL_TIME : CLOCKS_REFERENCE;
    h->reason = host ? reason_of(a, host) : CLOCKS_NO_REASON;
    h->offset_ns = difference(wall_minus_monotonic(&a->images[h->first_image]),
                              wall_minus_monotonic(&a->images[0]));
}

static void choose_methods(const aligning *a) {
    int parent = -1;
    for (int root = 0; root < a->out->host_count; root++) {
        if (a->is_done[root]) continue;
        align_by_wall_time(a, root);
        a->is_done[root] = true;
        for (int h; (h = choose_next(a, &parent)) >= 0;) {
            align_by_messages(a, h, parent);
            a->is_done[h] = true;
        }
    }
}

// ---- Moving -------------------------------------------------------------------------------------

// The time on the clock of the first host: by messages to that of the root, then by wall time.
static int64_t moved(const aligning *a, int host, int64_t at) {
    int root = root_of(a, host);
    at = to_root(a, host, at);
    return limit(root ? sum(at, a->out->hosts[root].offset_ns) : at);
}

static void move_image(image *x, void (*move)(const aligning *a, int host, int64_t *at),
                       const aligning *a, int host) {
    move(a, host, &x->opened.monotonic_ns);
    move(a, host, &x->taken.monotonic_ns);
    for (int i = 0; i < x->thread_count; i++)
        for (uint32_t k = 0; k < x->threads[i].record_count; k++)
            move(a, host, &x->threads[i].records[k].at_ns);
}

static void move_time(const aligning *a, int host, int64_t *at) {
    *at = moved(a, host, *at);
}

static void correct_time(const aligning *a, int host, int64_t *at) {
    *at = limit(sum(*at, corrections_at(&a->corrections, host, *at)));
}

static void move_all(const aligning *a, void (*move)(const aligning *a, int host, int64_t *at)) {
    for (int i = 0; i < a->count; i++) move_image(&a->images[i], move, a, a->out->host_of_image[i]);
}

// ---- More than two hosts ------------------------------------------------------------------------

static void add_order(void *user, const order_pair *p) {
    aligning *a = user;
    int before = a->out->host_of_image[p->before_image];
    int after = a->out->host_of_image[p->after_image];
    if (root_of(a, before) == root_of(a, after))
        corrections_add(&a->corrections,
                        &(corrections_pair){ before, after, p->before_ns, p->after_ns });
}

// Each host keeps the order of its messages with its parent; with others they may lead back by less than the uncertainty.
static bool correct(aligning *a) {
    int n = a->out->host_count;
    corrections *c = &a->corrections;
    if (!corrections_open(c, n)) return false;
    for (int h = 0; h < n; h++) c->is_fixed[h] = a->out->hosts[h].parent < 0;
    bool ok = order_visit(a->images, a->count, a->out->host_of_image, add_order, a) &&
              corrections_find(c);
    if (ok) move_all(a, correct_time);
    for (int h = 0; h < n; h++)
        a->out->hosts[h].uncertainty_ns =
            sum(a->out->hosts[h].uncertainty_ns, corrections_most(c, h));
    return ok;
}

// Of times that have not been moved.
static void note_offsets(const aligning *a) {
    for (int i = 0; i < a->out->host_count; i++) {
        clocks_host *h = &a->out->hosts[i];
        int64_t middle = limit(a->images[h->first_image].taken.monotonic_ns);
        if (h->method == CLOCKS_BY_MESSAGES) h->offset_ns = difference(moved(a, i, middle), middle);
    }
}

// ---- Arrows that lead back ----------------------------------------------------------------------

static void check_pair(void *user, const order_pair *p) {
    clocks *c = user;
    if (p->before_ns <= p->after_ns) return;
    c->back_count++;
    table_put(&c->back, p->kind, p->id, 0);
}

bool clocks_leads_back(const clocks *c, uint8_t kind, uint64_t id) {
    return table_find(&c->back, kind, id);
}

// ---- All ----------------------------------------------------------------------------------------

static bool align_hosts(aligning *a) {
    if (!find_offsets(a)) return false;
    choose_methods(a);
    note_offsets(a);
    move_all(a, move_time);
    if (a->out->host_count > 2 && !correct(a)) return false;
    return order_visit(a->images, a->count, a->out->host_of_image, check_pair, a->out) &&
           !a->out->back.failed;
}

static bool align(aligning *a) {
    if (!find_hosts(a)) return false;
    if (a->out->host_count > 1) return align_hosts(a);
    move_all(a, move_time);  // gets limits
    return true;
}

bool clocks_align(image *images, int count, clocks *out) {
    *out = (clocks){ 0 };
    aligning a = { .images = images, .count = count, .out = out };
    bool ok = align(&a);
    int n = a.pairs ? out->host_count : 0;
    for (int i = 0; i < n * n; i++) {
        offsets_points_fini(&a.pairs[i].points);
        offsets_fini(&a.pairs[i].offsets);
    }
    corrections_fini(&a.corrections);
    free(a.pairs);
    free(a.is_done);
    if (!ok) clocks_fini(out);
    return ok;
}

void clocks_fini(clocks *c) {
    free(c->hosts);
    free(c->host_of_image);
    table_fini(&c->back);
    *c = (clocks){ 0 };
}

const char *clocks_words(const clocks_host *h) {
    if (h->method == CLOCKS_REFERENCE) return "the clock of the trace";
    if (h->reason == CLOCKS_PARENT)
        return "messages with a host that is aligned by wall time; the order of events is not "
               "certain";
    if (h->method == CLOCKS_BY_MESSAGES) return "messages";
    return h->reason == CLOCKS_CONTRADICTION
               ? "wall time, as messages contradict each other; the order of events is not certain"
               : "wall time, as there are no messages in both directions; the order of events is "
                 "not certain";
}
