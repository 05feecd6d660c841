#include "progress.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { CURVE_COLUMNS = 32 };

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void progress_open(progress *p, FILE *out, double threshold) {
    *p = (progress){
        .out = out, .live = isatty(fileno(out)), .threshold = threshold, .started_s = now_s()
    };
    fprintf(out, "This will run until reward threshold of %.1f is reached. Ctrl+C to exit.\n",
            threshold);
}

void progress_close(progress *p) {
    if (p->live) fputs("\r\033[K", p->out);
    free(p->last);
    free(p->running);
}

// If allocation fails, the curve ends here; the training continues.
static void remember(progress *p, double last, double running) {
    if (p->count == p->capacity) {
        int capacity = p->capacity ? p->capacity * 2 : 256;
        double *more_last = realloc(p->last, (size_t)capacity * sizeof(double));
        if (more_last) p->last = more_last;
        double *more_running = realloc(p->running, (size_t)capacity * sizeof(double));
        if (more_running) p->running = more_running;
        if (!more_last || !more_running) return;
        p->capacity = capacity;
    }
    p->last[p->count] = last;
    p->running[p->count++] = running;
}

// Shows the running reward so far as a few columns of bars.
static void show_curve(const progress *p) {
    static const char *const bars[] = { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
    int columns = p->count < CURVE_COLUMNS ? p->count : CURVE_COLUMNS;
    for (int i = 0; i < columns; i++) {
        double height = p->running[(long long)(i + 1) * p->count / columns - 1] / p->threshold;
        int bar = (int)(height * 8);
        fputs(bars[bar < 0 ? 0 : bar > 7 ? 7 : bar], p->out);
    }
}

static void show_live(progress *p, double running) {
    double elapsed_s = p->shown_s - p->started_s;
    fprintf(p->out, "\r\033[Kepisode %d  reward %.1f  %.0f steps/s  ", p->count, running,
            elapsed_s > 0 ? (double)p->steps / elapsed_s : 0);
    show_curve(p);
}

void progress_episode(progress *p, int steps, double last_reward, double running_reward,
                      bool print_line) {
    p->steps += steps;
    remember(p, last_reward, running_reward);
    double now = now_s();
    if (p->live && now - p->shown_s > 0.1) {
        p->shown_s = now;
        show_live(p, running_reward);
    }
    if (print_line) {
        if (p->live) fputs("\r\033[K", p->out);
        fprintf(p->out, "Episode %d\tLast reward: %.2f\tAverage reward: %.2f\n", p->count,
                last_reward, running_reward);
    }
    fflush(p->out);
}

static void draw_line(FILE *f, const double *values, int count, double height_max,
                      const char *style) {
    fprintf(f, "<polyline fill=\"none\" %s points=\"", style);
    for (int i = 0; i < count; i++)
        fprintf(f, "%.1f,%.1f ", 60 + 620.0 * i / (count > 1 ? count - 1 : 1),
                340 - 300 * values[i] / height_max);
    fputs("\"/>\n", f);
}

bool progress_plot(const progress *p, const char *path) {
    FILE *f = fopen(path, "w");
    if (!f) return false;
    const double height_max = 500;
    fputs("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 720 400\" "
          "font-family=\"sans-serif\" "
          "font-size=\"12\">\n<rect width=\"720\" height=\"400\" fill=\"white\"/>\n",
          f);
    for (int reward = 0; reward <= 500; reward += 100) {
        double y = 340 - 300 * reward / height_max;
        fprintf(f, "<line x1=\"60\" x2=\"680\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>", y, y);
        fprintf(f, "<text x=\"52\" y=\"%.1f\" text-anchor=\"end\">%d</text>\n", y + 4, reward);
    }
    double y = 340 - 300 * p->threshold / height_max;
    fprintf(f,
            "<line x1=\"60\" x2=\"680\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#2a2\" "
            "stroke-dasharray=\"6 4\"/>\n",
            y, y);
    draw_line(f, p->last, p->count, height_max, "stroke=\"#9bd\" stroke-width=\"1\"");
    draw_line(f, p->running, p->count, height_max, "stroke=\"#136\" stroke-width=\"2.5\"");
    fprintf(f,
            "<text x=\"60\" y=\"362\">1</text><text x=\"680\" y=\"362\" "
            "text-anchor=\"end\">%d</text>\n",
            p->count);
    fputs("<text x=\"370\" y=\"382\" text-anchor=\"middle\">episode</text>\n"
          "<text x=\"60\" y=\"24\">reward of each episode (light), running reward (dark), "
          "threshold (dashed)</text>\n"
          "</svg>\n",
          f);
    bool failed = ferror(f) != 0;
    return fclose(f) == 0 && !failed;
}
