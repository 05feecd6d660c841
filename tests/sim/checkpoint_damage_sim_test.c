// Damaged checkpoints of a group: each is named and skipped, and an older one is taken. CKPT-10 of
// docs/protocol/checkpoint.md.
#include "base/crc32c.h"
#include "base/log.h"
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MEMBERS = 2, LARGE = 300000, FILE_MAX = 3 << 20 };

static char folder[64], lines[4096];

static void note_line(const char *line) {
    size_t size = strlen(lines);
    snprintf(lines + size, sizeof lines - size, "%s\n", line);
}

static void remove_folder(void) {
    char command[96];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
}

static gw_map *values_of(gw_scope *s, int64_t count, double x) {
    gw_map *all = gw_map_open(s);
    gw_map_put(s, all, "weight", gw_add(s, gw_arange(s, GW_F32, 0, (double)count, 1), x));
    gw_map_put(s, all, "bias", gw_full(s, GW_F32, x, 5));
    gw_map_put(s, all, "mask", gw_to_dtype(s, gw_ones(s, GW_F32, 3), GW_BOOL8));
    gw_map_put(s, all, "step", (int64_t)x);
    gw_map_put(s, all, "name", "net");
    return all;
}

typedef struct job {
    int64_t count;  // of the weight
    gw_map **own;
} job;

// Checkpoints of steps 1 and 2.
static void write_two(gw_scope *root, int rank, void *context) {
    const job *j = context;
    gw_map *own = gw_map_open(root);
    gw_map_put(root, own, "rank", rank);
    gw_group *g = gw_group_world(root);
    for (int step = 1; step <= 2; step++)
        gw_wait(root, gw_checkpoint_begin(root, folder, g, values_of(root, j->count, step),
                                          .step = step, .own = own));
    assert_string_equal(gw_scope_error(root)->text, "");
}

static void make_two(int64_t count) {
    job j = { .count = count };
    snprintf(folder, sizeof folder, "/tmp/gradwire-damage-XXXXXX");
    assert_non_null(mkdtemp(folder));
    cluster_run(1, (cluster_options){ .world_size = MEMBERS }, write_two, &j);
}

// Restores both kinds of values, and returns the step; 0: no checkpoint is whole.
static int restore(int64_t count) {
    gw_scope *s = gw_scope_open(NULL);
    lines[0] = '\0';
    log_hook = note_line;
    gw_map *all = gw_checkpoint_restore(s, folder, NULL);
    log_hook = NULL;
    assert_string_equal(gw_scope_error(s)->text, "");
    int step = all ? (int)gw_int_of(s, gw_map_get(s, all, "step")) : 0;
    if (all) {
        gw_tensor *x = gw_tensor_of(s, gw_map_get(s, all, "weight"));
        gw_tensor *wanted = gw_tensor_of(s, gw_map_get(s, values_of(s, count, step), "weight"));
        assert_int_equal(gw_numel(x), count);
        assert_memory_equal(gw_data(x), gw_data(wanted), (size_t)count * sizeof(float));
        assert_string_equal(gw_string_of(s, gw_map_get(s, all, "name")), "net");
    }
    assert_string_equal(gw_scope_close(s).text, "");
    return step;
}

// ---- Files --------------------------------------------------------------------------------------

static const char *const files[] = { "index.json", "part-1-of-2.safetensors",
                                     "part-2-of-2.safetensors", "own-1-of-2.safetensors",
                                     "own-2-of-2.safetensors" };
enum { FILES = sizeof files / sizeof *files };

static const char *path_of(const char *file) {
    static char path[160];
    snprintf(path, sizeof path, "%s/step-2/%s", folder, file);
    return path;
}

static size_t read_file(const char *file, char *out) {
    FILE *f = fopen(path_of(file), "rb");
    assert_non_null(f);
    size_t size = fread(out, 1, FILE_MAX, f);
    fclose(f);
    assert_true(size > 0 && size < FILE_MAX);
    return size;
}

static void write_file(const char *file, const char *bytes, size_t size) {
    FILE *f = fopen(path_of(file), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, size, f), size);
    fclose(f);
}

static void expect_skipped(const char *words) {
    if (restore(20) != 1) fail_msg("a damaged checkpoint is taken");
    if (!strstr(lines, "/step-2 is skipped, because it is not a complete checkpoint: ") ||
        (words && !strstr(lines, words)))
        fail_msg("\"%s\" does not have \"%s\"", lines, words);
}

// ---- Damage of any kind -------------------------------------------------------------------------

static char bytes[FILE_MAX];

static void a_file_that_ends_early_is_no_checkpoint(void **state) {
    (void)state;
    make_two(20);
    assert_int_equal(restore(20), 2);
    for (int i = 0; i < FILES; i++) {
        size_t size = read_file(files[i], bytes);
        for (size_t end = 0; end < size; end += (size_t)testing_scaled(10) < 10 ? 7 : 1) {
            testing_note("%s ends after %zu of %zu bytes", files[i], end, size);
            write_file(files[i], bytes, end);
            expect_skipped(NULL);
        }
        bytes[size] = '\0';
        testing_note("%s has a byte more", files[i]);
        write_file(files[i], bytes, size + 1);
        expect_skipped(NULL);
        write_file(files[i], bytes, size);
    }
    assert_int_equal(restore(20), 2);
    remove_folder();
}

