#include "testing/testing.h"

#include <gradwire/checkpoint.h>
#include <gradwire/nn.h>

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct temp_dir {
    char folder[64], path[96];
} temp_dir;

static temp_dir temp_dir_open(void) {
    temp_dir p = { .folder = "/tmp/gradwire-checkpoint-XXXXXX" };
    assert_non_null(mkdtemp(p.folder));
    snprintf(p.path, sizeof p.path, "%s/a.safetensors", p.folder);
    return p;
}

static void temp_dir_close(const temp_dir *p) {
    char command[96];
    snprintf(command, sizeof command, "rm -rf %s", p->folder);
    assert_int_equal(system(command), 0);
}

static int count_files(const temp_dir *p) {
    DIR *d = opendir(p->folder);
    assert_non_null(d);
    int count = 0;
    for (struct dirent *e; (e = readdir(d));) count += e->d_name[0] != '.';
    closedir(d);
    return count;
}

static gw_map *values_of(gw_scope *s, double x) {
    gw_map *values = gw_map_open(s);
    gw_map_put(s, values, "x", gw_full(s, GW_F32, x, 100, 100));
    return values;
}

static double value_in(gw_scope *s, const char *path) {
    gw_map *values = gw_checkpoint_load(s, path);
    gw_tensor *x = gw_tensor_of(s, gw_map_get(s, values, "x"));
    return gw_item(s, gw_mean(s, x));
}

// ---- Saving -------------------------------------------------------------------------------------
static void a_module_is_saved_and_loaded(void **state) {
    (void)state;
    temp_dir p = temp_dir_open();
    gw_scope *s = gw_scope_open(NULL);
    gw_module *a = gw_nn_sequential(s, gw_nn_linear(s, 3, 4), gw_nn_linear(s, 4, 2));
    gw_module *b = gw_nn_sequential(s, gw_nn_linear(s, 3, 4), gw_nn_linear(s, 4, 2));
    gw_checkpoint_save(s, p.path, gw_module_state_dict(s, a));
    gw_module_load_state_dict(s, b, gw_checkpoint_load(s, p.path));
    gw_tensor *x = gw_randn(s, GW_F32, 5, 3);
    assert_string_equal(gw_to_text(s, gw_module_call(s, a, x)),
                        gw_to_text(s, gw_module_call(s, b, x)));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
    assert_int_equal(count_files(&p), 1);
    temp_dir_close(&p);
}

static void a_new_file_replaces_the_old_one(void **state) {
    (void)state;
    temp_dir p = temp_dir_open();
    gw_scope *s = gw_scope_open(NULL);
    for (int i = 0; i < 3; i++) {
        gw_checkpoint_save(s, p.path, values_of(s, i));
        assert_float_equal(value_in(s, p.path), i, 0);
    }
    assert_int_equal(gw_scope_close(s).status, GW_OK);
    assert_int_equal(count_files(&p), 1);
    temp_dir_close(&p);
}

static void a_failed_write_leaves_the_old_file(void **state) {
    (void)state;
    temp_dir p = temp_dir_open();
    gw_scope *s = gw_scope_open(NULL);
    gw_checkpoint_save(s, p.path, values_of(s, 5));
    struct rlimit limit, small = { .rlim_cur = 8192, .rlim_max = RLIM_INFINITY };
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    small.rlim_max = limit.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    gw_checkpoint_save(s, p.path, values_of(s, 6));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(gw_scope_error(s)->status, GW_SYSTEM);
    assert_non_null(strstr(gw_scope_error(s)->text, "a.safetensors: write: File too large"));
    gw_scope_clear(s);
    assert_float_equal(value_in(s, p.path), 5, 0);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
    assert_int_equal(count_files(&p), 1);
    temp_dir_close(&p);
}

static void values_that_cannot_be_saved_leave_the_old_file(void **state) {
    (void)state;
    temp_dir p = temp_dir_open();
    gw_scope *s = gw_scope_open(NULL);
    gw_checkpoint_save(s, p.path, values_of(s, 5));
    gw_map *bad = values_of(s, 6);
    gw_error e = { .status = GW_TIMEOUT };
    gw_map_put(s, bad, "e", &e);
    gw_checkpoint_save(s, p.path, bad);
    assert_int_equal(gw_scope_error(s)->status, GW_INVALID);
    gw_scope_clear(s);
    assert_float_equal(value_in(s, p.path), 5, 0);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
    assert_int_equal(count_files(&p), 1);
    temp_dir_close(&p);
}

