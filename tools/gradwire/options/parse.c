#include "options/parse.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char name_characters[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";

const char *parse_command = "run";

bool parse_complain(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "gradwire %s: ", parse_command);
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    return false;
}

bool is_plain_name(const char *text) {
    return strspn(text, name_characters) == strlen(text);
}

bool parse_int(const char *option, const char *text, int min, int max, int *out) {
    char *end;
    errno = 0;
    long n = strtol(text, &end, 10);
    if (end == text || *end || errno || n < min || n > max)
        return parse_complain("%s takes a number from %d to %d, not \"%s\"", option, min, max,
                              text);
    *out = (int)n;
    return true;
}

bool parse_seconds(const char *option, const char *text, int64_t *out_ms) {
    enum { SECONDS_MAX = 86400 };
    char *end;
    double seconds = strtod(text, &end);
    if (end == text || *end || !(seconds >= 0 && seconds <= SECONDS_MAX))
        return parse_complain("%s takes seconds from 0 to %d, not \"%s\"", option, SECONDS_MAX,
                              text);
    *out_ms = (int64_t)(seconds * 1000 + 0.999);
    return true;
}