// Own parts are read only by the members that ask for their values; without them a flipped bit in their numbers is not
// noticed.
static size_t checked_size(const char *file, size_t size) {
    if (strncmp(file, "own-", 4) != 0) return size;
    uint64_t header;
    memcpy(&header, bytes, sizeof header);
    return (size_t)header + 8;
}

static void a_flipped_bit_of_any_byte_is_noticed(void **state) {
    (void)state;
    make_two(20);
    int steps = testing_scaled(10) < 10 ? 61 : 5;
    for (int i = 0; i < FILES; i++) {
        size_t size = read_file(files[i], bytes), end = checked_size(files[i], size);
        for (size_t bit = 0; bit < end * 8; bit += (size_t)steps) {
            testing_note("%s, bit %zu of byte %zu", files[i], bit % 8, bit / 8);
            bytes[bit / 8] ^= (char)(1 << bit % 8);
            write_file(files[i], bytes, size);
            expect_skipped(NULL);
            bytes[bit / 8] ^= (char)(1 << bit % 8);
        }
        write_file(files[i], bytes, size);
    }
    assert_int_equal(restore(20), 2);
    remove_folder();
}

static void a_missing_part_is_noticed(void **state) {
    (void)state;
    char hidden[200];
    make_two(20);
    for (int i = 1; i < FILES; i++) {
        testing_note("%s", files[i]);
        snprintf(hidden, sizeof hidden, "%s.hidden", path_of(files[i]));
        assert_int_equal(rename(path_of(files[i]), hidden), 0);
        expect_skipped("No such file");
        assert_non_null(strstr(lines, files[i]));
        assert_int_equal(mkdir(path_of(files[i]), 0777), 0);
        expect_skipped("not a regular file");
        assert_int_equal(rmdir(path_of(files[i])), 0);
        assert_int_equal(rename(hidden, path_of(files[i])), 0);
    }
    assert_int_equal(restore(20), 2);
    remove_folder();
}

// It is a draft, of which the log has no line.
static void without_an_index_a_folder_is_none(void **state) {
    (void)state;
    make_two(20);
    assert_int_equal(unlink(path_of("index.json")), 0);
    assert_int_equal(restore(20), 1);
    assert_string_equal(lines, "");
    remove_folder();
}

static void parts_of_another_checkpoint_are_noticed(void **state) {
    (void)state;
    char command[256];
    make_two(20);
    for (int i = 1; i < 3; i++) {
        size_t size = read_file(files[i], bytes);
        snprintf(command, sizeof command, "cp %s/step-1/%s %s/step-2", folder, files[i], folder);
        assert_int_equal(system(command), 0);
        expect_skipped(files[i]);
        write_file(files[i], bytes, size);
    }
    assert_int_equal(restore(20), 2);
    remove_folder();
}

static void if_none_is_whole_there_is_no_value(void **state) {
    (void)state;
    char command[128];
    make_two(20);
    snprintf(command, sizeof command, "rm %s/*/part-1*", folder);
    assert_int_equal(system(command), 0);
    assert_int_equal(restore(20), 0);
    assert_non_null(strstr(lines, "/step-1 is skipped"));
    assert_non_null(strstr(lines, "/step-2 is skipped"));
    remove_folder();
}

static void restore_with_members(gw_scope *root, int rank, void *context) {
    (void)context;
    gw_map *own = NULL;
    gw_map *all = gw_checkpoint_restore(root, folder, gw_group_world(root), .own = &own);
    assert_string_equal(gw_scope_error(root)->text, "");
    assert_int_equal(gw_int_of(root, gw_map_get(root, all, "step")), 1);
    assert_int_equal(gw_int_of(root, gw_map_get(root, own, "rank")), rank);
}

// Only rank 1 reads the damaged numbers: all take the older one.
static void all_members_take_the_same_checkpoint(void **state) {
    (void)state;
    make_two(20);
    size_t size = read_file("own-2-of-2.safetensors", bytes);
    bytes[size - 1] ^= 1;
    write_file("own-2-of-2.safetensors", bytes, size);
    assert_int_equal(restore(20), 2);
    cluster_run(1, (cluster_options){ .world_size = MEMBERS }, restore_with_members, NULL);
    remove_folder();
}

// ---- False fields of the index, whose checksum is right -------------------------------------------

// Replaces the first |from| in the index by |to|.
static void edit_index(size_t size, const char *from, const char *to) {
    static char text[FILE_MAX];
    char *at = memmem(bytes, size, from, strlen(from));
    if (!at) fail_msg("the index does not have %s: %.*s", from, (int)size, bytes);
    int count = snprintf(text, sizeof text, "%.*s%s%.*s", (int)(at - bytes), bytes, to,
                         (int)(size - (size_t)(at - bytes) - strlen(from)), at + strlen(from));
    snprintf(text + count - 10, 11, "%08" PRIx32 "\"}", crc32c(0, text, (size_t)count - 10));
    write_file("index.json", text, (size_t)count);
}

