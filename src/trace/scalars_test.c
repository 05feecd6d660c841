#include <gradwire/scalars.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/mem.h"
#include "testing/testing.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];

static gw_scope *begin(void) {
    snprintf(folder, sizeof folder, "/tmp/gradwire-scalars-XXXXXX");
    assert_non_null(mkdtemp(folder));
    return gw_scope_open(NULL);
}

static void end(gw_scope *s) {
    char command[96];
    assert_string_equal(gw_scope_close(s).text, "");
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
}

static const char *inside(const char *name) {
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

// ---- An own reader ------------------------------------------------------------------------------

typedef struct point {
    char tag[256], version[32];
    float value;
    int64_t step;
    double wall_s;
} point;

enum { POINTS_MAX = 5000 };

typedef struct curve_file {
    int count;  // of records, also the first
    point points[POINTS_MAX];
} curve_file;

static uint64_t varint(reader *in) {
    uint64_t x = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        uint8_t b = reader_u8(in);
        x |= (uint64_t)(b & 0x7f) << shift;
        if (!(b & 0x80)) break;
    }
    return x;
}

// The bytes of a field that has a length.
static reader part(reader *in) {
    uint64_t size = varint(in);
    const uint8_t *data = reader_take(in, size);
    assert_non_null(data);
    return reader_of(data, size);
}

static void take_text(reader in, char *out, size_t size) {
    assert_true(reader_left(&in) < size);
    memcpy(out, in.at, reader_left(&in));
    out[reader_left(&in)] = '\0';
}

static void take_value(reader in, point *out) {
    while (reader_left(&in)) {
        uint8_t key = reader_u8(&in);
        assert_true(key == 0x0a || key == 0x15);
        uint32_t bits;
        if (key == 0x0a)
            take_text(part(&in), out->tag, sizeof out->tag);
        else
            bits = reader_u32(&in), memcpy(&out->value, &bits, sizeof bits);
    }
}

static point event_of(reader in) {
    point out = { .step = -1000 };
    while (reader_left(&in)) {
        uint8_t key = reader_u8(&in);
        reader summary;
        switch (key) {
        case 0x09: out.wall_s = reader_f64(&in); break;
        case 0x10: out.step = (int64_t)varint(&in); break;
        case 0x1a: take_text(part(&in), out.version, sizeof out.version); break;
        case 0x2a:
            summary = part(&in);
            assert_int_equal(reader_u8(&summary), 0x0a);
            take_value(part(&summary), &out);
            assert_int_equal(reader_left(&summary), 0);
            break;
        default: assert_int_equal(key, 0);
        }
    }
    assert_false(in.failed);
    return out;
}

static uint32_t masked(const void *data, size_t size) {
    uint32_t sum = crc32c_by_table(0, data, size);
    return ((sum >> 15) | (sum << 17)) + 0xa282ead8u;
}

static void read_records(reader in, curve_file *out) {
    out->count = 0;
    while (reader_left(&in)) {
        const uint8_t *start = in.at;
        uint64_t size = reader_u64(&in);
        assert_true(reader_u32(&in) == masked(start, 8));
        const uint8_t *event = reader_take(&in, size);
        assert_non_null(event);
        assert_true(reader_u32(&in) == masked(event, size));
        assert_true(out->count < POINTS_MAX);
        out->points[out->count++] = event_of(reader_of(event, size));
    }
    assert_string_equal(out->points[0].version, "brain.Event:2");
}

// The one file of |path|.
static void only_file(const char *path, char *out, size_t size) {
    DIR *d = opendir(path);
    int count = 0;
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));)
        if (strstr(e->d_name, ".tfevents.")) snprintf(out, size, "%s/%s", path, e->d_name), count++;
    closedir(d);
    assert_int_equal(count, 1);
}

