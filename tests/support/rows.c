#include "rows.h"

#include "testing/testing.h"

#include <stdio.h>

enum { FIRST_SECOND = 100000 };

live_row rows_make(int rank) {
    live_row r = { .job = "job",
                   .program = "train",
                   .host = "a",
                   .pid = 1000 + rank,
                   .start_time = 7,
                   .rank = rank,
                   .world_size = 8,
                   .life = IMAGE_RUNS,
                   .phase = "serving",
                   .processors = 0.5,
                   .usage = { .resident_bytes = 1000000, .processor_ns = 2500000000 } };
    snprintf(r.worker, sizeof r.worker, "worker%d", rank);
    for (int i = 0; i < TRACE_COUNTERS; i++) {
        r.counters[i] = (uint64_t)(100 * rank + i);
        r.rates[i] = 10 * rank;
    }
    return r;
}

void rows_update(model *m, const live_row *rows, int count, int64_t second) {
    int64_t at = FIRST_SECOND + second;
    model_update(m, rows, count, NULL, 0, at * 1000, 1700000000 + second);
}

char *rows_text(const model *m, void (*write)(const model *m, FILE *out)) {
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    write(m, out);
    assert_int_equal(fclose(out), 0);
    assert_non_null(text);
    return text;
}