static void it_needs_a_folder(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_checkpoint_save(s, "/nowhere/at/all", values_of(s, 1));
    gw_error e = gw_scope_close(s);
    assert_int_equal(e.status, GW_NOT_FOUND);
    assert_non_null(strstr(e.text, "/nowhere/at/all: open: No such file"));
}

static void only_files_are_replaced(void **state) {
    (void)state;
    temp_dir p = temp_dir_open();
    gw_scope *s = gw_scope_open(NULL);
    assert_int_equal(mkdir(p.path, 0700), 0);
    gw_checkpoint_save(s, p.path, values_of(s, 1));
    gw_error e = gw_scope_close(s);
    assert_int_equal(e.status, GW_INVALID);
    assert_non_null(strstr(e.text, "not a regular file"));
    assert_int_equal(count_files(&p), 1);
    assert_int_equal(rmdir(p.path), 0);

    struct stat about;
    assert_int_equal(mkfifo(p.path, 0600), 0);
    s = gw_scope_open(NULL);
    gw_checkpoint_save(s, p.path, values_of(s, 1));
    assert_int_equal(gw_scope_close(s).status, GW_INVALID);
    assert_int_equal(lstat(p.path, &about), 0);
    assert_true(S_ISFIFO(about.st_mode));
    temp_dir_close(&p);
}

static void a_missing_entry_is_an_error(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_checkpoint_save(s, NULL, gw_map_open(s));
    assert_string_equal(gw_scope_error(s)->text, "gw_checkpoint_save: the path is NULL");
    gw_scope_clear(s);
    gw_checkpoint_save(s, "/nowhere/at/all", NULL);
    assert_string_equal(gw_scope_error(s)->text, "gw_checkpoint_save: the map is NULL");
    gw_scope_clear(s);
    assert_int_equal(gw_map_count(gw_checkpoint_load(s, NULL)), 0);
    assert_string_equal(gw_scope_close(s).text, "gw_checkpoint_load: the path is NULL");
}

// ---- Loading ------------------------------------------------------------------------------------
static void a_missing_file_is_an_error(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    assert_int_equal(gw_map_count(gw_checkpoint_load(s, "/nowhere.safetensors")), 0);
    gw_error e = gw_scope_close(s);
    assert_int_equal(e.status, GW_NOT_FOUND);
    assert_string_equal(e.text, "/nowhere.safetensors: open: No such file or directory");
}

static void a_pipe_is_not_waited_for(void **state) {
    (void)state;
    temp_dir p = temp_dir_open();
    gw_scope *s = gw_scope_open(NULL);
    assert_int_equal(mkfifo(p.path, 0600), 0);
    gw_checkpoint_load(s, p.path);
    gw_error e = gw_scope_close(s);
    assert_int_equal(e.status, GW_INVALID);
    assert_non_null(strstr(e.text, "not a regular file"));
    temp_dir_close(&p);
}

static void a_truncated_file_is_an_error(void **state) {
    (void)state;
    temp_dir p = temp_dir_open();
    gw_scope *s = gw_scope_open(NULL);
    gw_checkpoint_save(s, p.path, values_of(s, 1));
    assert_int_equal(truncate(p.path, 20000), 0);
    gw_checkpoint_load(s, p.path);
    gw_error e = gw_scope_close(s);
    assert_int_equal(e.status, GW_INVALID);
    assert_non_null(strstr(e.text, "a.safetensors: truncated: \"x\" ends at byte 40000"));
    temp_dir_close(&p);
}