static curve_file *read_file(const char *path) {
    char name[512];
    struct stat is;
    only_file(path, name, sizeof name);
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    assert_int_equal(fstat(fd, &is), 0);
    uint8_t *data = mem_alloc((size_t)is.st_size + 1);
    curve_file *out = mem_alloc(sizeof *out);
    assert_true(data && out);
    assert_int_equal(read(fd, data, (size_t)is.st_size + 1), is.st_size);
    close(fd);
    read_records(reader_of(data, (size_t)is.st_size), out);
    mem_free(data);
    return out;
}

// ---- Tests --------------------------------------------------------------------------------------

static void it_writes_what_was_added(void **state) {
    (void)state;
    gw_scope *s = begin();
    gw_scalars *curves = gw_scalars_open(s, inside("a/b/c"));
    gw_scalars_add(s, curves, "loss/train", 0.25, 0);
    gw_scalars_add(s, curves, "loss/test", -1.5, INT64_C(1) << 40);
    gw_scalars_add(s, curves, "Z\xc3\xbcrich", 1e-3, -1);
    // Before the file is closed.
    curve_file *f = read_file(inside("a/b/c"));
    assert_int_equal(f->count, 4);
    assert_string_equal(f->points[1].tag, "loss/train");
    assert_true(f->points[1].value == 0.25f && f->points[1].step == 0);
    assert_string_equal(f->points[2].tag, "loss/test");
    assert_true(f->points[2].value == -1.5f && f->points[2].step == INT64_C(1) << 40);
    assert_string_equal(f->points[3].tag, "Z\xc3\xbcrich");
    assert_true(f->points[3].value == 1e-3f && f->points[3].step == -1);
    for (int i = 1; i < 4; i++) assert_true(f->points[i].wall_s >= f->points[0].wall_s - 1);
    mem_free(f);
    end(s);
}

static void numbers_that_are_not_finite_are_kept(void **state) {
    (void)state;
    gw_scope *s = begin();
    gw_scalars *curves = gw_scalars_open(s, folder);
    gw_scalars_add(s, curves, "a", NAN, 1);
    gw_scalars_add(s, curves, "a", INFINITY, 2);
    gw_scalars_add(s, curves, "a", -INFINITY, 3);
    gw_scalars_add(s, curves, "a", 1e300, 4);
    curve_file *f = read_file(folder);
    assert_int_equal(f->count, 5);
    assert_true(isnan(f->points[1].value));
    assert_true(isinf(f->points[2].value) && f->points[2].value > 0);
    assert_true(isinf(f->points[3].value) && f->points[3].value < 0);
    assert_true(isinf(f->points[4].value) && f->points[4].value > 0);
    mem_free(f);
    end(s);
}

static void each_opening_makes_a_file(void **state) {
    (void)state;
    gw_scope *s = begin();
    for (int i = 0; i < 3; i++) gw_drop(s, gw_scalars_open(s, folder));
    int count = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; (e = readdir(d));) count += strstr(e->d_name, ".tfevents.") != NULL;
    closedir(d);
    assert_int_equal(count, 3);
    end(s);
}

static void wrong_arguments_are_errors(void **state) {
    (void)state;
    gw_scope *s = begin();
    char longest[257];
    memset(longest, 'a', 256);
    longest[256] = '\0';
    static const char *const wrong[] = { NULL, "", "a\nb", "\xff" };
    gw_scalars *curves = gw_scalars_open(s, folder);
    for (size_t i = 0; i < 5; i++) {
        gw_scope *inner = gw_scope_open(s);
        gw_scalars_add(inner, i < 4 ? NULL : curves, i < 4 ? wrong[i] : longest, 1, 1);
        assert_int_equal(gw_scope_close(inner).status, GW_INVALID);
    }
    for (int i = 0; i < 2; i++) {
        gw_scope *inner = gw_scope_open(s);
        gw_scalars *none = gw_scalars_open(inner, i ? "" : NULL);
        assert_int_equal(gw_scope_error(inner)->status, GW_INVALID);
        gw_scope_clear(inner);
        gw_scalars_add(inner, none, "a", 1, 1);
        assert_int_equal(gw_scope_close(inner).status, GW_OK);
    }
    longest[255] = '\0';
    gw_scalars_add(s, curves, longest, 1, 1);
    gw_scalars_add(s, NULL, "a", 1, 1);
    curve_file *f = read_file(folder);
    assert_int_equal(f->count, 2);
    assert_string_equal(f->points[1].tag, longest);
    mem_free(f);
    end(s);
}

