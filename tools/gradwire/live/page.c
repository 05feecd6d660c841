#include "live/page.h"

void page_cut(char *line, int width) {
    int characters = 0;
    for (char *at = line; width && *at; at++) {
        if (((unsigned char)*at & 0xc0) == 0x80) continue;
        if (characters++ == width) *at-- = '\0';
        if (characters > width) return;
    }
}

void page_write_line(char *line, const view_options *o, FILE *out) {
    page_cut(line, o->width);
    fprintf(out, "%s%s", line, o->line_end);
}
