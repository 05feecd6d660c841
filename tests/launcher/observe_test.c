// gradwire ps, dump and hang on jobs that run.
#include "testing/testing.h"

#include <dirent.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../support/launched.h"
#include "trace/layout.h"

enum { RANKS_MAX = 3 };

// A job that hangs, and what identifies it.
typedef struct hanging {
    launched launcher;
    int count;
    char pids[RANKS_MAX][16];
    char job[64];
} hanging;

static pid_t process_of(const char *pid) {
    return (pid_t)strtol(pid, NULL, 10);
}

static json_t *parse(const result *r) {
    json_error_t error;
    json_t *all = json_loads(r->out, 0, &error);
    if (!all) fail_msg("%s: %s", error.text, r->out);
    return all;
}

static const char *text_of(const json_t *x, const char *key) {
    const char *text = json_string_value(json_object_get(x, key));
    return text ? text : "";
}

static hanging start(int count, const char *how) {
    char n[16];
    snprintf(n, sizeof n, "-n%d", count);
    hanging h = { .count = count,
                  .launcher = LAUNCH("run", n, "--grace=1", GW_BUILD_DIR "/bin/case-hangs", how) };
    for (int left = count; left;) {
        int rank;
        char pid[16];
        if (sscanf(read_line(h.launcher.out_fd, "["), "%d] started %15s", &rank, pid) != 2)
            continue;
        assert_true(rank >= 0 && rank < count);
        snprintf(h.pids[rank], sizeof h.pids[rank], "%s", pid);
        left--;
    }
    result r = RUN("ps", "--json", h.pids[0]);
    assert_int_equal(r.code, 0);
    json_t *all = parse(&r);
    snprintf(h.job, sizeof h.job, "%s",
             text_of(json_array_get(json_object_get(all, "workers"), 0), "job"));
    assert_true(h.job[0]);
    json_decref(all);
    forget(r);
    return h;
}

static void end(hanging *h) {
    kill(h->launcher.pid, SIGTERM);
    result r = finish(h->launcher);
    assert_int_equal(r.code, 128 + SIGTERM);
    forget(r);
}

// The output of a command with --json for |what|, once |is_expected|: workers write their tables once a second.
static json_t *await_json(const char *command, const char *what,
                          bool (*is_expected)(const json_t *)) {
    for (;;) {
        result r = RUN(command, "--json", what);
        testing_note("%s%s", r.out, r.err);
        assert_int_equal(r.code, 0);
        json_t *all = parse(&r);
        forget(r);
        if (is_expected(all)) return all;
        json_decref(all);
    }
}

static json_t *part(const json_t *all, const char *list, size_t index) {
    return json_array_get(json_object_get(all, list), index);
}

// ---- ps -----------------------------------------------------------------------------------------

static bool both_wait(const json_t *all) {
    for (size_t i = 0; i < 2; i++)
        if (json_array_size(json_object_get(part(all, "workers", i), "activities")) < 2)
            return false;
    return json_array_size(json_object_get(all, "workers")) == 2;
}

static void ps_lists_the_workers_of_a_job(void **state) {
    (void)state;
    hanging h = start(2, "cycle");
    json_t *all = await_json("ps", h.job, both_wait);
    for (int i = 0; i < 2; i++) {
        const json_t *w = part(all, "workers", (size_t)i);
        char name[16];
        snprintf(name, sizeof name, "worker%d", i);
        assert_string_equal(text_of(w, "worker"), name);
        assert_int_equal(json_integer_value(json_object_get(w, "rank")), i);
        assert_int_equal(json_integer_value(json_object_get(w, "pid")), process_of(h.pids[i]));
        assert_string_equal(text_of(w, "program"), "case-hangs");
        assert_string_equal(text_of(w, "state"), "runs");
        assert_string_equal(text_of(w, "phase"), "serving");
        assert_true(json_integer_value(json_object_get(w, "bytes_sent")) > 0);
        assert_int_equal(json_integer_value(json_object_get(w, "collectives")), 1);
    }
    result r = RUN("ps", h.job);
    assert_int_equal(r.code, 0);
    assert_int_equal(count_in(r.out, "\n"), 3);
    assert_int_equal(count_in(r.out, h.job), 2);
    assert_int_equal(count_in(r.out, " of receives, "), 2);
    forget(r);
    // The beginning of the mark, and the process of a worker, which is one line.
    char mark[9];
    snprintf(mark, sizeof mark, "%s", text_of(part(all, "workers", 0), "mark"));
    r = RUN("ps", mark);
    assert_int_equal(count_in(r.out, h.job), 2);
    forget(r);
    r = RUN("ps", h.pids[1]);
    assert_int_equal(count_in(r.out, h.job), 1);
    forget(r);
    json_decref(all);
    end(&h);
}

