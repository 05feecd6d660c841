#include "monitor/chart.h"

#include <math.h>
#include <stdbool.h>

#include "monitor/html.h"

double chart_peak(const double *values, int count) {
    double peak = NAN;
    for (int i = 0; i < count; i++) peak = fmax(peak, values[i]);
    return peak;
}

// The line stays half its width inside the picture.
static double height_of(double value, double top, int height) {
    return height - 1.5 - value / top * (height - 3);
}

// Points |first| to |end| - 1 are numbers. One alone is a short line.
static void write_line(const double *values, int first, int end, double top, int height,
                       FILE *out) {
    for (int i = first; i < end; i++)
        fprintf(out, "%s%d %.1f", i == first ? "M" : "L", i, height_of(values[i], top, height));
    if (end == first + 1) fprintf(out, "h.5");
}

static void write_runs(const double *values, int count, double top, int height, bool is_area,
                       FILE *out) {
    for (int first = 0; first < count; first++) {
        int end = first;
        while (end < count && !isnan(values[end])) end++;
        if (end == first) continue;
        write_line(values, first, end, top, height, out);
        if (is_area) fprintf(out, "V%dH%dZ", height, first);
        first = end;
    }
}

void chart_write(const double *values, int count, const chart_options *o, FILE *out) {
    double top = fmax(chart_peak(values, count), o->least);
    if (!(top > 0)) top = 1;
    fprintf(out,
            "<svg class=\"%s\" viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\" role=\"img\"",
            o->style, count - 1, o->height);
    fputs(" aria-label=\"", out);
    html_text(o->text, out);
    fputs("\"><path class=\"area\" d=\"", out);
    write_runs(values, count, top, o->height, true, out);
    fputs("\"/><path class=\"line\" d=\"", out);
    write_runs(values, count, top, o->height, false, out);
    fputs("\"/></svg>", out);
}
