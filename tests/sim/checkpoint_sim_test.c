// Checkpoints of a group: all members write, any number restores. docs/protocol/checkpoint.md. The files are real.
#include "testing/cluster.h"
#include "testing/testing.h"

#include <dirent.h>
#include <gradwire.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
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
    static const sizes all[] = { { 1, 1, true }, { 1, 3, false }, { 2, 1, true },  { 3, 2, false },
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

// ---- Values of the call -------------------------------------------------------------------------

typedef struct learner {
    gw_module *model;
    gw_optimizer *opt;
    gw_tensor *counter, *lent;
    float *memory;
} learner;

static learner learner_open(gw_scope *s) {
    learner x = { .model = gw_nn_sequential(s, gw_nn_linear(s, 300, 500),
                                            gw_nn_batch_norm1d(s, 500), gw_nn_linear(s, 500, 1)) };
    x.opt = gw_adam(s, gw_parameters(s, x.model), .lr = 0.1);
    x.counter = gw_zeros(s, GW_I64, 4);
    x.memory = gw_alloc(s, 1000 * sizeof *x.memory);
    for (int i = 0; i < 1000; i++) x.memory[i] = (float)i;
    x.lent = gw_from_blob(s, GW_F32, x.memory, GW_SHAPE(1000), NULL, NULL);
    return x;
}

static void learn(gw_scope *root, learner *x) {
    gw_scope *s = gw_scope_open(root);
    gw_backward(s, gw_mean(s, gw_module_call(s, x->model, gw_randn(s, GW_F32, 8, 300))));
    gw_optimizer_step(s, x->opt);
    gw_add_(s, x->counter, 1);
    for (int i = 0; i < 1000; i++) x->memory[i] += 0.5F;
    gw_scope_close_up(s);
}

static gw_map *state_of(gw_scope *s, const learner *x) {
    gw_map *all = gw_map_open(s);
    gw_map_put(s, all, "model", gw_module_state_dict(s, x->model));
    gw_map_put(s, all, "optimizer", gw_optimizer_state_dict(s, x->opt));
    gw_map_put(s, all, "counter", x->counter);
    gw_map_put(s, all, "lent", x->lent);
    gw_map_put(s, all, "strided", gw_slice(s, x->lent, 0, 1, 900, 3));
    return all;
}

static void expect_equal(gw_scope *s, gw_map *a, gw_map *b) {
    assert_int_equal(gw_map_count(a), gw_map_count(b));
    for (int i = 0; i < gw_map_count(a); i++) {
        const char *name = gw_map_key(s, a, i);
        gw_value x = gw_map_get(s, a, name), y = gw_map_get(s, b, name);
        testing_note("%s", name);
        assert_int_equal(x.kind, y.kind);
        if (x.kind == GW_MAP)
            expect_equal(s, gw_map_of(s, x), gw_map_of(s, y));
        else if (x.kind == GW_TENSOR)
            expect_tensor(s, b, name, x.as.tensor);
        else if (x.kind == GW_INT)
            assert_int_equal(gw_int_of(s, x), gw_int_of(s, y));
        else if (x.kind == GW_FLOAT)
            assert_true(gw_float_of(s, x) == gw_float_of(s, y));
    }
}

// A file that is written at once is the measure. The seed decides how much of the checkpoint is written before,
// between and after the steps.
static void begin_and_learn(gw_scope *root, int rank, void *context) {
    (void)context;
    gw_seed(root, 5);
    gw_group *g = gw_group_world(root);
    learner x = learner_open(root);
    for (int i = 0; i < 3; i++) learn(root, &x);
    char path[128];
    snprintf(path, sizeof path, "%s/rank%d.safetensors", folder, rank);
    gw_scope *s = gw_scope_open(root);
    gw_checkpoint_save(s, path, state_of(s, &x));
    gw_future *f = gw_keep(root, gw_checkpoint_begin(s, home(), g, state_of(s, &x)));
    gw_scope_close_up(s);
    for (int i = 0; i < 4; i++) learn(root, &x);
    gw_wait(root, f);
    assert_string_equal(gw_scope_error(root)->text, "");
    expect_equal(root, gw_checkpoint_load(root, path), gw_checkpoint_restore(root, home(), g));
}

static void begin_with_seed(uint64_t seed, void *context) {
    (void)context;
    make_folder();
    cluster_run(seed, (cluster_options){ .world_size = 1 + (int)(seed % 3) }, begin_and_learn,
                NULL);
    remove_folder();
}

static void steps_that_follow_change_nothing_in_the_files(void **state) {
    (void)state;
    testing_for_seeds(12, begin_with_seed, NULL);
}

// ---- One member after another -------------------------------------------------------------------

static void write_and_leave(gw_scope *root, int rank, void *context) {
    (void)context, (void)rank;
    gw_scope *s = gw_scope_open(root);
    gw_checkpoint_begin(s, home(), gw_group_world(root), values_of(s, 1));
    gw_scope_close_up(s);  // with the future
}

static void shutdown_waits_for_a_checkpoint_that_no_program_waits_for(void **state) {
    (void)state;
    make_folder();
    for (int i = 1; i <= 3; i++) {
        cluster_run((uint64_t)i, (cluster_options){ .world_size = 3 }, write_and_leave, NULL);
        gw_scope *s = gw_scope_open(NULL);
        expect_values(s, gw_checkpoint_restore(s, home(), NULL), 1);
        assert_string_equal(gw_scope_close(s).text, "");
        assert_int_equal(count_entries(home()), i);  // numbered from 0
    }
    remove_folder();
}

static void reform_at_once(gw_scope *root, int rank, void *context) {
    (void)context, (void)rank;
    gw_group *g = gw_group_world(root, .name = "trainers");
    gw_future *f = gw_checkpoint_begin(root, home(), g, values_of(root, 1));
    g = gw_group_reform(root, g);
    gw_future *second = gw_checkpoint_begin(root, home(), g, values_of(root, 2));
    gw_wait(root, f);
    gw_wait(root, second);
    expect_values(root, gw_checkpoint_restore(root, home(), g), 2);
}

static void the_group_may_be_re_formed_meanwhile(void **state) {
    (void)state;
    make_folder();
    cluster_run(1, (cluster_options){ .world_size = 3 }, reform_at_once, NULL);
    assert_int_equal(count_entries(home()), 2);
    remove_folder();
}

static void write_alone(gw_scope *root, int rank, void *context) {
    (void)context;
    char path[96];
    snprintf(path, sizeof path, "%s/%d", folder, rank);
    gw_map *own = NULL;
    gw_wait(root, gw_checkpoint_begin(root, path, NULL, values_of(root, rank), .step = 4,
                                      .own = own_of(root, rank)));
    expect_values(root, gw_checkpoint_restore(root, path, NULL, .own = &own), rank);
    assert_int_equal(gw_int_of(root, gw_map_get(root, own, "rank")), rank);
}

static void a_worker_writes_without_a_group(void **state) {
    (void)state;
    make_folder();
    cluster_run(1, (cluster_options){ .world_size = 2 }, write_alone, NULL);
    remove_folder();
}

static void restore_from_no_folder(gw_scope *root, int rank, void *context) {
    (void)context, (void)rank;
    assert_null(gw_checkpoint_restore(root, "/dev/null", gw_group_world(root)));
    const gw_error *e = gw_scope_error(root);
    if (e->status != GW_SYSTEM || !strstr(e->text, "/dev/null: opendir: Not a directory"))
        fail_msg("%s", e->text);
    gw_scope_clear(root);
}

static void a_home_that_cannot_be_read_is_an_error_on_all_members(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 3 }, restore_from_no_folder, NULL);
}

