// The page of a job, as HTML.
#ifndef GRADWIRE_PAGE_H
#define GRADWIRE_PAGE_H

#include <stdio.h>

#include "monitor/model.h"

enum { PAGE_WORKERS_MAX = 256, PAGE_EVENTS_MAX = 20 };

// Between <style> and </style>, and <script> and </script>: the page allows these by their hashes.
extern const char page_style[], page_script[];

void page_write(const model *m, history_span span, FILE *out);

#endif
