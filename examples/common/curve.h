// What an example shows while it learns: a line now and then, a live line on a terminal, and in the
// end curves as SVG.
//
//     curve c;
//     curve_open(&c, stdout, (curve_options){ .title = "test accuracy", .x_label = "round", .max = 1, .goal = 0.97 });
//     curve_add(&c, accuracy, "round 12  96.1 %");
//     curve_plot(&c, "accuracy.svg");
//     curve_close(&c);
#ifndef CURVE_H
#define CURVE_H

#include <stdbool.h>
#include <stdio.h>

typedef struct curve_options {
    const char *title;    // of the picture
    const char *x_label;  // what is counted
    double min, max;      // of the picture's height; both 0: as the values are
    double goal;          // a dashed line; 0: none
} curve_options;

typedef struct curve {
    FILE *out;
    bool live;  // |out| is a terminal
    curve_options options;
    double shown_s;
    double *values;
    int count, capacity;
} curve;

void curve_open(curve *c, FILE *out, curve_options options);
void curve_close(curve *c);

// One more value. |line| says so in words: it is shown on a terminal until the next one.
void curve_add(curve *c, double value, const char *line);

// Prints |line| to stay.
void curve_say(curve *c, const char *line);

// Draws the values. False, with errno, if the file could not be written.
bool curve_plot(const curve *c, const char *path);

double now_s(void);  // seconds, monotonic

#endif