static void without_a_checkpoint_there_is_no_value_and_no_error(void **state) {
    (void)state;
    make_folder();
    gw_scope *s = gw_scope_open(NULL);
    gw_map *own = (gw_map *)1;
    assert_null(gw_checkpoint_restore(s, home(), NULL, .own = &own));
    assert_null(own);
    assert_null(gw_checkpoint_restore(s, folder, NULL));
    assert_string_equal(gw_scope_close(s).text, "");
    remove_folder();
}

// ---- Errors -------------------------------------------------------------------------------------

static void expect_error(gw_scope *s, gw_status status, const char *text) {
    const gw_error *e = gw_scope_error(s);
    if (e->status != status || !strstr(e->text, text))
        fail_msg("\"%s\" (%s) does not have \"%s\" (%s)", e->text, gw_status_name(e->status), text,
                 gw_status_name(status));
    gw_scope_clear(s);
}

static void restore_own(gw_scope *root, int rank, void *context) {
    (void)context, (void)rank;
    gw_map *own = NULL;
    gw_group *g = gw_group_world(root);
    assert_null(gw_checkpoint_restore(root, home(), g, .own = &own));
    expect_error(root, GW_MISMATCH,
                 "the checkpoint has values of 3 members (.own), but 2 members restore it");
    expect_values(root, gw_checkpoint_restore(root, home(), g), 3);
}

