// Images of the memory of a process, and files of them: nothing in the memory or in a file is trusted.
#include "testing/testing.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../support/images.h"
#include "../support/launched.h"
#include "../support/memories.h"
#include "base/crc32c.h"
#include "observe/dump.h"
#include "observe/hang.h"
#include "observe/text.h"
#include "observe/workers.h"
#include "trace/clock.h"
#include "trace/kinds.h"

// ---- Images -------------------------------------------------------------------------------------

static image take(const memory *m) {
    image x;
    char why[IMAGE_WHY_SIZE];
    if (!image_take(m->fd, &x, why, sizeof why)) fail_msg("%s", why);
    return x;
}

static void expect_refused(const memory *m, const char *part) {
    image x;
    char why[IMAGE_WHY_SIZE];
    assert_false(image_take(m->fd, &x, why, sizeof why));
    if (!strstr(why, part)) fail_msg("\"%s\", not \"%s\"", why, part);
}

static void an_image_has_what_is_in_the_memory(void **state) {
    (void)state;
    memory m = memory_open(10);
    image x = take(&m);
    assert_int_equal(x.pid, 77);
    assert_string_equal(x.program, "train");
    assert_int_equal(x.agent_count, 1);
    assert_string_equal(x.agents[0].name, "ps");
    assert_int_equal(x.agents[0].rank, 2);
    assert_int_equal(x.agents[0].table->activity_count, 2);
    assert_int_equal(x.thread_count, 1);
    assert_int_equal(x.threads[0].tid, 78);
    assert_int_equal(x.threads[0].record_count, 10);
    assert_int_equal(x.threads[0].lost, 0);
    for (uint32_t i = 0; i < 10; i++) {
        const image_record *r = &x.threads[0].records[i];
        assert_int_equal(r->id, i);
        assert_int_equal(r->at_ns, memory_header(&m)->opened.monotonic_ns + i);
        assert_int_equal(r->agent, 0);
        assert_string_equal(image_name(&x, r), "here");
    }
    image_free(&x);
    memory_close(&m);
}

static void tables_are_read_without_records(void **state) {
    (void)state;
    memory m = memory_open(10);
    image x;
    char why[IMAGE_WHY_SIZE];
    assert_true(image_take_tables(m.fd, &x, why, sizeof why));
    assert_int_equal(x.thread_count, 0);
    assert_int_equal(image_progress(&x), 3 + 4 + 5);
    // The wait in gw_rpc_shutdown, which is older, does not count.
    assert_int_equal(image_oldest_wait_ns(&x, 1001), 1000);
    image_free(&x);
    memory_close(&m);
}

static void overwritten_records_are_lost_and_the_oldest_may_be_written(void **state) {
    (void)state;
    memory m = memory_open(3 * MEMORIES_RECORDS + 7);
    image x = take(&m);
    const image_thread *t = &x.threads[0];
    assert_int_equal(t->record_count, MEMORIES_RECORDS - 1);
    assert_int_equal(t->lost, 2 * MEMORIES_RECORDS + 8);
    for (uint32_t i = 0; i < t->record_count; i++)
        assert_int_equal(t->records[i].id, 2 * MEMORIES_RECORDS + 8 + i);
    image_free(&x);
    memory_close(&m);
}

static void damaged_records_are_left_out(void **state) {
    (void)state;
    memory m = memory_open(10);
    memory_ring(&m, 0)[3].number = 4;
    memory_ring(&m, 0)[4].kind = TRACE_KIND_COUNT;
    memory_ring(&m, 0)[5].kind = TRACE_NONE;
    memory_ring(&m, 0)[6].name = TRACE_STRINGS_BYTES + 5;
    memory_ring(&m, 0)[7].ticks = 1;
    memory_ring(&m, 0)[8].ticks = UINT64_MAX;
    memory_ring(&m, 0)[9].agent = 3;
    image x = take(&m);
    const image_thread *t = &x.threads[0];
    assert_int_equal(t->record_count, 7);
    assert_int_equal(t->lost, 3);
    assert_string_equal(image_name(&x, &t->records[3]), "");
    for (uint32_t i = 1; i < t->record_count; i++)
        assert_true(t->records[i].at_ns >= t->records[i - 1].at_ns);
    assert_true(t->records[6].at_ns <= x.taken.monotonic_ns);
    assert_int_equal(t->records[6].agent, IMAGE_NO_AGENT);
    image_free(&x);
    memory_thread_row(&m, 0)->head = UINT64_MAX;
    x = take(&m);
    assert_true(x.threads[0].record_count <= MEMORIES_RECORDS);
    image_free(&x);
    memory_close(&m);
}

