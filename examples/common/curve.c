#include "curve.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum {
    COLUMNS = 32,
    LEFT = 70,
    RIGHT = 680,
    TOP = 40,
    BOTTOM = 340,
    GRID_LINES = 5,
    LINE_MAX = 200,
    SILENT_S = 5
};

double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void curve_open(curve *c, FILE *out, curve_options options) {
    *c = (curve){
        .options = options, .out = out, .live = out && isatty(fileno(out)), .printed_s = now_s()
    };
}

void curve_close(curve *c) {
    if (c->live) fputs("\r\033[K", c->out);
    free(c->values);
    *c = (curve){ 0 };
}

void curve_begin(curve *c, const char *name) {
    if (c->part_count == CURVE_PARTS_MAX) return;
    c->parts[c->part_count].name = name;
    c->parts[c->part_count++].start = c->count;
}

// If allocation fails, the curve ends here; the training continues.
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

// ---- Text ---------------------------------------------------------------------------------------

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

// Position of |value| in |r|, 0 to 1.
static double height_of(range r, double value) {
    double height = (value - r.low) / (r.high - r.low);
    return height > 1 ? 1 : height > 0 ? height : 0;  // 0 also for NaN
}

// The first value of the current part.
static int part_start(const curve *c) {
    return c->part_count ? c->parts[c->part_count - 1].start : 0;
}

// Shows the values of this part so far as a few columns of bars.
static void show_bars(const curve *c) {
    static const char *const bars[] = { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
    range r = range_of(c);
    int start = part_start(c), count = c->count - start;
    int columns = count < COLUMNS ? count : COLUMNS;
    for (int i = 0; i < columns; i++) {
        int last = (int)((long long)(i + 1) * count / columns) - 1;
        int bar = (int)(height_of(r, c->values[start + last]) * 8);
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

void curve_print(curve *c, const char *line) {
    if (!c->out) return;
    c->printed_s = now_s();
    fprintf(c->out, "%s%s\n", c->live ? "\r\033[K" : "", line);
    fflush(c->out);
}

// "97.22 %", "0.1056", "800.8"
static void format_value(const curve *c, double value, char *out, size_t size) {
    if (c->options.percent)
        snprintf(out, size, "%.2f %%", value * 100);
    else
        snprintf(out, size, value > -100 && value < 100 ? "%.4f" : "%.1f", value);
}

void curve_put(curve *c, double value) {
    const curve_options *o = &c->options;
    const char *part = c->part_count ? c->parts[c->part_count - 1].name : "";
    char of[32] = "", words[32], line[LINE_MAX];
    int number = c->count - part_start(c) + 1;
    int64_t expected = o->of ? *o->of : 0, every = expected > 10 ? expected / 10 : 1;
    if (expected) snprintf(of, sizeof of, " of %lld", (long long)expected);
    format_value(c, value, words, sizeof words);
    snprintf(line, sizeof line, "%s%s%s %d%s  %s %s", part, *part ? "  " : "", o->x_label, number,
             of, o->title, words);
    curve_add(c, value, line);
    if (number % every == 0 || number == expected || now_s() - c->printed_s > SILENT_S)
        curve_print(c, line);
}

bool curve_has_reached(const curve *c) {
    if (c->options.goal == 0) return true;
    if (!c->count) return false;
    double last = c->values[c->count - 1];
    return c->options.falls ? last <= c->options.goal : last >= c->options.goal;
}

// ---- The picture --------------------------------------------------------------------------------

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

// Values |start| to |end|, from left to right, as wide as |widest| values are.
static void draw_part(FILE *f, const curve *c, range r, int start, int end, int widest,
                      const char *colour) {
    fprintf(f, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"", colour);
    for (int i = start; i < end; i++)
        fprintf(f, "%.1f,%.1f ",
                LEFT + (RIGHT - LEFT) * (double)(i - start) / (widest > 1 ? widest - 1 : 1),
                y_of(r, c->values[i]));
    fputs("\"/>\n", f);
}

// Returns how many values the longest part has.
static int draw_parts(FILE *f, const curve *c, range r) {
    static const char *const colours[CURVE_PARTS_MAX] = { "#136", "#c40", "#293", "#818" };
    int parts = c->part_count ? c->part_count : 1, ends[CURVE_PARTS_MAX], widest = 0;
    for (int i = 0; i < parts; i++) {
        int start = c->part_count ? c->parts[i].start : 0;
        ends[i] = i + 1 < parts ? c->parts[i + 1].start : c->count;
        if (ends[i] - start > widest) widest = ends[i] - start;
    }
    for (int i = 0; i < parts; i++) {
        draw_part(f, c, r, c->part_count ? c->parts[i].start : 0, ends[i], widest, colours[i]);
        if (c->part_count)
            fprintf(f, "<text x=\"%d\" y=\"24\" text-anchor=\"end\" fill=\"%s\">%s</text>\n",
                    RIGHT - 100 * (parts - 1 - i), colours[i], c->parts[i].name);
    }
    return widest;
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
    fprintf(f,
            "<text x=\"%d\" y=\"362\">1</text><text x=\"%d\" y=\"362\" "
            "text-anchor=\"end\">%d</text>\n",
            LEFT, RIGHT, draw_parts(f, c, r));
    fprintf(f, "<text x=\"370\" y=\"382\" text-anchor=\"middle\">%s</text>\n", c->options.x_label);
    fprintf(f, "<text x=\"%d\" y=\"24\">%s%s</text>\n</svg>\n", LEFT, c->options.title,
            c->options.goal != 0 ? ", goal (dashed)" : "");
    bool failed = ferror(f) != 0;
    return fclose(f) == 0 && !failed;
}