// ---- Others' tools ------------------------------------------------------------------------------
static const char reader_elsewhere[] =
    "import json, struct, sys\n"
    "b = open(sys.argv[1], 'rb').read()\n"
    "n, = struct.unpack('<Q', b[:8])\n"
    "header, data = json.loads(b[8:8 + n]), b[8 + n:]\n"
    "meta = header.pop('__metadata__')\n"
    "def floats(name):\n"
    "    e = header[name]\n"
    "    begin, end = e['data_offsets']\n"
    "    code = {'F32': 'f', 'F64': 'd', 'I64': 'q', 'BOOL': '?'}[e['dtype']]\n"
    "    return e['shape'], [x for x, in struct.iter_unpack('<' + code, data[begin:end])]\n"
    "assert floats('model.weight') == ([2, 3], [1, 2, 3, 4, 5, 6.5]), header\n"
    "assert floats('lr') == ([], [0.1]), header\n"
    "assert floats('step') == ([], [12]), header\n"
    "assert floats('done') == ([], [True]), header\n"
    "assert meta['note'] == 'f\\u00fcnf', meta\n"
    "assert json.loads(meta['gradwire'])['model'] == {'weight': 'tensor'}, meta\n"
    "assert max(e['data_offsets'][1] for e in header.values()) == len(data)\n"
    "assert (8 + n) % 8 == 0\n";

static const char writer_elsewhere[] =
    "import json, struct, sys\n"
    "header = {'__metadata__': {'format': 'pt'},\n"
    "          'b': {'dtype': 'I32', 'shape': [3], 'data_offsets': [8, 20]},\n"
    "          'a': {'dtype': 'F32', 'shape': [1, 2], 'data_offsets': [0, 8]}}\n"
    "h = json.dumps(header, indent=1).encode()\n"
    "open(sys.argv[1], 'wb').write(struct.pack('<Q', len(h)) + h + struct.pack('<ffiii', 1.5, -2, "
    "7, 8, 9))\n";

// Without Python on the machine there is nothing to compare with; `make test` installs it.
static bool has_python(void) {
    return system("python3 -c pass 2>/dev/null") == 0;
}

static void run_python(const temp_dir *p, const char *text) {
    char script[96], command[256];
    snprintf(script, sizeof script, "%s/script.py", p->folder);
    FILE *out = fopen(script, "w");
    assert_non_null(out);
    assert_true(fputs(text, out) >= 0);
    assert_int_equal(fclose(out), 0);
    snprintf(command, sizeof command, "python3 %s %s", script, p->path);
    assert_int_equal(system(command), 0);
}

static void other_libraries_can_read_it(void **state) {
    (void)state;
    if (!has_python()) testing_skip("python3 has no numpy");
    temp_dir p = temp_dir_open();
    gw_scope *s = gw_scope_open(NULL);
    gw_map *all = gw_map_open(s), *model = gw_map_open(s);
    gw_map_put(s, model, "weight", gw_from(s, ((float[]){ 1, 2, 3, 4, 5, 6.5 }), 2, 3));
    gw_map_put(s, all, "model", model);
    gw_map_put(s, all, "lr", 0.1);
    gw_map_put(s, all, "step", 12);
    gw_map_put(s, all, "done", (bool)true);
    gw_map_put(s, all, "note", "fünf");
    gw_checkpoint_save(s, p.path, all);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
    run_python(&p, reader_elsewhere);
    temp_dir_close(&p);
}

static void files_of_other_libraries_can_be_read(void **state) {
    (void)state;
    if (!has_python()) testing_skip("python3 has no numpy");
    temp_dir p = temp_dir_open();
    run_python(&p, writer_elsewhere);
    gw_scope *s = gw_scope_open(NULL);
    gw_map *all = gw_checkpoint_load(s, p.path);
    assert_int_equal(gw_map_count(all), 2);
    assert_string_equal(gw_map_key(s, all, 0), "b");
    assert_string_equal(gw_to_text(s, gw_tensor_of(s, gw_map_get(s, all, "a"))),
                        gw_to_text(s, gw_from(s, ((float[]){ 1.5f, -2 }), 1, 2)));
    assert_string_equal(gw_to_text(s, gw_tensor_of(s, gw_map_get(s, all, "b"))),
                        gw_to_text(s, gw_from(s, ((int32_t[]){ 7, 8, 9 }), 3)));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
    temp_dir_close(&p);
}

GW_TESTS(checkpoint_file, a_module_is_saved_and_loaded, a_new_file_replaces_the_old_one,
         a_failed_write_leaves_the_old_file, values_that_cannot_be_saved_leave_the_old_file,
         it_needs_a_folder, only_files_are_replaced, a_missing_entry_is_an_error,
         a_missing_file_is_an_error, a_pipe_is_not_waited_for, a_truncated_file_is_an_error,
         other_libraries_can_read_it, files_of_other_libraries_can_be_read);
