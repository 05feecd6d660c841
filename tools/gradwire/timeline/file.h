// The file of a trace: for Perfetto, as JSON, or the records themselves (observe/dump.h).
//
//     trace_file f;
//     if (trace_file_open(&f, "job.pftrace", false)) ... trace_file_write(&f, images, count, &c);
//     trace_file_close(&f);
#ifndef GRADWIRE_TRACE_FILE_H
#define GRADWIRE_TRACE_FILE_H

#include <stdio.h>

#include "observe/image.h"
#include "timeline/clocks.h"

typedef enum trace_format { TRACE_PERFETTO, TRACE_JSON, TRACE_RECORDS_THEMSELVES } trace_format;

typedef struct trace_file {
    const char *path;
    char *temporary;  // in the same folder; NULL: it has become |path|
    FILE *to;
    trace_format format;
} trace_file;

// Makes a new file, of mode 0600, which becomes |path| when it is written. |is_json|: else ".gwt" and ".json" at the end of the path
// choose the format. Returns false, with errno, if it cannot be made.
bool trace_file_open(trace_file *f, const char *path, bool is_json);

// |c|: what prepare_images has found; it is not called before records themselves are written. Returns false, with errno.
bool trace_file_write(trace_file *f, const image *images, int count, const clocks *c);

// Removes what is not written.
void trace_file_close(trace_file *f);

#endif
