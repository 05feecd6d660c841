#include "images.h"

#include "testing/testing.h"
#include "trace/kinds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void images_open(images *x, int count) {
    assert_true(count <= IMAGES_MAX);
    *x = (images){ .count = count };
    for (int i = 0; i < count; i++) {
        image *p = &x->of[i];
        *p = (image){ .pid = 1000 + i,
                      .ring_records = TRACE_RECORDS_MIN,
                      .opened.monotonic_ns = 1,
                      .taken.monotonic_ns = IMAGES_NOW_NS,
                      .life = IMAGE_RUNS,
                      .program = "train",
                      .host = "a",
                      .mark = "9401b4f8",
                      .job = "job",
                      .agent_count = 1,
                      .string_bytes = 1 };
        p->agents = calloc(1, sizeof *p->agents);
        p->threads = calloc(TRACE_THREADS, sizeof *p->threads);
        p->strings = calloc(1, 1);
        assert_true(p->agents && p->threads && p->strings);
        p->agents[0] = (image_agent){ .is_open = true, .rank = i, .world_size = count };
        snprintf(p->agents[0].name, sizeof p->agents[0].name, "worker%d", i);
        p->agents[0].table = calloc(1, sizeof *p->agents[0].table);
        assert_non_null(p->agents[0].table);
        *p->agents[0].table = (trace_table){ .now_ns = IMAGES_NOW_NS, .phase = TRACE_SERVING };
    }
}

void images_close(images *x) {
    for (int i = 0; i < x->count; i++) image_free(&x->of[i]);
}

trace_table *images_table(images *x, int rank) {
    return x->of[rank].agents[0].table;
}

trace_activity *images_add_of(images *x, int rank, trace_activity_kind kind, const char *what,
                              int seconds, int caller, uint64_t call) {
    trace_table *t = images_table(x, rank);
    assert_true(t->activity_count < TRACE_ACTIVITIES_MAX);
    trace_activity *a = &t->activities[t->activity_count++];
    *a = (trace_activity){ .kind = kind,
                           .since_ns = IMAGES_NOW_NS - seconds * INT64_C(1000000000),
                           .caller = caller,
                           .call = call };
    snprintf(a->what, sizeof a->what, "%s", what);
    return a;
}

trace_activity *images_add(images *x, int rank, trace_activity_kind kind, const char *what,
                           int seconds) {
    return images_add_of(x, rank, kind, what, seconds, -1, 0);
}

void images_wait_for(trace_activity *a, int rank) {
    trace_activity_add_rank(a, rank);
}

void images_record(images *x, int rank, int kind, int64_t at_ns, const char *name) {
    image *p = &x->of[rank];
    image_thread *t = &p->threads[0];
    size_t size = strlen(name) + 1;
    if (!p->thread_count) snprintf(t->name, sizeof t->name, "main");
    p->thread_count = 1;
    t->records = realloc(t->records, (t->record_count + 1) * sizeof *t->records);
    p->strings = realloc(p->strings, p->string_bytes + size);
    assert_true(t->records && p->strings);
    memcpy(p->strings + p->string_bytes, name, size);
    t->records[t->record_count++] = (image_record){
        .at_ns = at_ns, .name = p->string_bytes, .agent = 0, .kind = (uint8_t)kind
    };
    p->string_bytes += (uint32_t)size;
}