static void a_memory_that_is_none_is_refused_with_a_reason(void **state) {
    (void)state;
    memory m = memory_open(10);
    trace_header good = *memory_header(&m);
#define REFUSED(field, x, part)                                                                    \
    do {                                                                                           \
        memory_header(&m)->field = (x);                                                            \
        expect_refused(&m, part);                                                                  \
        *memory_header(&m) = good;                                                                 \
    } while (0)
    REFUSED(magic[2], 'x', "wrong magic number");
    REFUSED(magic[0], 0, "not complete yet");
    REFUSED(owner, 0, "no process has taken it");
    REFUSED(owner, -5, "no process has taken it");
    REFUSED(version, 3, "it has version 3; this gradwire reads version 2");
    REFUSED(ring_records, 0, "0 records a thread");
    REFUSED(ring_records, 1025, "1025 records a thread");
    REFUSED(ring_records, 512, "512 records a thread");
    REFUSED(ring_records, 1u << 21, "records a thread");
    REFUSED(ring_records, 2048, "bytes");
    REFUSED(clock, 2, "an unknown clock, 2");
    REFUSED(opened.monotonic_ns, INT64_MAX, "in the future");
    REFUSED(opened.ticks, UINT64_MAX, "in the future");
    REFUSED(string_bytes, 0, "0 bytes of strings");
    REFUSED(string_bytes, TRACE_STRINGS_BYTES + 1, "bytes of strings");
#undef REFUSED
    memory_close(&m);
}

static void a_memory_that_is_cut_is_refused(void **state) {
    (void)state;
    memory m = memory_open(10);
    munmap(m.at, m.size);
    for (size_t size = m.size; size;) {
        size = size > 100000 ? size - 65536 : size - (size + 9) / 10;
        assert_int_equal(ftruncate(m.fd, (off_t)size), 0);
        expect_refused(&m, size >= sizeof(trace_header) ? "bytes" : "it ends at byte");
    }
    close(m.fd);
    int ends[2];
    char why[IMAGE_WHY_SIZE];
    image x;
    assert_int_equal(pipe(ends), 0);
    assert_false(image_take(ends[0], &x, why, sizeof why));
    close(ends[0]);
    close(ends[1]);
}

static void texts_are_terminated_and_clean(void **state) {
    (void)state;
    memory m = memory_open(1);
    memset(memory_header(&m)->program, 'a', sizeof memory_header(&m)->program);
    memset(memory_header(&m)->job, 0xff, sizeof memory_header(&m)->job);
    memset(memory_agent_row(&m, 1)->name, '\n', sizeof memory_agent_row(&m, 1)->name);
    memset(memory_thread_row(&m, 0)->name, 0x1b, sizeof memory_thread_row(&m, 0)->name);
    memory_header(&m)->string_bytes = 3;
    memcpy(m.at + trace_strings_at(), "xyz", 3);
    memory_ring(&m, 0)[0].name = 1;
    image x = take(&m);
    assert_int_equal(strlen(x.program), sizeof x.program - 1);
    assert_int_equal(x.job[0], '?');
    assert_int_equal(x.agents[0].name[126], '?');
    assert_string_equal(x.threads[0].name, "???????????????????");
    assert_string_equal(image_name(&x, &x.threads[0].records[0]), "y");
    image_free(&x);
    memory_close(&m);
}