static void values_of_single_members_need_a_group_of_the_same_size(void **state) {
    (void)state;
    sizes z = { 3, 2, true };
    make_folder();
    cluster_run(1, (cluster_options){ .world_size = 3 }, write_one, &z);
    cluster_run(1, (cluster_options){ .world_size = 2 }, restore_own, NULL);
    remove_folder();
}

static void begin_differently(gw_scope *root, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(root);
    gw_map *values = values_of(root, 1), *fewer = gw_map_open(root);
    gw_map_put(root, fewer, "x", gw_zeros(root, GW_F32, rank == 1 ? 2 : 3));
    gw_checkpoint_begin(root, home(), g, values, .step = rank == 1 ? 5 : 4);
    expect_error(root, GW_MISMATCH, "gw_checkpoint_begin: .step 4 on w0, and .step 5 on w1");
    gw_checkpoint_begin(root, home(), g, values, .keep = rank == 2 ? 5 : 4);
    expect_error(root, GW_MISMATCH, "gw_checkpoint_begin: .keep 4 on w0, and .keep 5 on w2");
    gw_checkpoint_begin(root, home(), g, fewer);
    expect_error(root, GW_MISMATCH, "1 tensors of 12 bytes (names and shapes ");
    gw_checkpoint_begin(root, rank ? "/tmp" : home(), g, fewer);
    expect_error(root, GW_MISMATCH, "and folder /tmp on w1");
    gw_checkpoint_begin(root, home(), g, values, .own = rank == 1 ? fewer : NULL);
    expect_error(root, GW_MISMATCH, "without .own on w0, and with .own on w1");
    assert_int_equal(access(home(), F_OK), -1);
    gw_wait(root, gw_checkpoint_begin(root, home(), g, values));
    expect_values(root, gw_checkpoint_restore(root, home(), g), 1);
}

static void members_that_differ_write_nothing(void **state) {
    (void)state;
    make_folder();
    cluster_run(1, (cluster_options){ .world_size = 3 }, begin_differently, NULL);
    remove_folder();
}

