#include "timeline/offsets.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "timeline/polygon.h"

static const double FAR = 1e12;  // an offset from the base that no clock has

void offsets_add(offsets_points *p, int64_t x, int64_t y, bool is_upper) {
    static const int64_t BEYOND = INT64_C(1) << 60;  // any clock; differences of less have 64 bits
    size_t *count = &p->counts[is_upper];
    if (x < 0 || x > BEYOND || y < -BEYOND || y > BEYOND) return;
    if ((*count & (*count - 1)) == 0) {
        size_t capacity = *count ? 2 * *count : 1;
        offsets_point *larger = realloc(p->points[is_upper], capacity * sizeof *larger);
        if (!larger) {
            p->failed = true;
            return;
        }
        p->points[is_upper] = larger;
    }
    p->points[is_upper][(*count)++] = (offsets_point){ x, y };
}

void offsets_points_fini(offsets_points *p) {
    for (int i = 0; i < 2; i++) free(p->points[i]);
    *p = (offsets_points){ 0 };
}

void offsets_fini(offsets *o) {
    free(o->values);
    *o = (offsets){ 0 };
}

// ---- Bounds that count --------------------------------------------------------------------------

static int by_x(const void *a, const void *b) {
    const offsets_point *p = a, *q = b;
    if (p->x != q->x) return p->x < q->x ? -1 : 1;
    return (p->y > q->y) - (p->y < q->y);
}

// Whether |b| is on the allowed side of the line from |a| to |c|, so that it bounds no line that they do not bound.
static bool is_needless(const offsets_point *a, const offsets_point *b, const offsets_point *c,
                        bool is_upper) {
    double straight = (double)(b->y - a->y) * (double)(c->x - a->x) -
                      (double)(c->y - a->y) * (double)(b->x - a->x);
    return is_upper ? straight >= 0 : straight <= 0;
}

// The corners of the hull of |count| sorted points. Returns how many there are.
static size_t find_hull(const offsets_point *points, size_t count, bool is_upper,
                        offsets_point *out) {
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        while (kept > 1 && is_needless(&out[kept - 2], &out[kept - 1], &points[i], is_upper))
            kept--;
        out[kept++] = points[i];
    }
    return kept;
}

// ---- Windows ------------------------------------------------------------------------------------

// While the values are sought. Bounds of a window: the corners of the hulls of its points.
typedef struct search {
    offsets *out;
    struct {
        offsets_point *points;
        size_t count;
    } * bounds[2];              // by window
    offsets_point *corners[2];  // of all windows
    interval *forward;          // by end of a window: what bounds before it allow
    interval *all;              // and what all bounds allow
    polygon polygon;
    bool failed;
} search;

static int window_of(const offsets *o, int64_t x) {
    int k = (int)((double)(x - o->from) / o->width);
    return k < 0 ? 0 : k >= o->windows ? o->windows - 1 : k;
}

static void divide(search *s, const offsets_points *p, int is_upper) {
    for (size_t i = 0; i < p->counts[is_upper];) {
        const offsets_point *first = &p->points[is_upper][i];
        offsets_point *corners = &s->corners[is_upper][i];
        int k = window_of(s->out, first->x);
        size_t count = 0;
        while (i < p->counts[is_upper] && window_of(s->out, p->points[is_upper][i].x) == k)
            i++, count++;
        s->bounds[is_upper][k].points = corners;
        s->bounds[is_upper][k].count = find_hull(first, count, is_upper, corners);
    }
}

// Pairs of values at the ends of window |k| that its bounds allow, with |left| and |right| at the ends.
static bool find_window(search *s, int k, interval left, interval right) {
    const offsets *o = s->out;
    double drift = OFFSETS_DRIFT * o->width;
    bool ok = polygon_set(&s->polygon, left, right) && polygon_cut(&s->polygon, -1, 1, -drift) &&
              polygon_cut(&s->polygon, 1, -1, -drift);
    for (int is_upper = 0; ok && is_upper < 2; is_upper++)
        for (size_t i = 0; ok && i < s->bounds[is_upper][k].count; i++) {
            const offsets_point *b = &s->bounds[is_upper][k].points[i];
            double part = ((double)(b->x - o->from) - k * o->width) / o->width;
            part = part < 0   ? 0
                   : part > 1 ? 1
                              : part;  // beyond the ends the offset is that of the end
            double y = (double)(b->y - o->base), sign = is_upper ? -1 : 1;
            ok = polygon_cut(&s->polygon, sign * (1 - part), sign * part, sign * y);
        }
    s->failed |= s->polygon.failed;
    return ok;
}

// What is possible at the end of each window: forward with the bounds before it, then back with those behind it.
static bool find_intervals(search *s) {
    const interval any = { -FAR, FAR };
    int n = s->out->windows;
    interval *all = s->all;
    s->forward[0] = any;
    for (int k = 0; k < n; k++) {
        if (!find_window(s, k, s->forward[k], any)) return false;
        s->forward[k + 1] = polygon_second(&s->polygon);
    }
    all[n] = s->forward[n];
    for (int k = n - 1; k >= 0; k--) {
        if (!find_window(s, k, s->forward[k], all[k + 1])) return false;
        all[k] = polygon_first(&s->polygon);
    }
    return true;
}

static double middle(interval x) {
    return (x.low + x.high) / 2;
}

static double clamp(double x, interval i) {
    return x < i.low ? i.low : x > i.high ? i.high : x;
}