static void a_table_that_is_none_is_left_out(void **state) {
    (void)state;
    memory m = memory_open(1);
    static const uint32_t sizes[] = { 0, 1, TRACE_TABLE_BYTES - 8, TRACE_TABLE_BYTES, UINT32_MAX };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        memory_agent_row(&m, 1)->tables[1].bytes = sizes[i];
        image x = take(&m);
        assert_int_equal(x.agent_count, 1);
        assert_null(x.agents[0].table);
        assert_int_equal(image_progress(&x), 0);
        image_free(&x);
    }
    memory_agent_row(&m, 1)->written = 0;
    image x = take(&m);
    assert_null(x.agents[0].table);
    image_free(&x);
    memory_close(&m);
}

// All that can be done with images: none of it may crash.
static void use(const image *images, int count) {
    FILE *out = fopen("/dev/null", "w");
    assert_non_null(out);
    workers_write(images, count, out);
    workers_write_json(images, count, out);
    for (int i = 0; i < count; i++) text_write(&images[i], 5, out);
    for (int json = 0; json < 2; json++)
        assert_true(hang_report(images, count, &(hang_options){ .json = json }, out) >= 0);
    fclose(out);
}

static void no_byte_of_the_memory_is_trusted(void **state) {
    (void)state;
    memory m = memory_open(4);
    // All but the parts that are zero.
    const struct {
        uint64_t from, size;
    } parts[] = { { 0, sizeof(trace_header) },
                  { trace_strings_at(), 8 },
                  { trace_threads_at(), sizeof(trace_thread_row) },
                  { trace_agents_at() + sizeof(trace_agent_row),
                    offsetof(trace_agent_row, tables) },
                  { trace_agents_at() + sizeof(trace_agent_row) +
                        offsetof(trace_agent_row, tables) + TRACE_TABLE_BYTES - 4,
                    256 },
                  { trace_rings_at(), 4 * sizeof(trace_event) } };
    for (size_t p = 0; p < sizeof parts / sizeof parts[0]; p++) {
        for (uint64_t i = 0; i < parts[p].size; i++) {
            char *at = m.at + parts[p].from + i, was = *at;
            static const char values[] = { 0, 1, 0x7f, (char)0x80, (char)0xff };
            for (size_t v = 0; v < sizeof values; v++) {
                image x;
                char why[IMAGE_WHY_SIZE];
                *at = values[v];
                bool ok = image_take(m.fd, &x, why, sizeof why);
                if (ok && v == p % sizeof values) use(&x, 1);
                if (ok) image_free(&x);
            }
            *at = was;
        }
    }
    memory_close(&m);
}

// ---- While the process writes -------------------------------------------------------------------

typedef struct writing {
    memory m;
    atomic_bool ends;
} writing;

// Records, head and table as src/trace/record.c and region.c write them.
static void *write_on(void *user) {
    writing *w = user;
    uint32_t name = memory_add_string(&w->m, "later");
    for (uint64_t i = memory_thread_row(&w->m, 0)->head; !w->ends; i++) {
        memory_write_record(&w->m, 0, i, TRACE_MARK, name);
        atomic_store_explicit(&memory_thread_row(&w->m, 0)->head, i + 1, memory_order_release);
    }
    return NULL;
}

// pread copies what the other thread writes; no thread sanitizer sees that.
static void records_are_whole_while_the_process_writes(void **state) {
    (void)state;
    writing w = { .m = memory_open(10) };
    pthread_t writer;
    assert_int_equal(pthread_create(&writer, NULL, write_on, &w), 0);
    for (int n = testing_scaled(300); n--;) {
        image x = take(&w.m);
        const image_thread *t = &x.threads[0];
        for (uint32_t i = 0; i < t->record_count; i++) {
            assert_int_equal(t->records[i].value, 2 * t->records[i].id);
            if (i) assert_true(t->records[i].id == t->records[i - 1].id + 1);
        }
        image_free(&x);
    }
    w.ends = true;
    pthread_join(writer, NULL);
    memory_close(&w.m);
}

