// A writer of a checkpoint is killed at each place of the writing: what is restored is whole, and the next writers
// remove what it has left. Real processes.
#include "testing/testing.h"

#include <dirent.h>
#include <gradwire.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORKERS = 3, NUMBERS = 400000 };

typedef struct kill_place {
    const char *point;  // src/base/failpoint.h
    int pass;           // it is killed when it reaches the point for this time
    int victim;
    int restored;      // the step that is restored afterwards
    const char *says;  // each survivor
} kill_place;

static char folder[64], url[96];

// ---- Processes ----------------------------------------------------------------------------------

typedef struct process {
    pid_t pid;
    FILE *out;
} process;

static void set_failpoint(const char *text, int out, int in) {
    dup2(out, 4);
    dup2(in, 5);
    setenv("GW_FAILPOINT", text, 1);
    setenv("GW_FAILPOINT_OUT", "4", 1);
    setenv("GW_FAILPOINT_IN", "5", 1);
}

// The victim halts at |failpoint|, and then writes to |point|.
static process start(int rank, int step, const char *failpoint, const int *point, const int *go) {
    int out[2];
    char numbers[3][16];
    assert_int_equal(pipe(out), 0);
    snprintf(numbers[0], 16, "%d", rank);
    snprintf(numbers[1], 16, "%d", WORKERS);
    snprintf(numbers[2], 16, "%d", step);
    process p = { .pid = fork() };
    assert_true(p.pid >= 0);
    if (p.pid == 0) {
        const char *program = GW_BUILD_DIR "/bin/gradwire-checkpoint-worker";
        dup2(out[1], 1);
        if (failpoint) set_failpoint(failpoint, point[1], go[0]);
        execl(program, program, url, numbers[0], numbers[1], folder, numbers[2], (char *)NULL);
        _exit(126);
    }
    close(out[1]);
    p.out = fdopen(out[0], "r");
    assert_non_null(p.out);
    return p;
}

static void end(process *p) {
    int status;
    fclose(p->out);
    assert_int_equal(waitpid(p->pid, &status, 0), p->pid);
}

// Until a line begins with |word|.
static void expect_line(process *p, const char *word) {
    char line[2048] = "";
    while (fgets(line, sizeof line, p->out))
        if (!strncmp(line, word, strlen(word))) return;
    fail_msg("the last line is \"%s\", and none begins with \"%s\"", line, word);
}

static void name_url(int round) {
    snprintf(url, sizeof url, "file://%s/rendezvous-%d", folder, round);
}

// ---- Checks -------------------------------------------------------------------------------------

static int restored_step(void) {
    gw_scope *s = gw_scope_open(NULL);
    gw_map *all = gw_checkpoint_restore(s, folder, NULL);
    int step = all ? (int)gw_int_of(s, gw_map_get(s, all, "step")) : 0;
    gw_tensor *x = all ? gw_tensor_of(s, gw_map_get(s, all, "x")) : NULL;
    if (x) assert_true(gw_equal(s, x, gw_full(s, GW_F32, (double)step, NUMBERS)));
    assert_string_equal(gw_scope_close(s).text, "");
    return step;
}

static int count_checkpoints(void) {
    DIR *d = opendir(folder);
    int count = 0;
    for (struct dirent *e; (e = readdir(d));) count += !strncmp(e->d_name, "step-", 5);
    closedir(d);
    return count;
}

static void kill_at(const kill_place *k) {
    int point[2], go[2];
    char failpoint[64], byte;
    process all[WORKERS];
    assert_int_equal(pipe(point), 0);
    assert_int_equal(pipe(go), 0);
    snprintf(failpoint, sizeof failpoint, "%s:%d", k->point, k->pass);
    name_url(1);
    for (int i = 0; i < WORKERS; i++)
        all[i] = start(i, 2, i == k->victim ? failpoint : NULL, point, go);
    close(point[1]);
    assert_int_equal(read(point[0], &byte, 1), 1);
    kill(all[k->victim].pid, SIGKILL);
    for (int i = 0; i < WORKERS; i++)
        if (i != k->victim) expect_line(&all[i], k->says);
    for (int i = 0; i < WORKERS; i++) end(&all[i]);
    close(point[0]);
    close(go[0]);
    close(go[1]);
}

static void write_another(void) {
    process all[WORKERS];
    name_url(2);
    for (int i = 0; i < WORKERS; i++) all[i] = start(i, 3, NULL, NULL, NULL);
    for (int i = 0; i < WORKERS; i++) expect_line(&all[i], "whole");
    for (int i = 0; i < WORKERS; i++) end(&all[i]);
}

static void a_writer_that_is_killed_leaves_a_whole_checkpoint(void **state) {
    (void)state;
    static const kill_place places[] = {
        { "checkpoint_folder", 2, 0, 1, "failed disconnected: " },
        { "checkpoint_part", 3, 0, 1, "failed disconnected: " },
        { "checkpoint_part", 4, 2, 1, "failed disconnected: " },
        { "checkpoint_index", 2, 0, 1, "failed disconnected: " },
        { "checkpoint_renamed", 2, 0, 2,
          "failed disconnected: " },  // they cannot know that it is whole
        { "checkpoint_removing", 1, 0, 2, "whole" },
    };
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char command[96];
        testing_note("%s of worker%d", places[i].point, places[i].victim);
        snprintf(folder, sizeof folder, "/tmp/gradwire-kill-XXXXXX");
        assert_non_null(mkdtemp(folder));
        kill_at(&places[i]);
        assert_int_equal(restored_step(), places[i].restored);
        write_another();
        assert_int_equal(restored_step(), 3);
        assert_int_equal(count_checkpoints(), 1);
        snprintf(command, sizeof command, "rm -rf %s", folder);
        assert_int_equal(system(command), 0);
    }
}

GW_TESTS_WITH_LIMIT(checkpoint_kill, 120, a_writer_that_is_killed_leaves_a_whole_checkpoint);
