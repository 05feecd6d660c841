// A trace that gradwire trace has written, as sorted lines that are the same for both formats.
//
//     slice|worker0, host a, attempt 0/main|tokenize|span|100|250|end=missing: after the last record;
//     instant|PROCESS/TRACK|NAME|CATEGORY|AT|ARGUMENTS
//     counter|PROCESS/NAME|AT|VALUE
//     source|PROCESS/TRACK|FLOW|AT        and  target|...
#ifndef TESTS_TRACE_LINES_H
#define TESTS_TRACE_LINES_H

#include <stdbool.h>

typedef struct trace_lines {
    char **lines;
    int count;
} trace_lines;

trace_lines trace_lines_of_json(const char *path);

// By protoc, which must be installed.
trace_lines trace_lines_of_protobuf(const char *path);

void trace_lines_free(trace_lines *x);

// How many lines have all of the |parts|, of which NULL is the last.
int trace_lines_count(const trace_lines *x, const char *const *parts);
#define COUNT(x, ...) trace_lines_count(x, (const char *const[]){ __VA_ARGS__, NULL })

#endif