// ---- Files --------------------------------------------------------------------------------------

static void fill(images *x) {
    images_open(x, 3);
    images_wait_for(images_add(x, 0, TRACE_WAITS_COLLECTIVE, "barrier", 3), 7);
    images_add_of(x, 1, TRACE_RUNS, "f", 4, 0, 5);
    for (int i = 0; i < 5; i++) images_record(x, 1, TRACE_MARK, 10 + i, i % 2 ? "odd" : "even");
    x->of[2].life = IMAGE_HAS_ENDED;
    free(x->of[2].agents[0].table);
    x->of[2].agents[0].table = NULL;
}

static void encode(const images *x, size_t bytes_max, bytes *out) {
    *out = (bytes){ 0 };
    dump_encode(x->of, x->count, bytes_max, out);
    assert_false(out->failed);
}

static void a_file_has_what_the_images_have(void **state) {
    (void)state;
    images x;
    image *read;
    int count;
    char why[IMAGE_WHY_SIZE];
    struct stat is;
    path folder = make_folder(), file = in_folder(folder, "a.gwt");
    fill(&x);
    assert_true(dump_write(file.text, x.of, x.count));
    assert_int_equal(stat(file.text, &is), 0);
    assert_int_equal(is.st_mode & 0777, 0600);
    if (!dump_read(file.text, &read, &count, why, sizeof why)) fail_msg("%s", why);
    assert_int_equal(count, 3);
    assert_int_equal(read[2].life, IMAGE_HAS_ENDED);
    assert_null(read[2].agents[0].table);
    assert_string_equal(read[0].mark, "9401b4f8");
    assert_memory_equal(&read[0].agents[0].table->activities[0],
                        &images_table(&x, 0)->activities[0], sizeof(trace_activity));
    for (uint32_t i = 0; i < 5; i++) {
        const image_record *r = &read[1].threads[0].records[i];
        assert_int_equal(r->at_ns, 10 + i);
        assert_string_equal(image_name(&read[1], r), i % 2 ? "odd" : "even");
    }
    bytes once, again = { 0 };
    encode(&x, DUMP_BYTES, &once);
    dump_encode(read, count, DUMP_BYTES, &again);
    assert_int_equal(once.size, again.size);
    assert_memory_equal(once.data, again.data, once.size);
    bytes_fini(&once);
    bytes_fini(&again);
    image_free_all(read, count);
    images_close(&x);
    remove_folder(folder);
}

// Files are read by tools of other versions. Where this test fails, DUMP_VERSION is increased.
static void the_version_of_a_file_is_that_of_its_bytes(void **state) {
    (void)state;
    images x;
    bytes b;
    fill(&x);
    encode(&x, DUMP_BYTES, &b);
    uint32_t sum = crc32c(0, b.data, b.size);
    testing_note("version %d has the bytes 0x%08x", DUMP_VERSION, sum);
    assert_int_equal(DUMP_VERSION, 2);
    assert_int_equal(sum, 0x08eca0bb);
    bytes_fini(&b);
    images_close(&x);
}

static void the_newest_records_fit_into_a_file(void **state) {
    (void)state;
    images x;
    bytes small;
    image *read;
    int count;
    char why[IMAGE_WHY_SIZE];
    images_open(&x, 2);
    for (int i = 0; i < 200; i++) images_record(&x, i % 2, TRACE_MARK, i, "m");
    encode(&x, 3000, &small);
    assert_true(small.size <= 3000);
    assert_true(dump_decode(small.data, small.size, &read, &count, why, sizeof why));
    for (int i = 0; i < 2; i++) {
        const image_thread *t = &read[i].threads[0];
        assert_true(t->record_count > 10 && t->record_count < 100);
        assert_int_equal(t->record_count + t->lost, 100);
        assert_int_equal(t->records[t->record_count - 1].at_ns, 198 + i);
    }
    assert_true(
        labs((long)read[0].threads[0].record_count - (long)read[1].threads[0].record_count) <= 1);
    bytes_fini(&small);
    image_free_all(read, count);
    images_close(&x);
}

