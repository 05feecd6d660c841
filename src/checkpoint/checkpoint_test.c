#include "checkpoint/checkpoint.h"

#include "base/bytes.h"
#include "testing/testing.h"
#include <gradwire/ops.h>

#include <string.h>

// ---- Files in memory ----------------------------------------------------------------------------
static bool write_memory(void *context, const void *data, size_t size) {
    bytes_put(context, data, size);
    return true;
}

static bool read_memory(void *context, void *out, size_t size, uint64_t at) {
    const bytes *b = context;
    assert_true(at <= b->size && size <= b->size - at);
    memcpy(out, b->data + at, size);
    return true;
}

static gw_map *decode(gw_scope *s, bytes *b) {
    gw_map *out = NULL;
    checkpoint_decode(s, &out, s, (checkpoint_source){ read_memory, b, b->size });
    return out;
}

static gw_map *round_trip(gw_scope *s, gw_map *values) {
    bytes b = { 0 };
    checkpoint_encode(s, values, (checkpoint_sink){ write_memory, &b });
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
    assert_int_equal(b.data[0] % 8, 0);  // the numbers behind the header are aligned
    gw_map *out = decode(s, &b);
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
    bytes_fini(&b);
    return out;
}

// The file with |header| and |data_size| bytes of zeros.
static bytes file_of(const char *header, size_t data_size) {
    bytes b = { 0 };
    bytes_put_u64(&b, strlen(header));
    bytes_put(&b, header, strlen(header));
    for (size_t i = 0; i < data_size; i++) bytes_put_u8(&b, 0);
    assert_false(b.failed);
    return b;
}

static void assert_refused_with(bytes b, gw_status status, const char *words) {
    gw_scope *s = gw_scope_open(NULL);
    assert_null(decode(s, &b));
    gw_error e = gw_scope_close(s);
    bytes_fini(&b);
    if (!strstr(e.text, words)) fail_msg("\"%s\" does not contain \"%s\"", e.text, words);
    assert_int_equal(e.status, status);
}

