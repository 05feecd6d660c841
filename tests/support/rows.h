// Rows of workers that do not exist, and the text that is written of them.
#ifndef TESTS_ROWS_H
#define TESTS_ROWS_H

#include "monitor/model.h"

// A worker that runs and serves, "worker3", of the process 1000 + |rank|, with 10 * |rank| calls a second.
live_row rows_make(int rank);

// One look at workers, |second| seconds after the first one.
void rows_update(model *m, const live_row *rows, int count, int64_t second);

// What |write| writes; to be freed.
char *rows_text(const model *m, void (*write)(const model *m, FILE *out));

#endif
