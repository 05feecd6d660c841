// A convex polygon of pairs (first, second) of numbers, which lines cut.
#ifndef GRADWIRE_POLYGON_H
#define GRADWIRE_POLYGON_H

#include <stdbool.h>

typedef struct interval {
    double low, high;
} interval;

typedef struct polygon_corner {
    double first, second;
} polygon_corner;

// All zero: empty.
typedef struct polygon {
    polygon_corner *corners, *other;  // |other|: for the next cut
    int count, capacity;
    bool failed;  // without memory
} polygon;

void polygon_fini(polygon *p);

// All pairs of the two intervals. Returns false without memory.
bool polygon_set(polygon *p, interval first, interval second);

// Leaves the pairs with a * first + b * second >= c. Returns false if there are none, or without memory.
bool polygon_cut(polygon *p, double a, double b, double c);

// The numbers that occur.
interval polygon_first(const polygon *p);
interval polygon_second(const polygon *p);

#endif
