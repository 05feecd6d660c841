#include "timeline/polygon.h"

#include <math.h>
#include <stdlib.h>

void polygon_fini(polygon *p) {
    free(p->corners);
    free(p->other);
    *p = (polygon){ 0 };
}

// A cut makes at most one corner more.
static bool reserve(polygon *p, int count) {
    if (count <= p->capacity) return true;
    int capacity = 2 * count;
    polygon_corner *corners = realloc(p->corners, (size_t)capacity * sizeof *corners);
    if (corners) p->corners = corners;
    polygon_corner *other = realloc(p->other, (size_t)capacity * sizeof *other);
    if (other) p->other = other;
    if (corners && other)
        p->capacity = capacity;
    else
        p->failed = true;
    return corners && other;
}

bool polygon_set(polygon *p, interval first, interval second) {
    if (!reserve(p, 8)) return false;
    p->count = 4;
    p->corners[0] = (polygon_corner){ first.low, second.low };
    p->corners[1] = (polygon_corner){ first.high, second.low };
    p->corners[2] = (polygon_corner){ first.high, second.high };
    p->corners[3] = (polygon_corner){ first.low, second.high };
    return true;
}

static polygon_corner between(polygon_corner x, polygon_corner y, double part) {
    return (polygon_corner){ x.first + part * (y.first - x.first),
                             x.second + part * (y.second - x.second) };
}

static int append(polygon_corner *corners, int count, polygon_corner x) {
    if (count && corners[count - 1].first == x.first && corners[count - 1].second == x.second)
        return count;
    corners[count] = x;
    return count + 1;
}

bool polygon_cut(polygon *p, double a, double b, double c) {
    static const double TOLERANCE = 1e-3;  // of nanoseconds
    int count = 0;
    if (!reserve(p, 2 * p->count + 2)) return false;
    for (int i = 0; i < p->count; i++) {
        polygon_corner x = p->corners[i], y = p->corners[(i + 1) % p->count];
        double inside = a * x.first + b * x.second - c, next = a * y.first + b * y.second - c;
        bool is_inside = inside >= -TOLERANCE, next_is = next >= -TOLERANCE;
        if (is_inside) count = append(p->other, count, x);
        if (is_inside != next_is) {
            double part = inside / (inside - next);
            count = append(p->other, count, between(x, y, part < 0 ? 0 : part > 1 ? 1 : part));
        }
    }
    polygon_corner *cut = p->other;
    p->other = p->corners;
    p->corners = cut;
    p->count = count;
    return count > 0;
}

interval polygon_first(const polygon *p) {
    interval out = { INFINITY, -INFINITY };
    for (int i = 0; i < p->count; i++) {
        out.low = fmin(out.low, p->corners[i].first);
        out.high = fmax(out.high, p->corners[i].first);
    }
    return out;
}

interval polygon_second(const polygon *p) {
    interval out = { INFINITY, -INFINITY };
    for (int i = 0; i < p->count; i++) {
        out.low = fmin(out.low, p->corners[i].second);
        out.high = fmax(out.high, p->corners[i].second);
    }
    return out;
}
