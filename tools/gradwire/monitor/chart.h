// A line over time in a page, as SVG without text.
#ifndef GRADWIRE_CHART_H
#define GRADWIRE_CHART_H

#include <stdio.h>

enum { CHART_POINTS_MAX = 240 };

typedef struct chart_options {
    int height;         // of the picture, which has a width of one for each point
    double least;       // what the top stands for if no value is larger
    const char *style;  // its class
    const char *text;   // what it shows, for readers that see no picture
} chart_options;

// |values| from the left to the right; NaN: a gap. At most CHART_POINTS_MAX.
void chart_write(const double *values, int count, const chart_options *o, FILE *out);

// The largest value that is a number; NaN: none is.
double chart_peak(const double *values, int count);

#endif