// The middle, as far as the value at the end before allows it.
static void choose_values(search *s) {
    offsets *o = s->out;
    double most = 0;
    for (int k = 0; k <= o->windows; k++) {
        interval allowed = s->all[k];
        double value = middle(allowed);
        if (k) {
            double left = o->values[k - 1];
            if (find_window(s, k - 1, (interval){ left, left }, allowed))
                value = clamp(value, polygon_second(&s->polygon));
        }
        o->values[k] = value;
        most = fmax(most, fmax(allowed.high - value, value - allowed.low));
    }
    o->uncertainty = (int64_t)ceil(most) + 1;  // times are whole nanoseconds
}

// ---- All ----------------------------------------------------------------------------------------

// Where the bounds are, so that the values are small numbers.
static void find_range(const offsets_points *p, offsets *out) {
    int64_t until = INT64_MIN, low = INT64_MIN, high = INT64_MAX;
    out->from = INT64_MAX;
    for (int is_upper = 0; is_upper < 2; is_upper++)
        for (size_t i = 0; i < p->counts[is_upper]; i++) {
            const offsets_point *b = &p->points[is_upper][i];
            if (b->x < out->from) out->from = b->x;
            if (b->x > until) until = b->x;
            if (!is_upper && b->y > low) low = b->y;
            if (is_upper && b->y < high) high = b->y;
        }
    int64_t length = until - out->from;
    out->base = low / 2 + high / 2;
    out->windows = (int)((length + OFFSETS_WINDOW_NS - 1) / OFFSETS_WINDOW_NS);
    if (out->windows < 1) out->windows = 1;
    if (out->windows > OFFSETS_WINDOWS_MAX) out->windows = OFFSETS_WINDOWS_MAX;
    out->width = length ? (double)length / out->windows : 1;
}

static bool open_search(search *s, const offsets_points *p) {
    size_t ends = (size_t)s->out->windows + 1;
    s->out->values = calloc(ends, sizeof *s->out->values);
    s->all = calloc(ends, sizeof *s->all);
    s->forward = calloc(ends, sizeof *s->forward);
    bool ok = s->out->values && s->all && s->forward;
    for (int i = 0; i < 2; i++) {
        s->bounds[i] = calloc(ends, sizeof *s->bounds[i]);
        s->corners[i] = malloc((p->counts[i] + 1) * sizeof *s->corners[i]);
        ok &= s->bounds[i] && s->corners[i];
    }
    return ok;
}

static void close_search(search *s) {
    free(s->forward);
    free(s->all);
    for (int i = 0; i < 2; i++) {
        free(s->bounds[i]);
        free(s->corners[i]);
    }
    polygon_fini(&s->polygon);
}

offsets_result offsets_find(offsets_points *p, offsets *out) {
    *out = (offsets){ 0 };
    if (p->failed) return OFFSETS_WITHOUT_MEMORY;
    if (!p->counts[0] || !p->counts[1]) return OFFSETS_ONE_SIDED;
    search s = { .out = out };
    find_range(p, out);
    bool has_memory = open_search(&s, p);
    for (int i = 0; has_memory && i < 2; i++) {
        qsort(p->points[i], p->counts[i], sizeof *p->points[i], by_x);
        divide(&s, p, i);
    }
    bool is_found = has_memory && find_intervals(&s);
    if (is_found) choose_values(&s);
    has_memory &= !s.failed;
    close_search(&s);
    if (!is_found) offsets_fini(out);
    return is_found ? OFFSETS_FOUND : has_memory ? OFFSETS_CONTRADICTORY : OFFSETS_WITHOUT_MEMORY;
}

// ---- Times --------------------------------------------------------------------------------------

// Rounding down keeps the order to whole numbers; values are exact to much less than this.
static int64_t round_down(double x) {
    return (int64_t)floor(x + 0.01);
}

static double value_at(const offsets *o, double x) {
    double at = x / o->width;
    if (!(at > 0)) return o->values[0];
    if (at >= o->windows) return o->values[o->windows];
    int k = (int)at;
    return o->values[k] + (at - k) * (o->values[k + 1] - o->values[k]);
}

static int64_t add(int64_t a, int64_t b) {
    int64_t out;
    return __builtin_add_overflow(a, b, &out) ? (b > 0 ? INT64_MAX : INT64_MIN) : out;
}

int64_t offsets_map(const offsets *o, int64_t x) {
    return add(add(x, o->base), round_down(value_at(o, (double)add(x, -o->from))));
}

// The end of a window, on the other clock, without |from| and |base|.
static double end_of(const offsets *o, int k) {
    return k * o->width + o->values[k];
}

int64_t offsets_unmap(const offsets *o, int64_t at) {
    double y = (double)add(at, -add(o->from, o->base)), value;
    int low = 0, high = o->windows;
    if (y <= end_of(o, 0)) {
        value = o->values[0];
    } else if (y >= end_of(o, o->windows)) {
        value = o->values[o->windows];
    } else {
        while (high - low > 1) {
            int k = (low + high) / 2;
            if (end_of(o, k) <= y)
                low = k;
            else
                high = k;
        }
        double part = (y - end_of(o, low)) / (end_of(o, low + 1) - end_of(o, low));
        value = o->values[low] + part * (o->values[low + 1] - o->values[low]);
    }
    return add(add(at, -o->base), round_down(-value));
}
