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