static void what_does_not_exist_is_refused_with_a_sentence(void **state) {
    (void)state;
    static const struct {
        const char *command, *what, *part;
        int code;
    } rows[] = {
        { "ps", "no-such-job",
          "gradwire ps: there is no job no-such-job of this user on this host; see gradwire ps\n",
          1 },
        { "hang", "999999999",
          "gradwire hang: 999999999 is no worker or launcher of this user on this host, and no "
          "job\n",
          1 },
        { "dump", "/missing.gwt", "gradwire dump: /missing.gwt: No such file or directory\n", 1 },
        { "dump", "/etc/hostname", "/etc/hostname: at byte 8: it is no dump of gradwire\n", 1 },
        { "hang", "--jsno",
          "unknown argument \"--jsno\"; see gradwire hang --help; did you mean \"--json\"?", 2 },
        { "hang", "--min-seconds=x", "--min-seconds takes seconds", 2 },
        { "dump", "--last=-1", "--last", 2 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        result r = RUN(rows[i].command, rows[i].what);
        testing_note("%s", r.err);
        if (strcmp(rows[i].what, "/etc/hostname") != 0)
            assert_non_null(strstr(r.err, rows[i].part));
        assert_int_equal(r.code, rows[i].code);
        assert_string_equal(r.out, "");
        forget(r);
    }
}

// ---- hang ---------------------------------------------------------------------------------------

static bool has_root_with_waiters(const json_t *all) {
    return json_array_size(json_object_get(part(all, "roots", 0), "waiters")) >= 3;
}

static void hang_names_the_body_that_does_not_end(void **state) {
    (void)state;
    hanging h = start(3, "body");
    json_t *all = await_json("hang", h.pids[2], has_root_with_waiters);
    assert_int_equal(json_array_size(json_object_get(all, "roots")), 1);
    assert_int_equal(json_array_size(json_object_get(all, "cycles")), 0);
    const json_t *root = part(all, "roots", 0);
    assert_string_equal(text_of(root, "worker"), "worker1");
    assert_string_equal(text_of(root, "kind"), "runs");
    assert_int_equal(json_integer_value(json_object_get(root, "pid")), process_of(h.pids[1]));
    assert_non_null(strstr(text_of(root, "text"), " runs sleeps, called by worker0, for "));
    const json_t *first = part(root, "waiters", 0);
    assert_string_equal(text_of(first, "worker"), "worker0");
    assert_non_null(strstr(text_of(first, "text"), "of sleeps at worker1 (hangs.c:"));
    int in_barrier = 0;
    for (size_t i = 1; i < 3; i++)
        in_barrier +=
            strstr(text_of(part(root, "waiters", i), "text"), " waits in barrier ") != NULL;
    assert_int_equal(in_barrier, 2);
    assert_true(json_array_size(json_object_get(root, "records")) > 0);
    json_decref(all);
    // No wait is that old.
    result r = RUN("hang", "--min-seconds=80000", h.job);
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "3 workers\nno worker waits that long\n"));
    forget(r);
    end(&h);
}

static bool has_both_cycles(const json_t *all) {
    return json_array_size(json_object_get(all, "cycles")) == 2;
}

static void hang_names_the_workers_that_wait_for_each_other(void **state) {
    (void)state;
    hanging h = start(2, "cycle");
    json_t *all = await_json("hang", h.job, has_both_cycles);
    assert_int_equal(json_array_size(json_object_get(all, "roots")), 0);
    for (size_t i = 0; i < 2; i++) {
        // The program of one waits for the body of the other, which waits for that program.
        const json_t *nodes = json_object_get(part(all, "cycles", i), "nodes");
        assert_int_equal(json_array_size(nodes), 3);
        const char *caller = text_of(json_array_get(nodes, 0), "worker");
        int of_caller = 0;
        for (size_t k = 0; k < 3; k++)
            of_caller += strcmp(text_of(json_array_get(nodes, k), "worker"), caller) == 0;
        assert_true(of_caller == 1 || of_caller == 2);
    }
    json_decref(all);
    result r = RUN("hang", h.job);
    assert_int_equal(count_in(r.out, "cycle  of 3: "), 2);
    assert_int_equal(count_in(r.out, " runs receives, called by worker"), 2);
    forget(r);
    end(&h);
}

