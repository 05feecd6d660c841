// Checkpoints of a group: all members write, any number restores. docs/protocol/checkpoint.md. The files are real.
#include "testing/cluster.h"
#include "testing/testing.h"

#include <dirent.h>
#include <gradwire.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LARGE = 700000, SMALL = 10 };

static char folder[64];

static void make_folder(void) {
    snprintf(folder, sizeof folder, "/tmp/gradwire-checkpoint-XXXXXX");
    assert_non_null(mkdtemp(folder));
}

static void remove_folder(void) {
    char command[96];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
}

static const char *home(void) {
    static char path[96];
    snprintf(path, sizeof path, "%s/saved", folder);
    return path;
}

static int count_entries(const char *path) {
    DIR *d = opendir(path);
    int count = 0;
    for (struct dirent *e; d && (e = readdir(d));) count += e->d_name[0] != '.';
    if (d) closedir(d);
    return count;
}

// ---- Values -------------------------------------------------------------------------------------

static gw_tensor *numbers(gw_scope *s, int64_t count, double first) {
    return gw_add(s, gw_arange(s, GW_F64, 0, (double)count, 1), first);
}

static gw_map *values_of(gw_scope *s, double first) {
    gw_map *all = gw_map_open(s), *model = gw_map_open(s);
    gw_list *list = gw_list_open(s);
    gw_map_put(s, model, "large", numbers(s, LARGE, first));
    gw_map_put(s, model, "small", gw_to_dtype(s, numbers(s, SMALL, first), GW_F32));
    gw_map_put(s, model, "second", numbers(s, LARGE, first + 0.5));
    gw_map_put(s, all, "model", model);
    gw_map_put(s, all, "lr", 0.1);
    gw_map_put(s, all, "name", "net");
    gw_list_add(s, list, (int64_t)first);
    gw_list_add(s, list, gw_none());
    gw_map_put(s, all, "list", list);
    return all;
}

static void expect_tensor(gw_scope *s, gw_map *map, const char *name, const gw_tensor *wanted) {
    gw_tensor *x = gw_tensor_of(s, gw_map_get(s, map, name));
    assert_string_equal(gw_scope_error(s)->text, "");
    assert_int_equal(gw_numel(x), gw_numel(wanted));
    assert_int_equal(gw_dtype_of(x), gw_dtype_of(wanted));
    assert_memory_equal(gw_data(x), gw_data(wanted),
                        (size_t)gw_numel(x) * gw_dtype_size(gw_dtype_of(x)));
}

static void expect_values(gw_scope *s, gw_map *all, double first) {
    assert_string_equal(gw_scope_error(s)->text, "");
    assert_non_null(all);
    gw_map *model = gw_map_of(s, gw_map_get(s, all, "model"));
    expect_tensor(s, model, "large", numbers(s, LARGE, first));
    expect_tensor(s, model, "small", gw_to_dtype(s, numbers(s, SMALL, first), GW_F32));
    expect_tensor(s, model, "second", numbers(s, LARGE, first + 0.5));
    assert_true(gw_float_of(s, gw_map_get(s, all, "lr")) == 0.1);
    assert_string_equal(gw_string_of(s, gw_map_get(s, all, "name")), "net");
    gw_list *list = gw_list_of(s, gw_map_get(s, all, "list"));
    assert_int_equal(gw_int_of(s, gw_list_get(s, list, 0)), (int64_t)first);
}

static gw_map *own_of(gw_scope *s, int rank) {
    gw_map *own = gw_map_open(s);
    gw_map_put(s, own, "rank", rank);
    gw_map_put(s, own, "generator", numbers(s, 5, rank));
    return own;
}

// ---- Writing and restoring ----------------------------------------------------------------------

typedef struct sizes {
    int writers, readers;
    bool has_own;
} sizes;

static void write_one(gw_scope *root, int rank, void *context) {
    const sizes *z = context;
    gw_group *g = gw_group_world(root);
    gw_map *own = z->has_own ? own_of(root, rank) : NULL;
    gw_future *f = gw_checkpoint_begin(root, home(), g, values_of(root, 3), .step = 7, .own = own);
    const char *path = gw_string_of(root, gw_wait(root, f));
    assert_string_equal(gw_scope_error(root)->text, "");
    assert_non_null(strstr(path, "/saved/step-7"));
}

static void read_one(gw_scope *root, int rank, void *context) {
    const sizes *z = context;
    gw_map *own = NULL;
    gw_group *g = gw_group_world(root);
    gw_map *all = z->has_own && z->readers == z->writers
                      ? gw_checkpoint_restore(root, home(), g, .own = &own)
                      : gw_checkpoint_restore(root, home(), g);
    expect_values(root, all, 3);
    if (!z->has_own || z->readers != z->writers) return;
    assert_int_equal(gw_int_of(root, gw_map_get(root, own, "rank")), rank);
    expect_tensor(root, own, "generator", numbers(root, 5, rank));
}

static void any_number_of_members_restores_what_others_have_written(void **state) {
    (void)state;
    static const sizes all[] = { { 1, 1, true },  { 1, 3, false }, { 2, 1, true },  { 3, 2, false },
                                 { 3, 3, true }, { 3, 8, true },  { 8, 1, false }, { 8, 8, true } };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        sizes z = all[i];
        testing_note("%d writers, %d readers", z.writers, z.readers);
        make_folder();
        cluster_run(1, (cluster_options){ .world_size = z.writers }, write_one, &z);
        char path[128];
        snprintf(path, sizeof path, "%s/step-7", home());
        assert_int_equal(count_entries(path), z.writers * (z.has_own ? 2 : 1) + 1);
        cluster_run(1, (cluster_options){ .world_size = z.readers }, read_one, &z);
        gw_scope *s = gw_scope_open(NULL);
        expect_values(s, gw_checkpoint_restore(s, home(), NULL), 3);
        assert_string_equal(gw_scope_close(s).text, "");
        remove_folder();
    }
}

GW_TESTS(checkpoint_sim, any_number_of_members_restores_what_others_have_written);