static void be_refused(gw_scope *root, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(root);
    gw_map *values = values_of(root, 1), *bad = gw_map_open(root);
    gw_error e = { .status = GW_TIMEOUT };
    gw_map_put(root, bad, "e", &e);
    bool is_bad = rank == 1;
    gw_checkpoint_begin(root, home(), g, is_bad ? bad : values);
    expect_error(root, GW_INVALID, "\"e\" is of kind error, which a checkpoint cannot have");
    gw_map *sparse = gw_map_open(root);
    int64_t row = 1;
    gw_map_put(root, sparse, "rows",
               gw_rows(root, gw_from(root, &row, 1), gw_ones(root, GW_F32, 1, 2), 3));
    gw_checkpoint_begin(root, home(), g, is_bad ? sparse : values);
    assert_int_equal(gw_scope_error(root)->status, GW_INVALID);
    gw_scope_clear(root);
    gw_checkpoint_begin(root, is_bad ? "" : home(), g, values);
    expect_error(root, GW_INVALID, "gw_checkpoint_begin: no folder");
    gw_checkpoint_begin(root, home(), g, is_bad ? NULL : values);
    expect_error(root, GW_INVALID, "gw_checkpoint_begin: no map");
    gw_checkpoint_begin(root, home(), g, values, .step = is_bad ? -2 : 0);
    expect_error(root, GW_INVALID, ".step is -2, but must be at least -1");
    gw_checkpoint_begin(root, home(), g, values, .keep = is_bad ? -1 : 0);
    expect_error(root, GW_INVALID, ".keep is -1, but must be at least 0");
    gw_checkpoint_begin(root, home(), g, values, .bytes_per_second = is_bad ? -1 : 0);
    expect_error(root, GW_INVALID, ".bytes_per_second is -1, but must be at least 0");
    if (is_bad) gw_fail(root, GW_REMOTE, "no more data");
    gw_checkpoint_begin(root, home(), g, values);
    expect_error(root, GW_REMOTE, "no more data");
    assert_null(gw_checkpoint_restore(root, is_bad ? "" : home(), g));
    expect_error(root, GW_INVALID, "gw_checkpoint_restore: no folder is given");
    assert_int_equal(access(home(), F_OK), -1);
}

static void a_call_that_is_refused_on_one_member_fails_on_all(void **state) {
    (void)state;
    make_folder();
    cluster_run(1, (cluster_options){ .world_size = 3 }, be_refused, NULL);
    remove_folder();
}

// Rank 1 alone has more of its own than the limit of a file allows.
static void fill_the_disk(gw_scope *root, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(root);
    gw_map *values = gw_map_open(root), *own = gw_map_open(root);
    gw_map_put(root, values, "x", numbers(root, 100, 0));
    gw_map_put(root, own, "y", numbers(root, rank == 1 ? 100000 : 10, 0));
    gw_future *f = gw_checkpoint_begin(root, home(), g, values, .step = 2, .own = own);
    gw_wait(root, f);
    expect_error(root, GW_SYSTEM, "w1: ");
    assert_non_null(
        strstr(gw_future_error(f)->text, "own-2-of-3.safetensors: write: File too large"));
}

static void a_full_disk_leaves_the_older_checkpoint(void **state) {
    (void)state;
    struct rlimit limit, small;
    sizes z = { 3, 3, false };
    make_folder();
    cluster_run(1, (cluster_options){ .world_size = 3 }, write_one, &z);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    small = (struct rlimit){ 400000, limit.rlim_max };
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    cluster_run(1, (cluster_options){ .world_size = 3 }, fill_the_disk, NULL);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(count_entries(home()), 1);
    cluster_run(1, (cluster_options){ .world_size = 3 }, read_one, &z);
    remove_folder();
}

static void write_nowhere(gw_scope *root, int rank, void *context) {
    (void)context, (void)rank;
    gw_future *f =
        gw_checkpoint_begin(root, "/proc/nothing/at/all", gw_group_world(root), values_of(root, 1));
    gw_wait(root, f);
    expect_error(root, GW_NOT_FOUND, "w0: /proc/nothing/at/all: mkdir: No such file or directory");
}

static void a_folder_that_cannot_be_made_is_an_error_on_all_members(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 3 }, write_nowhere, NULL);
}

GW_TESTS(checkpoint_sim, any_number_of_members_restores_what_others_have_written,
         steps_that_follow_change_nothing_in_the_files,
         shutdown_waits_for_a_checkpoint_that_no_program_waits_for,
         the_group_may_be_re_formed_meanwhile, a_worker_writes_without_a_group,
         without_a_checkpoint_there_is_no_value_and_no_error,
         a_home_that_cannot_be_read_is_an_error_on_all_members,
         values_of_single_members_need_a_group_of_the_same_size, members_that_differ_write_nothing,
         a_call_that_is_refused_on_one_member_fails_on_all, a_full_disk_leaves_the_older_checkpoint,
         a_folder_that_cannot_be_made_is_an_error_on_all_members);
