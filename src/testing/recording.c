#include "testing/recording.h"

#include "testing/testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/dtype.h"

recording recording_open(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("no recording %s", path);
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    char *text = malloc((size_t)size + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, (size_t)size, file), size);
    text[size] = '\0';
    fclose(file);
    return (recording){ text, text };
}

void recording_close(recording *r) {
    free(r->text);
}

static void skip_blanks(recording *r) {
    for (;;) {
        r->at += strspn(r->at, " \t\r\n");
        if (*r->at != '#') return;
        r->at += strcspn(r->at, "\n");
    }
}

const char *recording_word(recording *r) {
    skip_blanks(r);
    if (!*r->at) return NULL;
    char *word = r->at;
    r->at += strcspn(r->at, " \t\r\n");
    if (*r->at) *r->at++ = '\0';
    return word;
}

bool recording_takes(recording *r, const char *word) {
    skip_blanks(r);
    size_t size = strcspn(r->at, " \t\r\n");
    if (strlen(word) != size || strncmp(r->at, word, size) != 0) return false;
    r->at += size;
    return true;
}

static const char *word(recording *r) {
    const char *w = recording_word(r);
    if (!w) fail_msg("the recording ends too early");
    return w;
}

double recording_number(recording *r) {
    const char *w = word(r);
    char *end;
    double x = strtod(w, &end);
    if (*end) fail_msg("\"%s\" is no number", w);
    return x;
}

static int count(recording *r) {
    return (int)recording_number(r);
}

// ---- Tensors ------------------------------------------------------------------------------------
static int dtype_named(const char *name) {
    for (int d = 0; d < GW_DTYPE_COUNT; d++)
        if (strcmp(gw_dtype_name((gw_dtype)d), name) == 0) return d;
    return -1;
}

static int sizes_of(const char *text, int64_t sizes[GW_DIMS_MAX]) {
    if (strcmp(text, "scalar") == 0) return 0;
    for (int dims = 0;;) {
        char *end;
        sizes[dims++] = strtoll(text, &end, 10);
        if (!*end) return dims;
        text = end + 1;
    }
}

static gw_tensor *tensor(gw_scope *s, recording *r, int dtype) {
    if (dtype < 0) fail_msg("no tensor before \"%.30s\"", r->at);
    int64_t sizes[GW_DIMS_MAX];
    int dims = sizes_of(word(r), sizes);
    gw_tensor *x = gw_zeros_with(s, (gw_dtype)dtype, (gw_shape){ dims, sizes });
    uint8_t *bytes = gw_data_for_write(s, x);
    for (int64_t i = 0; i < gw_numel(x); i++, bytes += gw_dtype_size((gw_dtype)dtype)) {
        const char *w = word(r);
        if (dtype_is_float((gw_dtype)dtype))
            dtype_write((gw_dtype)dtype, bytes, strtod(w, NULL));
        else
            dtype_write_int((gw_dtype)dtype, bytes, strtoll(w, NULL, 10));
    }
    assert_true(gw_ok(s));
    return x;
}

gw_tensor *recording_tensor(gw_scope *s, recording *r) {
    return tensor(s, r, dtype_named(word(r)));
}

gw_value recording_value(gw_scope *s, recording *r) {
    const char *kind = word(r);
    if (strcmp(kind, "none") == 0) return gw_none();
    if (strcmp(kind, "true") == 0) return gw_value_of_bool(true);
    if (strcmp(kind, "false") == 0) return gw_value_of_bool(false);
    if (strcmp(kind, "int") == 0) return gw_value_of_int(strtoll(word(r), NULL, 10));
    if (strcmp(kind, "float") == 0) return gw_value_of_float(recording_number(r));
    if (strcmp(kind, "string") == 0) return gw_value_of_string(word(r));
    bool ints = strcmp(kind, "ints") == 0;
    if (ints || strcmp(kind, "list") == 0) {
        gw_list *list = gw_list_open(s);
        for (int i = count(r); i > 0; i--)
            gw_list_add(s, list, ints ? gw_value_of_int(count(r)) : recording_value(s, r));
        return gw_value_of_list(list);
    }
    return gw_value_of_tensor(tensor(s, r, dtype_named(kind)));
}

// ---- Comparing ----------------------------------------------------------------------------------
static double number_at(const gw_tensor *x, int64_t i) {
    int64_t at = 0;
    for (int d = gw_dims(x) - 1; d >= 0; d--) {
        at += i % gw_size(x, d) * gw_stride(x, d);
        i /= gw_size(x, d);
    }
    size_t size = gw_dtype_size(gw_dtype_of(x));
    return dtype_read(gw_dtype_of(x), (const uint8_t *)gw_data(x) + at * (int64_t)size);
}

static bool is_close(double x, double expected, double relative, double absolute) {
    if (isnan(expected) || isinf(expected)) return isnan(expected) ? isnan(x) : x == expected;
    return fabs(x - expected) <= absolute + relative * fabs(expected);
}

void recording_compare(const char *what, const gw_tensor *x, const gw_tensor *expected,
                       double relative, double absolute) {
    if (gw_dtype_of(x) != gw_dtype_of(expected))
        fail_msg("%s: is %s, not %s", what, gw_dtype_name(gw_dtype_of(x)),
                 gw_dtype_name(gw_dtype_of(expected)));
    if (gw_dims(x) != gw_dims(expected))
        fail_msg("%s: has %d dimensions, not %d", what, gw_dims(x), gw_dims(expected));
    for (int d = 0; d < gw_dims(x); d++)
        if (gw_size(x, d) != gw_size(expected, d))
            fail_msg("%s: size %d is %lld, not %lld", what, d, (long long)gw_size(x, d),
                     (long long)gw_size(expected, d));
    for (int64_t i = 0; i < gw_numel(x); i++) {
        double a = number_at(x, i), b = number_at(expected, i);
        if (!is_close(a, b, relative, absolute))
            fail_msg("%s: element %lld is %.9g, not %.9g", what, (long long)i, a, b);
    }
}
