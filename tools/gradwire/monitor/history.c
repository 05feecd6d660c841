#include "monitor/history.h"

#include <math.h>

void history_init(history *h) {
    *h = (history){ 0 };
    for (int s = 0; s < HISTORY_SERIES; s++) {
        for (int i = 0; i < HISTORY_SECONDS; i++) h->seconds[s][i] = NAN;
        for (int i = 0; i < HISTORY_MINUTES; i++) h->minutes[s][i] = NAN;
    }
}

static double mean_of_minute(const history *h, int s) {
    return h->count ? h->sums[s] / h->count : NAN;
}

static void end_minute(history *h) {
    int64_t minute = h->second / 60;
    for (int s = 0; s < HISTORY_SERIES; s++) {
        h->minutes[s][minute % HISTORY_MINUTES] = (float)mean_of_minute(h, s);
        h->sums[s] = 0;
    }
    h->count = 0;
}

// Between the last second and |second| nothing was measured.
static void skip(history *h, int64_t second) {
    int64_t first = h->second + 1, first_minute = h->second / 60 + 1;
    if (second - first > HISTORY_SECONDS) first = second - HISTORY_SECONDS;
    if (second / 60 - first_minute > HISTORY_MINUTES) first_minute = second / 60 - HISTORY_MINUTES;
    for (int s = 0; s < HISTORY_SERIES; s++) {
        for (int64_t i = first; i < second; i++) h->seconds[s][i % HISTORY_SECONDS] = NAN;
        for (int64_t i = first_minute; i < second / 60; i++)
            h->minutes[s][i % HISTORY_MINUTES] = NAN;
    }
}

void history_add(history *h, int64_t second, const double values[HISTORY_SERIES]) {
    if (second <= h->second) return;
    if (h->second && second / 60 != h->second / 60) end_minute(h);
    if (h->second) skip(h, second);
    if (!h->first) h->first = second;
    h->second = second;
    h->count++;
    for (int s = 0; s < HISTORY_SERIES; s++) {
        h->seconds[s][second % HISTORY_SECONDS] = (float)values[s];
        h->sums[s] += values[s];
    }
}

int history_steps(history_span span) {
    return span == HISTORY_BY_SECOND ? HISTORY_SECONDS : HISTORY_MINUTES;
}

double history_value(const history *h, history_span span, history_series series, int64_t now,
                     int age) {
    bool by_second = span == HISTORY_BY_SECOND;
    int64_t at = (by_second ? now : now / 60) - age;
    int64_t newest = by_second ? h->second : h->second / 60;
    int steps = history_steps(span);
    if (!h->second || age < 0 || at > newest || at <= newest - steps || at < 0) return NAN;
    if (by_second) return h->seconds[series][at % steps];
    return at == newest ? mean_of_minute(h, series) : h->minutes[series][at % steps];
}

int history_window(const history *h, history_span span, int64_t now, int least) {
    int steps = history_steps(span);
    int64_t known = span == HISTORY_BY_SECOND ? now - h->first + 1 : now / 60 - h->first / 60 + 1;
    if (!h->first || known < least) return least < steps ? least : steps;
    return known < steps ? (int)known : steps;
}

void history_means(const history *h, history_span span, history_series series, int64_t now,
                   int window, int count, double *out) {
    for (int i = 0; i < count; i++) {
        int from = window * i / count, to = window * (i + 1) / count, known = 0;
        double sum = 0;
        for (int k = from; k < to; k++) {
            double x = history_value(h, span, series, now, window - 1 - k);
            if (isnan(x)) continue;
            sum += x;
            known++;
        }
        out[i] = known ? sum / known : NAN;
    }
}