static void a_file_that_cannot_be_written_leaves_the_old_one(void **state) {
    (void)state;
    images x;
    path folder = make_folder(), file = in_folder(folder, "a");
    images_open(&x, 1);
    assert_int_equal(mkdir(file.text, 0700), 0);
    assert_false(dump_write(file.text, x.of, 1));
    assert_int_equal(errno, EISDIR);
    assert_int_equal(rmdir(file.text), 0);
    path missing = in_folder(folder, "no/a.gwt");
    assert_false(dump_write(missing.text, x.of, 1));
    assert_int_equal(errno, ENOENT);
    images_close(&x);
    // Nothing else is left there.
    assert_int_equal(rmdir(folder.text), 0);
}

static void a_file_that_is_none_is_refused_with_the_place(void **state) {
    (void)state;
    images x;
    bytes b;
    image *read;
    int count;
    char why[IMAGE_WHY_SIZE];
    fill(&x);
    encode(&x, DUMP_BYTES, &b);
    for (size_t size = 0; size < b.size; size++) {
        // In memory of exactly its size.
        uint8_t *cut = malloc(size ? size : 1);
        assert_non_null(cut);
        memcpy(cut, b.data, size);
        assert_false(dump_decode(cut, size, &read, &count, why, sizeof why));
        assert_non_null(strstr(why, "at byte "));
        free(cut);
    }
    bytes_put_u8(&b, 0);
    assert_false(dump_decode(b.data, b.size, &read, &count, why, sizeof why));
    assert_non_null(strstr(why, "1 bytes mean nothing"));
    b.data[8] = 3;
    assert_false(dump_decode(b.data, b.size, &read, &count, why, sizeof why));
    assert_string_equal(why, "at byte 16: it has version 3; this gradwire reads version 2");
    b.data[3] = 'x';
    assert_false(dump_decode(b.data, b.size, &read, &count, why, sizeof why));
    assert_string_equal(why, "at byte 8: it is no dump of gradwire");
    assert_false(dump_read("/dev/null", &read, &count, why, sizeof why));
    assert_false(dump_read("/missing.gwt", &read, &count, why, sizeof why));
    bytes_fini(&b);
    images_close(&x);
}

static void no_byte_of_a_file_is_trusted(void **state) {
    (void)state;
    images x;
    bytes b;
    fill(&x);
    encode(&x, DUMP_BYTES, &b);
    static const uint8_t values[] = { 0, 1, 4, 0x7f, 0x80, 0xff };
    for (size_t i = 0; i < b.size; i++) {
        uint8_t was = b.data[i];
        for (size_t v = 0; v < sizeof values; v++) {
            image *read;
            int count;
            char why[IMAGE_WHY_SIZE];
            b.data[i] = values[v];
            if (!dump_decode(b.data, b.size, &read, &count, why, sizeof why)) continue;
            if (i % sizeof values == v) use(read, count);
            image_free_all(read, count);
        }
        b.data[i] = was;
    }
    bytes_fini(&b);
    images_close(&x);
}

GW_TESTS(observe_image, an_image_has_what_is_in_the_memory, tables_are_read_without_records,
         overwritten_records_are_lost_and_the_oldest_may_be_written, damaged_records_are_left_out,
         a_memory_that_is_none_is_refused_with_a_reason, a_memory_that_is_cut_is_refused,
         texts_are_terminated_and_clean, a_table_that_is_none_is_left_out,
         no_byte_of_the_memory_is_trusted, records_are_whole_while_the_process_writes,
         a_file_has_what_the_images_have, the_version_of_a_file_is_that_of_its_bytes,
         the_newest_records_fit_into_a_file, a_file_that_cannot_be_written_leaves_the_old_one,
         a_file_that_is_none_is_refused_with_the_place, no_byte_of_a_file_is_trusted);