static void each_false_field_of_an_index_is_noticed(void **state) {
    (void)state;
    static const char *const edits[][3] = {
        { "\"format\":1", "\"format\":2", "the index has the format 2, not 1" },
        { "\"format\":1", "\"format\":\"1\"", "no valid \"format\"" },
        { "\"step\":2", "\"step\":-2", "no valid \"step\"" },
        { "\"members\":2", "\"members\":0", "no valid \"members\"" },
        { "\"own\":2", "\"own\":1", "no valid \"own\"" },
        { "\"weight_map\":{", "\"weight_map\":[],\"x\":{", "no valid \"weight_map\"" },
        { "\"texts\":{", "\"texts\":{\"a\":1,", "no valid \"texts\"" },
        { "\"ranges\":{", "\"ranges\":[],\"x\":{", "no valid \"ranges\"" },
        { "\"files\":{", "\"files\":1,\"x\":{", "no valid \"files\"" },
        { "\"bias\":\"part", "\"bias\":\"art",
          "but the index does not list this name in that file" },
        { "\"bias\":\"part-2", "\"bias\":\"part-1",
          "but the index does not list this name in that file" },
        { "\"bias\":", "\"no\":\"part-1-of-2.safetensors\",\"bias\":", "the index lists " },
        { "\"bias\":", "\"biaz\":", "but the index does not list this name in that file" },
        { "\"part-1-of-2.safetensors\":{", "\"../x\":{", "is not the name of a part" },
        { "\"part-1-of-2.safetensors\":{", "\"part-3-of-2.safetensors\":{", "No such file" },
        { "\"size\":", "\"size\":1", " bytes, not 1" },
        { "\"header\":\"", "\"header\":\"0", "no size and checksum of " },
        { "\"name\":\"net\"", "\"nam\":\"net\"", "the text \"name\" is missing" },
        { "\\\"bias\\\":\\\"tensor\\\"", "\\\"bia\\\":\\\"tensor\\\"", "\"bia\" is declared" },
    };
    make_two(20);
    size_t size = read_file("index.json", bytes);
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
        testing_note("%s -> %s", edits[i][0], edits[i][1]);
        edit_index(size, edits[i][0], edits[i][1]);
        expect_skipped(edits[i][2]);
    }
    write_file("index.json", bytes, size);
    assert_int_equal(restore(20), 2);
    remove_folder();
}

static void each_false_range_is_noticed(void **state) {
    (void)state;
    static const char *const edits[][3] = {
        { "300000]}", "300001]}", "the ranges of \"weight\" do not cover the whole tensor" },
        { "300000]}", "299999]}", "the ranges of \"weight\" do not cover the whole tensor" },
        { "\"ends\":[", "\"ends\":[7,", "ranges of \"weight\" are missing" },
        { "\"ends\":[", "\"ends\":[0,", "the ranges of \"weight\" do not cover the whole tensor" },
        { "\"ends\":[", "\"ends\":[-1,", "the ranges of \"weight\" do not cover the whole tensor" },
        { "\"ends\":[", "\"end\":[", "ranges of \"weight\" are missing" },
        { "\"shape\":[300000]", "\"shape\":[3000000000000]", "do not cover the whole tensor" },
        { "\"shape\":[300000]", "\"shape\":[9000000000000000000,9]", "does not describe a tensor" },
        { "\"dtype\":\"F32\"", "\"dtype\":\"F64\"", "is missing, or of another size" },
        { "\"dtype\":\"F32\"", "\"dtype\":\"I32\"", "is missing, or of another size" },
        { "\"dtype\":\"F32\"", "\"dtype\":\"F3\"", "which is not supported" },
        { "\"ranges\":{", "\"ranges\":{\"new\":{},", "does not describe a tensor" },
    };
    make_two(LARGE);
    assert_int_equal(restore(LARGE), 2);
    size_t size = read_file("index.json", bytes);
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
        testing_note("%s -> %s", edits[i][0], edits[i][1]);
        edit_index(size, edits[i][0], edits[i][1]);
        assert_int_equal(restore(LARGE), 1);
        if (!strstr(lines, edits[i][2])) fail_msg("%s", lines);
    }
    write_file("index.json", bytes, size);
    assert_int_equal(restore(LARGE), 2);
    remove_folder();
}

GW_TESTS_WITH_LIMIT(checkpoint_damage_sim, 300, a_file_that_ends_early_is_no_checkpoint,
                    a_flipped_bit_of_any_byte_is_noticed, a_missing_part_is_noticed,
                    without_an_index_a_folder_is_none, parts_of_another_checkpoint_are_noticed,
                    if_none_is_whole_there_is_no_value, all_members_take_the_same_checkpoint,
                    each_false_field_of_an_index_is_noticed, each_false_range_is_noticed);
