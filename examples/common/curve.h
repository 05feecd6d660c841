// Progress of an example while it learns: a line now and then, a live line on a terminal, and at the end curves as SVG.
//
//     static int64_t epochs = 30;
//     static curve progress = { .options = { .title = "test accuracy", .x_label = "epoch", .of = &epochs, .goal = 0.97 } };
//
//     curve_open(&progress, stdout, progress.options);
//     curve_put(&progress, accuracy);                         // epoch 12 of 30  test accuracy 0.972
//     curve_plot(&progress, "accuracy.svg");
//     curve_close(&progress);
#ifndef CURVE_H
#define CURVE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { CURVE_PARTS_MAX = 4 };

typedef struct curve_options {
    const char *title;    // of the picture: the name of the values
    const char *x_label;  // the name of the count
    const int64_t *of;    // how many values each part will have; NULL: unknown
    double min, max;      // of the picture's height; both 0: as the values are
    bool percent;         // values are parts of 1, and shown in percent
    double goal;          // the value to reach, a dashed line; 0: none
    bool falls;           // the goal is not to be exceeded
} curve_options;

typedef struct curve {
    curve_options options;
    FILE *out;  // NULL: prints nothing
    bool live;  // |out| is a terminal
    double shown_s, printed_s;
    double *values;  // of all parts
    int count, capacity;

    // The named parts, one line of the picture each.
    struct {
        const char *name;
        int start;  // its first value
    } parts[CURVE_PARTS_MAX];
    int part_count;
} curve;

void curve_open(curve *c, FILE *out, curve_options options);
void curve_close(curve *c);

// Starts the part |name|: later values belong to it. |name| must live as long as the curve.
void curve_begin(curve *c, const char *name);

// Adds one value. A terminal shows |line| until the next value.
void curve_add(curve *c, double value, const char *line);

// Adds one value, with a line built from the options. The line stays for each tenth of the expected values, and every
// few seconds.
void curve_put(curve *c, double value);

// Prints a permanent line.
void curve_print(curve *c, const char *line);

// Whether the last value is as good as the goal, if there is one.
bool curve_has_reached(const curve *c);

// Draws the values. False, with errno, if the file could not be written.
bool curve_plot(const curve *c, const char *path);

double now_s(void);  // seconds, monotonic

#endif
