#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

enum { LINE_MAX_BYTES = 1024 };

void (*log_hook)(const char *line);

void log_line(const char *format, ...) {
    char line[LINE_MAX_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    // Texts of peers may be among the arguments: a terminal must not obey them.
    for (char *c = line; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127) *c = '?';
    if (log_hook) {
        log_hook(line);
    } else {
        fprintf(stderr, "gradwire: %s\n", line);
    }
}