static void a_folder_that_cannot_be_made_is_an_error(void **state) {
    (void)state;
    gw_scope *s = begin();
    FILE *f = fopen(inside("file"), "w");
    assert_non_null(f);
    fclose(f);
    static const char *const under[] = { "file", "file/a" };
    for (int i = 0; i < 2; i++) {
        gw_scope *inner = gw_scope_open(s);
        gw_scalars_open(inner, inside(under[i]));
        gw_error e = gw_scope_close(inner);
        assert_int_equal(e.status, GW_SYSTEM);
        assert_non_null(strstr(e.text, "cannot be made: Not a directory"));
    }
    end(s);
}

static void a_full_disk_is_an_error_and_leaves_whole_records(void **state) {
    (void)state;
    gw_scope *s = begin();
    gw_scalars *curves = gw_scalars_open(s, folder);
    struct rlimit limit, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    small = (struct rlimit){ .rlim_cur = 1024, .rlim_max = limit.rlim_max };
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    gw_scope *inner = gw_scope_open(s);
    int64_t step = 0;
    for (; gw_ok(inner) && step < 1000; step++) gw_scalars_add(inner, curves, "loss", 1, step);
    gw_error e = gw_scope_close(inner);
    assert_int_equal(e.status, GW_SYSTEM);
    assert_non_null(strstr(e.text, "write: File too large"));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    gw_scalars_add(s, curves, "loss", 2, 7777);
    curve_file *f = read_file(folder);
    assert_int_equal(f->count, 1 + (step - 1) + 1);
    assert_true(f->points[f->count - 2].step == step - 2);
    assert_true(f->points[f->count - 1].step == 7777);
    mem_free(f);
    end(s);
}

// ---- Threads ------------------------------------------------------------------------------------

enum { THREADS = 4, ADDED = 1000 };

static gw_scalars *shared;

static void *add_many(void *number) {
    gw_scope *s = gw_scope_open(NULL);
    char name[8];
    snprintf(name, sizeof name, "%d", (int)(intptr_t)number);
    for (int64_t i = 0; i < ADDED; i++) gw_scalars_add(s, shared, name, (double)i, i);
    assert_string_equal(gw_scope_close(s).text, "");
    return NULL;
}

static void several_threads_add(void **state) {
    (void)state;
    gw_scope *s = begin();
    pthread_t threads[THREADS];
    int64_t next[THREADS] = { 0 };
    shared = gw_scalars_open(s, folder);
    for (intptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, add_many, (void *)i), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    curve_file *f = read_file(folder);
    assert_int_equal(f->count, 1 + THREADS * ADDED);
    for (int i = 1; i < f->count; i++) {
        int thread = f->points[i].tag[0] - '0';
        assert_in_range(thread, 0, THREADS - 1);
        assert_true(f->points[i].step == next[thread]++);
    }
    mem_free(f);
    end(s);
}

static void open_and_add(void *context) {
    (void)context;
    gw_scope *s = gw_scope_open(NULL);
    gw_scalars *curves = gw_scalars_open(s, folder);
    gw_scalars_add(s, curves, "loss", 1, 1);
    gw_error e = gw_scope_close(s);
    assert_true(e.status == GW_OK || e.status == GW_NO_MEMORY);
}

static void it_survives_any_failing_allocation(void **state) {
    (void)state;
    gw_scope *s = begin();
    testing_alloc_failure_loop(open_and_add, NULL);
    end(s);
}

GW_TESTS(trace_scalars, it_writes_what_was_added, numbers_that_are_not_finite_are_kept,
         each_opening_makes_a_file, wrong_arguments_are_errors,
         a_folder_that_cannot_be_made_is_an_error, a_full_disk_is_an_error_and_leaves_whole_records,
         several_threads_add, it_survives_any_failing_allocation);