static bool waits_for_rank_1(const json_t *all) {
    const json_t *root = part(all, "roots", 0);
    return strcmp(text_of(root, "worker"), "worker1") == 0 &&
           strcmp(text_of(root, "kind"), "no table") != 0;
}

// The state of a process in /proc.
static char state_of(const char *pid) {
    char path[64], state = 0;
    snprintf(path, sizeof path, "/proc/%s/stat", pid);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%*d (case-hangs) %c", &state), 1);
    fclose(f);
    return state;
}

static void hang_names_a_worker_that_is_stopped(void **state) {
    (void)state;
    hanging h = start(2, "barrier");
    json_t *all = await_json("hang", h.job, waits_for_rank_1);
    assert_string_equal(text_of(part(all, "roots", 0), "kind"), "computes");
    json_decref(all);
    kill(process_of(h.pids[1]), SIGSTOP);
    while (state_of(h.pids[1]) != 'T') continue;
    result r = RUN("hang", "--json", h.job);
    kill(process_of(h.pids[1]), SIGCONT);
    all = parse(&r);
    testing_note("%s", r.out);
    const json_t *root = part(all, "roots", 0);
    assert_string_equal(text_of(root, "worker"), "worker1");
    assert_string_equal(text_of(root, "kind"), "stopped");
    assert_non_null(strstr(text_of(root, "text"), " is stopped (SIGSTOP)"));
    assert_string_equal(text_of(part(root, "waiters", 0), "worker"), "worker0");
    json_decref(all);
    forget(r);
    end(&h);
}

// ---- dump ---------------------------------------------------------------------------------------

static void dump_writes_and_shows_a_job(void **state) {
    (void)state;
    hanging h = start(3, "body");
    path folder = make_folder(), file = in_folder(folder, "job.gwt");
    json_decref(await_json("hang", h.job, has_root_with_waiters));
    result r = RUN("dump", h.job);
    assert_int_equal(r.code, 0);
    testing_note("%s", r.out);
    assert_int_equal(count_in(r.out, "\n  worker worker"), 3);
    assert_int_equal(count_in(r.out, ": joined the job: worker"), 0);
    assert_int_equal(count_in(r.out, "  joined the job: worker"), 3);
    assert_non_null(strstr(r.out, "    runs       sleeps, of call "));
    forget(r);
    r = RUN("dump", "--last=0", h.job);
    assert_int_equal(count_in(r.out, "joined the job"), 0);
    forget(r);
    r = RUN("dump", "-o", file.text, h.job);
    assert_int_equal(r.code, 0);
    assert_string_equal(r.out, "");
    forget(r);
    struct stat is;
    assert_int_equal(stat(file.text, &is), 0);
    assert_int_equal(is.st_mode & 0777, 0600);
    end(&h);
    // The file says the same when the job has ended.
    json_t *all = await_json("hang", file.text, has_root_with_waiters);
    assert_string_equal(text_of(part(all, "roots", 0), "worker"), "worker1");
    assert_string_equal(text_of(all, "job"), h.job);
    json_decref(all);
    r = RUN("dump", file.text);
    assert_int_equal(count_in(r.out, "  joined the job: worker"), 3);
    forget(r);
    r = RUN("ps", file.text);
    assert_int_equal(count_in(r.out, h.job), 3);
    forget(r);
    r = RUN("ps", h.job);
    assert_int_equal(r.code, 1);
    forget(r);
    remove_folder(folder);
}

// ---- Memory -------------------------------------------------------------------------------------

// Opens the memory of a worker, as its launcher has it.
static int open_memory_of(const char *pid) {
    path folder, file;
    char target[64];
    snprintf(folder.text, sizeof folder.text, "/proc/%s/fd", pid);
    DIR *d = opendir(folder.text);
    assert_non_null(d);
    int fd = -1;
    for (struct dirent *e; fd < 0 && (e = readdir(d));) {
        file = in_folder(folder, e->d_name);
        ssize_t n = readlink(file.text, target, sizeof target - 1);
        target[n > 0 ? n : 0] = '\0';
        if (strncmp(target, "/memfd:" TRACE_MEMORY_NAME, strlen("/memfd:" TRACE_MEMORY_NAME)) == 0)
            fd = open(file.text, O_RDWR | O_CLOEXEC);
    }
    closedir(d);
    assert_true(fd >= 0);
    return fd;
}

