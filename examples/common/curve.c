#include "curve.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { COLUMNS = 32, LEFT = 70, RIGHT = 680, TOP = 40, BOTTOM = 340, GRID_LINES = 5 };

double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void curve_open(curve *c, FILE *out, curve_options options) {
    *c = (curve){ .out = out, .live = isatty(fileno(out)), .options = options };
}

void curve_close(curve *c) {
    if (c->live) fputs("\r\033[K", c->out);
    free(c->values);
    *c = (curve){ 0 };
}

// Without memory the curve ends early; the training does not.
static void remember(curve *c, double value) {
    if (c->count == c->capacity) {
        int capacity = c->capacity ? c->capacity * 2 : 256;
        double *more = realloc(c->values, (size_t)capacity * sizeof *more);
        if (!more) return;
        c->values = more;
        c->capacity = capacity;
    }
    c->values[c->count++] = value;
}

typedef struct range {
    double low, high;
} range;

static range range_of(const curve *c) {
    range r = { c->options.min, c->options.max };
    if (r.low == 0 && r.high == 0) {
        for (int i = 0; i < c->count; i++) {
            if (i == 0 || c->values[i] < r.low) r.low = c->values[i];
            if (i == 0 || c->values[i] > r.high) r.high = c->values[i];
        }
    }
    if (!(r.high > r.low)) r.high = r.low + 1;
    return r;
}

// Where |value| lies in |r|, 0 to 1.
static double height_of(range r, double value) {
    double height = (value - r.low) / (r.high - r.low);
    return height > 1 ? 1 : height > 0 ? height : 0;  // 0 also if it is no number
}

// The values so far, squeezed into a few columns of bars.
static void show_bars(const curve *c) {
    static const char *const bars[] = { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
    range r = range_of(c);
    int columns = c->count < COLUMNS ? c->count : COLUMNS;
    for (int i = 0; i < columns; i++) {
        int last = (int)((long long)(i + 1) * c->count / columns) - 1;
        int bar = (int)(height_of(r, c->values[last]) * 8);
        fputs(bars[bar > 7 ? 7 : bar], c->out);
    }
}

void curve_add(curve *c, double value, const char *line) {
    remember(c, value);
    double now = now_s();
    if (!c->live || now - c->shown_s < 0.1) return;
    c->shown_s = now;
    fprintf(c->out, "\r\033[K%s  ", line);
    show_bars(c);
    fflush(c->out);
}

void curve_say(curve *c, const char *line) {
    fprintf(c->out, "%s%s\n", c->live ? "\r\033[K" : "", line);
    fflush(c->out);
}

static double y_of(range r, double value) {
    return BOTTOM - (BOTTOM - TOP) * height_of(r, value);
}

static void draw_grid(FILE *f, range r) {
    for (int i = 0; i <= GRID_LINES; i++) {
        double value = r.low + (r.high - r.low) * i / GRID_LINES, y = y_of(r, value);
        fprintf(f, "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>", LEFT,
                RIGHT, y, y);
        fprintf(f, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.3g</text>\n", LEFT - 8, y + 4,
                value);
    }
}

bool curve_plot(const curve *c, const char *path) {
    FILE *f = fopen(path, "w");
    if (!f) return false;
    range r = range_of(c);
    fputs("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 720 400\" "
          "font-family=\"sans-serif\" font-size=\"12\">\n"
          "<rect width=\"720\" height=\"400\" fill=\"white\"/>\n",
          f);
    draw_grid(f, r);
    if (c->options.goal != 0)
        fprintf(f,
                "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#2a2\" "
                "stroke-dasharray=\"6 4\"/>\n",
                LEFT, RIGHT, y_of(r, c->options.goal), y_of(r, c->options.goal));
    fputs("<polyline fill=\"none\" stroke=\"#136\" stroke-width=\"2\" points=\"", f);
    for (int i = 0; i < c->count; i++)
        fprintf(f, "%.1f,%.1f ",
                LEFT + (RIGHT - LEFT) * (double)i / (c->count > 1 ? c->count - 1 : 1),
                y_of(r, c->values[i]));
    fprintf(f,
            "\"/>\n<text x=\"%d\" y=\"362\">1</text><text x=\"%d\" y=\"362\" "
            "text-anchor=\"end\">%d</text>\n",
            LEFT, RIGHT, c->count);
    fprintf(f, "<text x=\"370\" y=\"382\" text-anchor=\"middle\">%s</text>\n", c->options.x_label);
    fprintf(f, "<text x=\"%d\" y=\"24\">%s%s</text>\n</svg>\n", LEFT, c->options.title,
            c->options.goal != 0 ? ", goal (dashed)" : "");
    bool failed = ferror(f) != 0;
    return fclose(f) == 0 && !failed;
}
