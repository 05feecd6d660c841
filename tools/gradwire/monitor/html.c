#include "monitor/html.h"

#include <math.h>
#include <stdbool.h>

void html_text(const char *text, FILE *out) {
    for (; *text; text++) {
        switch (*text) {
        case '&': fputs("&amp;", out); break;
        case '<': fputs("&lt;", out); break;
        case '>': fputs("&gt;", out); break;
        case '"': fputs("&quot;", out); break;
        case '\'': fputs("&#39;", out); break;
        default: fputc(*text, out);
        }
    }
}

html_number html_count(double x) {
    static const char *const units[] = { "", "k", "M", "G", "T" };
    html_number out = { "-" };
    int unit = 0;
    if (!(x >= 0)) return out;
    if (x < 0.05) x = 0;
    for (; x >= 999.5 && unit < 4; unit++) x /= 1000;
    bool is_round = x >= 9.95 || x == floor(x);
    snprintf(out.text, sizeof out.text, is_round ? "%.0f%s" : "%.1f%s", x, units[unit]);
    return out;
}

html_number html_age(int64_t ns) {
    html_number out;
    long long seconds = ns > 0 ? (long long)(ns / 1000000000) : 0;
    if (seconds < 120)
        snprintf(out.text, sizeof out.text, "%lld s", seconds);
    else if (seconds < 120 * 60)
        snprintf(out.text, sizeof out.text, "%lld min", seconds / 60);
    else if (seconds < 48 * 3600)
        snprintf(out.text, sizeof out.text, "%lld h", seconds / 3600);
    else
        snprintf(out.text, sizeof out.text, "%lld days", seconds / 86400);
    return out;
}