static void the_memory_of_a_killed_worker_is_read_while_it_is_open_elsewhere(void **state) {
    (void)state;
    hanging h = start(2, "barrier");
    int fd = open_memory_of(h.pids[1]), ended = open_process(h.pids[1]);
    // It is found twice, and is one.
    result r = RUN("ps", h.job);
    assert_int_equal(count_in(r.out, h.job), 2);
    forget(r);
    kill(process_of(h.pids[1]), SIGKILL);
    wait_for_end(ended);
    r = finish(h.launcher);
    assert_int_equal(r.code, 128 + SIGKILL);
    forget(r);
    r = RUN("dump", h.job);
    testing_note("%s", r.out);
    assert_int_equal(r.code, 0);
    assert_int_equal(count_in(r.out, "process "), 1);
    assert_int_equal(count_in(r.out, ": ended at "), 1);
    assert_non_null(strstr(r.out, "  worker worker1, rank 1 of 2, "));
    assert_non_null(strstr(r.out, "  end collective: world, ok, "));
    forget(r);
    r = RUN("ps", h.pids[1]);
    assert_non_null(strstr(r.out, " ended "));
    forget(r);
    r = RUN("ps", h.pids[0]);
    assert_int_equal(r.code, 1);
    forget(r);
    close(fd);
    r = RUN("ps", h.pids[1]);
    assert_int_equal(r.code, 1);
    forget(r);
}

static void a_memory_that_cannot_be_read_is_reported(void **state) {
    (void)state;
    trace_header h = { .magic = TRACE_MAGIC,
                       .version = TRACE_VERSION + 1,
                       .owner = (int32_t)getpid() };
    int fd = memfd_create(TRACE_MEMORY_NAME, MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, &h, sizeof h), sizeof h);
    result r = RUN("ps");
    assert_int_equal(r.code, 0);
    assert_non_null(
        strstr(r.err, " cannot be read; the first: the records of a worker, which process "));
    assert_non_null(strstr(r.err, ": it has version 3; this gradwire reads version 2\n"));
    forget(r);
    r = RUN("ps", "no-such-job");
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, " of the memories cannot be read; the first: "));
    forget(r);
    close(fd);
}

// ---- Stacks -------------------------------------------------------------------------------------

static void write_script(path folder, const char *text) {
    path file = in_folder(folder, "eu-stack");
    FILE *f = fopen(file.text, "w");
    assert_non_null(f);
    fprintf(f, "#!/bin/sh\n%s\n", text);
    fclose(f);
    assert_int_equal(chmod(file.text, 0700), 0);
}

static void stacks_of_roots_are_appended_and_bounded(void **state) {
    (void)state;
    hanging h = start(3, "body");
    path folder = make_folder();
    char variable[1024];
    json_decref(await_json("hang", h.job, has_root_with_waiters));
    snprintf(variable, sizeof variable, "%s:%s", folder.text, getenv("PATH"));
    setenv("PATH", variable, 1);
    write_script(folder, "echo \"PID $2 - process\"; printf 'TID\\033\\n'; seq 1 1000");
    result r = RUN("hang", h.job);
    testing_note("%s", r.out);
    assert_int_equal(count_in(r.out, "stacks of worker"), 1);
    snprintf(variable, sizeof variable,
             "stacks of worker1 (pid %s), by eu-stack\n  PID %s - process\n  TID?\n  1\n",
             h.pids[1], h.pids[1]);
    assert_non_null(strstr(r.out, variable));
    assert_true(count_in(r.out, "\n") <= 200);
    forget(r);
    write_script(folder, "exit 1");
    r = RUN("hang", h.job);
    assert_int_equal(r.code, 0);
    assert_int_equal(count_in(r.out, "stacks of"), 0);
    forget(r);
    // It is killed when the time is over.
    write_script(folder, "echo first; exec tail -f /dev/null");
    r = RUN("hang", h.job);
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "by eu-stack\n  first\n"));
    forget(r);
    end(&h);
    remove_folder(folder);
}

GW_TESTS(observe, ps_lists_the_workers_of_a_job, what_does_not_exist_is_refused_with_a_sentence,
         hang_names_the_body_that_does_not_end, hang_names_the_workers_that_wait_for_each_other,
         hang_names_a_worker_that_is_stopped, dump_writes_and_shows_a_job,
         the_memory_of_a_killed_worker_is_read_while_it_is_open_elsewhere,
         a_memory_that_cannot_be_read_is_reported, stacks_of_roots_are_appended_and_bounded);