// ---- Saving and loading -------------------------------------------------------------------------
static void every_dtype_round_trips(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_map *values = gw_map_open(s);
    for (int d = 0; d < GW_DTYPE_COUNT; d++)
        gw_map_put(s, values, gw_dtype_name((gw_dtype)d),
                   gw_to_dtype(s, gw_from(s, ((float[]){ 1, 0, 1, 0, 1, 1 }), 2, 3), (gw_dtype)d));
    // An odd number of bytes, so that the next tensor would not be aligned in the order of adding.
    gw_map_put(s, values, "odd", gw_to_dtype(s, gw_ones(s, GW_F32, 3), GW_I8));
    gw_map_put(s, values, "last", gw_full(s, GW_F64, 0.1, 1));
    gw_map *back = round_trip(s, values);
    assert_int_equal(gw_map_count(back), GW_DTYPE_COUNT + 2);
    for (int i = 0; i < gw_map_count(back); i++) {
        const char *name = gw_map_key(s, values, i);
        assert_string_equal(gw_map_key(s, back, i), name);
        gw_tensor *x = gw_tensor_of(s, gw_map_get(s, values, name)),
                  *y = gw_tensor_of(s, gw_map_get(s, back, name));
        assert_int_equal(gw_dtype_of(x), gw_dtype_of(y));
        assert_string_equal(gw_to_text(s, x), gw_to_text(s, y));
    }
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void every_shape_round_trips(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_map *values = gw_map_open(s);
    gw_tensor *x = gw_randn(s, GW_F32, 4, 6);
    gw_map_put(s, values, "view", gw_transpose(s, gw_slice(s, x, 1, 1, 6, 2), 0, 1));
    gw_map_put(s, values, "empty", gw_zeros(s, GW_F32, 3, 0, 2));
    gw_map_put(s, values, "scalar", gw_full(s, GW_I64, -5));
    gw_map *back = round_trip(s, values);
    for (int i = 0; i < 3; i++) {
        const char *name = gw_map_key(s, values, i);
        gw_tensor *a = gw_tensor_of(s, gw_map_get(s, values, name)),
                  *b = gw_tensor_of(s, gw_map_get(s, back, name));
        assert_int_equal(gw_dims(a), gw_dims(b));
        for (int d = 0; d < gw_dims(a); d++) assert_int_equal(gw_size(a, d), gw_size(b, d));
        assert_string_equal(gw_to_text(s, a), gw_to_text(s, b));
    }
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static gw_map *nested(gw_scope *s) {
    gw_map *all = gw_map_open(s), *model = gw_map_open(s), *optimizer = gw_map_open(s);
    gw_list *groups = gw_list_open(s);
    gw_map_put(s, model, "0.weight", gw_from(s, ((float[]){ 1, 2 }), 2));
    gw_map_put(s, optimizer, "lr", 0.1);
    gw_map_put(s, optimizer, "best", 1.0 / 0.0);
    gw_map_put(s, optimizer, "steps", (int64_t)1 << 60);
    gw_map_put(s, optimizer, "nesterov", (bool)true);
    gw_map_put(s, optimizer, "rule", "sgd, \"zwölf\"");
    gw_map_put(s, optimizer, "nothing", gw_none());
    gw_map_put(s, optimizer, "seed", gw_value_of_bytes("\0\1\377", 3));
    gw_list_add(s, groups, 3);
    gw_list_add(s, groups, model);
    gw_list_add(s, groups, gw_list_open(s));
    gw_map_put(s, optimizer, "groups", groups);
    gw_map_put(s, all, "model", model);
    gw_map_put(s, all, "optimizer", optimizer);
    gw_map_put(s, all, "empty", gw_map_open(s));
    return all;
}

static void nested_values_round_trip(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_map *all = round_trip(s, nested(s));
    assert_int_equal(gw_map_count(all), 3);
    gw_map *model = gw_map_of(s, gw_map_get(s, all, "model"));
    assert_int_equal(gw_numel(gw_tensor_of(s, gw_map_get(s, model, "0.weight"))), 2);
    gw_map *o = gw_map_of(s, gw_map_get(s, all, "optimizer"));
    assert_true(gw_float_of(s, gw_map_get(s, o, "lr")) == 0.1);
    assert_true(gw_float_of(s, gw_map_get(s, o, "best")) == 1.0 / 0.0);
    assert_true(gw_int_of(s, gw_map_get(s, o, "steps")) == (int64_t)1 << 60);
    assert_int_equal(gw_map_get(s, o, "nesterov").kind, GW_BOOL);
    assert_string_equal(gw_string_of(s, gw_map_get(s, o, "rule")), "sgd, \"zwölf\"");
    gw_value seed = gw_map_get(s, o, "seed");
    assert_int_equal(seed.size, 3);
    assert_memory_equal(seed.as.bytes, "\0\1\377", 3);
    gw_list *groups = gw_list_of(s, gw_map_get(s, o, "groups"));
    assert_int_equal(gw_int_of(s, gw_list_get(s, groups, 0)), 3);
    assert_int_equal(gw_list_count(gw_list_of(s, gw_list_get(s, groups, 2))), 0);
    assert_int_equal(gw_map_count(o), 8);
    assert_int_equal(gw_map_count(gw_map_of(s, gw_map_get(s, all, "empty"))), 0);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void a_map_of_tensors_has_checks_alone(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_map *values = gw_map_open(s);
    gw_map_put(s, values, "a.b", gw_zeros(s, GW_U8, 2));
    bytes b = { 0 };
    checkpoint_encode(s, values, (checkpoint_sink){ write_memory, &b });
    const char *header =
        "{\"__metadata__\":{\"gradwire.crc32c\":\"{\\\"a.b\\\":\\\"f16177d2\\\"}\"},"
        "\"a.b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}";
    assert_memory_equal(b.data + 8, header, strlen(header));
    bytes_fini(&b);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

// ---- Values that cannot be saved ----------------------------------------------------------------
static void put_same_twice(gw_scope *s, gw_map *values) {
    gw_map *inner = gw_map_open(s);
    gw_map_put(s, inner, "b", gw_ones(s, GW_F32));
    gw_map_put(s, values, "a", inner);
    gw_map_put(s, values, "a.b", gw_ones(s, GW_F32));
}
static void put_reserved(gw_scope *s, gw_map *values) {
    gw_map_put(s, values, "__metadata__", gw_ones(s, GW_F32));
}
static void put_reserved_text(gw_scope *s, gw_map *values) {
    gw_map_put(s, values, "gradwire", "me");
}
static void put_bad_name(gw_scope *s, gw_map *values) {
    gw_map_put(s, values, "\xff", gw_ones(s, GW_F32));
}
static void put_bad_text(gw_scope *s, gw_map *values) {
    gw_map_put(s, values, "text", "\xc3");
}
static void put_error(gw_scope *s, gw_map *values) {
    gw_error e = { .status = GW_TIMEOUT };
    gw_map_put(s, values, "error", &e);
}
static void put_deep(gw_scope *s, gw_map *values) {
    for (int i = 0; i < 40 && gw_ok(s); i++) {
        gw_list *outer = gw_list_open(s);
        gw_list_add(s, outer, gw_map_find(values, "deep"));
        gw_map_put(s, values, "deep", outer);
    }
}

static void an_unsupported_value_is_an_error(void **state) {
    (void)state;
    static const struct {
        void (*put)(gw_scope *s, gw_map *values);
        const char *words;
    } all[] = {
        { put_same_twice, "two values would have the name \"a.b\"" },
        { put_reserved, "two values would have the name \"__metadata__\"" },
        { put_reserved_text, "two texts would have the name \"gradwire\"" },
        { put_bad_name, "is not UTF-8" },
        { put_bad_text, "\"text\" is no UTF-8 text" },
        { put_error, "\"error\" is of kind error, which a checkpoint cannot have" },
        { put_deep, "more than 32 maps and lists" },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        gw_scope *s = gw_scope_open(NULL);
        gw_map *values = gw_map_open(s);
        all[i].put(s, values);
        assert_true(gw_ok(s));
        bytes b = { 0 };
        checkpoint_encode(s, values, (checkpoint_sink){ write_memory, &b });
        bytes_fini(&b);
        gw_error e = gw_scope_close(s);
        if (!strstr(e.text, all[i].words)) fail_msg("%s", e.text);
    }
}

// ---- Files that cannot be read ------------------------------------------------------------------
typedef struct bad {
    const char *header;
    size_t data_size;
    const char *words;
} bad;

#define ENTRY(name, dtype, shape, begin, end)                                                      \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" begin "," end   \
    "]}"

#define TEN "[[[[[[[[[["
#define HUNDRED TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN

static const bad bads[] = {
    { "{\"a\":" HUNDRED, 0, "nested deeper than 96 levels" },
    { "", 0, "its header is not a JSON object" },
    { "[]", 0, "its header is not a JSON object: it is another JSON value" },
    { "{} x", 0, "its header is not a JSON object: end of file expected" },
    { "{" ENTRY("a", "U8", "[]", "0", "1") "," ENTRY("a", "U8", "[]", "0", "1") "}", 1,
      "duplicate object key" },
    { "{\"a\":3}", 0, "\"a\" does not describe a tensor" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[]}}", 0, "\"a\" does not describe a tensor" },
    { "{\"a\":{\"dtype\":8,\"shape\":[],\"data_offsets\":[0,0]}}", 0,
      "\"a\" does not describe a tensor by dtype, shape and data_offsets" },
    { "{" ENTRY("a", "U8", "{}", "0", "1") "}", 1, "\"a\" does not describe a tensor" },
    { "{" ENTRY("a", "U8", "[-1]", "0", "1") "}", 1, "\"a\" does not describe a tensor" },
    { "{" ENTRY("a", "U8", "[1.0]", "0", "1") "}", 1, "\"a\" does not describe a tensor" },
    { "{" ENTRY("a", "U8", "[1]", "0", "1,2") "}", 1, "\"a\" does not describe a tensor" },
    { "{" ENTRY("a", "U8", "[99999999999999999999]", "0", "1") "}", 1, "too big integer" },
    { "{" ENTRY("a", "F32", "[2]", "0", "4") "}", 4,
      "\"a\" is f32 2, for which the offsets 0 to 4 are wrong" },
    { "{" ENTRY("a", "F32", "[2]", "8", "0") "}", 8, "the offsets 8 to 0 are wrong" },
    { "{" ENTRY("a", "F32", "[2147483648,2147483648,4]", "0", "0") "}", 0, "are wrong" },
    { "{" ENTRY("a", "F32", "[0,9223372036854775807]", "0", "0") "}", 0, "are wrong" },
    { "{" ENTRY("a", "F32", "[2]", "0", "8") "}", 7,
      "truncated: \"a\" ends at byte 8 of the data, of which 7 are present" },
    { "{" ENTRY("a", "F32", "[2]", "0", "8") "}", 10, "the last 2 bytes belong to no tensor" },
    { "{" ENTRY("a", "F32", "[1]", "0", "4") "," ENTRY("b", "F32", "[1]", "6", "10") "}", 10,
      "the bytes 4 to 6 belong to no tensor before \"b\"" },
    { "{" ENTRY("a", "F32", "[1]", "3", "7") "," ENTRY("b", "F32", "[1]", "0", "4") "}", 7,
      "\"a\" overlaps with \"b\"" },
    { "{\"__metadata__\":{\"gradwire.crc32c\":\"[]\"}}", 0,
      "its list of checksums is not a JSON object" },
    { "{\"__metadata__\":{\"gradwire.crc32c\":\"{\\\"a\\\":\\\"00000000\\\"}\"}," ENTRY(
          "a", "U8", "[]", "0", "1") "}",
      1, "\"a\" is damaged: bytes " },
    { "{\"__metadata__\":{\"a\":1}}", 0, "__metadata__ is not a JSON object of strings" },
    { "{\"__metadata__\":{\"gradwire\":\"{\"}}", 0,
      "the description of its nesting is not a JSON object" },
    { "{\"__metadata__\":{\"gradwire\":\"{\\\"a\\\":\\\"tensor\\\"}\"}}", 0,
      "\"a\" is declared as kind tensor, but is missing" },
    { "{\"__metadata__\":{\"gradwire\":\"{}\"}," ENTRY("a", "U8", "[]", "0", "1") "}", 1,
      "\"a\" is missing in the description of the nesting" },
    { "{\"__metadata__\":{\"gradwire\":\"{\\\"a\\\":\\\"int\\\"}\"}," ENTRY("a", "U8", "[]", "0",
                                                                            "1") "}",
      1, "\"a\" is declared as kind int, but its tensor has another shape or dtype" },
    { "{\"__metadata__\":{\"gradwire\":\"{\\\"a\\\":\\\"string\\\"}\"}}", 0,
      "the text \"a\" is missing" },
    { "{\"__metadata__\":{\"gradwire\":\"{\\\"a\\\":\\\"code\\\"}\"}}", 0, "as kind \"code\"" },
    { "{\"__metadata__\":{\"gradwire\":\"{\\\"a\\\":5}\"}}", 0,
      "\"a\" is declared without a kind" },
};

static void each_false_header_field_is_an_error(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof bads / sizeof *bads; i++)
        assert_refused_with(file_of(bads[i].header, bads[i].data_size), GW_INVALID, bads[i].words);
}

static void unsupported_dtypes_are_errors(void **state) {
    (void)state;
    assert_refused_with(file_of("{" ENTRY("a", "F8_E4M3", "[]", "0", "1") "}", 1), GW_UNSUPPORTED,
                        "\"a\" is of the dtype F8_E4M3, which is not supported here");
}

static void bools_are_checked(void **state) {
    (void)state;
    bytes b = file_of("{" ENTRY("a", "BOOL", "[2]", "0", "2") "}", 2);
    b.data[b.size - 1] = 7;
    assert_refused_with(b, GW_INVALID, "\"a\" has the byte 7, which is not a bool");
}

static void sizes_of_headers_are_checked(void **state) {
    (void)state;
    bytes b = { 0 };
    bytes_put_u32(&b, 1);
    assert_refused_with(b, GW_INVALID, "not a checkpoint: it has only 4 bytes");
    b = file_of("{}", 0);
    b.data[0] = 9;
    assert_refused_with(b, GW_INVALID, "truncated: the header has 9 bytes, of which 2 are present");
    b = file_of("{}", 0);
    b.data[7] = 1;
    assert_refused_with(b, GW_INVALID,
                        "its header would have 72057594037927938 bytes, at most 100000000");
}

static void every_cut_is_noticed(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    bytes b = { 0 };
    checkpoint_encode(s, nested(s), (checkpoint_sink){ write_memory, &b });
    assert_int_equal(gw_scope_close(s).status, GW_OK);
    for (size_t size = b.size; size-- > 0;) {
        bytes cut = { 0 };
        bytes_put(&cut, b.data, size);
        assert_refused_with(cut, GW_INVALID, "");
    }
    bytes_fini(&b);
}

// Each bit of the numbers.
static void every_flipped_bit_is_noticed(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    bytes b = { 0 };
    checkpoint_encode(s, nested(s), (checkpoint_sink){ write_memory, &b });
    assert_int_equal(gw_scope_close(s).status, GW_OK);
    reader r = reader_of(b.data, b.size);
    size_t start = 8 + (size_t)reader_u64(&r);
    assert_true(start < b.size);
    for (size_t bit = start * 8; bit < b.size * 8; bit++) {
        bytes flipped = { 0 };
        bytes_put(&flipped, b.data, b.size);
        flipped.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_refused_with(flipped, GW_INVALID, " is damaged: bytes ");
    }
    bytes_fini(&b);
}

static void write_and_read(void *context) {
    (void)context;
    gw_scope *s = gw_scope_open(NULL);
    bytes b = { 0 };
    checkpoint_encode(s, nested(s), (checkpoint_sink){ write_memory, &b });
    if (gw_ok(s) && !b.failed) decode(s, &b);
    bytes_fini(&b);
    gw_error e = gw_scope_close(s);
    (void)e;
}

static void it_survives_any_failing_allocation(void **state) {
    (void)state;
    testing_alloc_failure_loop(write_and_read, NULL);
}

GW_TESTS(checkpoint, every_dtype_round_trips, every_shape_round_trips, nested_values_round_trip,
         a_map_of_tensors_has_checks_alone, an_unsupported_value_is_an_error,
         each_false_header_field_is_an_error, unsupported_dtypes_are_errors, bools_are_checked,
         sizes_of_headers_are_checked, every_cut_is_noticed, every_flipped_bit_is_noticed,
         it_survives_any_failing_allocation);
