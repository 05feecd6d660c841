// The flight recorder of gradwire run: what the workers did last is in a file when a rank fails, and at SIGUSR1; a job
// without progress is reported.
#include "testing/testing.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../support/launched.h"

#define HANGS GW_BUILD_DIR "/bin/case-hangs"
#define TRAINS GW_BUILD_DIR "/bin/case-elastic_trains"

static const char announced[] = "gradwire: what the workers did last: gradwire dump ";

// The path at the end of the last line.
static path last_path(const result *r) {
    path p = { "" };
    testing_note("%s", r->err);
    const char *at = strstr(r->err, announced);
    assert_non_null(at);
    snprintf(p.text, sizeof p.text, "%s", at + strlen(announced));
    char *end = strchr(p.text, '\n');
    assert_non_null(end);
    assert_int_equal(at + strlen(announced) + (end - p.text) + 1 - r->err, r->err_size);
    *end = '\0';
    return p;
}

static int open_started(launched *l, int rank) {
    char beginning[32];
    snprintf(beginning, sizeof beginning, "[%d] started ", rank);
    return (int)strtol(read_line(l->out_fd, beginning), NULL, 10);
}

// The records of the killed rank are there, although only the launcher had its memory.
static void the_records_of_a_killed_rank_are_kept(void **state) {
    (void)state;
    path folder = make_folder();
    setenv("XDG_STATE_HOME", folder.text, 1);
    launched l = LAUNCH("run", "-n2", HANGS, "body");
    int killed = open_started(&l, 1);
    kill(killed, SIGKILL);
    result r = finish(l);
    assert_int_equal(r.code, 128 + SIGKILL);
    path file = last_path(&r);
    struct stat about;
    assert_int_equal(stat(file.text, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0600);
    result shown = RUN("dump", file.text);
    char process[64];
    testing_note("%s", shown.out);
    assert_int_equal(shown.code, 0);
    snprintf(process, sizeof process, "process %d of case-hangs", killed);
    const char *of_killed = strstr(shown.out, process);
    assert_non_null(of_killed);
    assert_non_null(strstr(of_killed, ": ended at "));
    assert_non_null(strstr(of_killed, "joined the job: worker1, rank 1"));
    assert_non_null(strstr(of_killed, "end collective: world"));
    forget(shown);
    forget(r);
    remove_folder(folder);
}

// With --log-dir the file is with the other logs, and --flight-dir has priority.
static void the_file_is_where_the_user_wants(void **state) {
    (void)state;
    path folder = make_folder(), logs = in_folder(folder, "logs"), other = in_folder(folder, "a/b");
    for (int i = 0; i < 2; i++) {
        launched l = i ? LAUNCH("run", "-n2", "--log-dir", logs.text, "--flight-dir", other.text,
                                HANGS, "body")
                       : LAUNCH("run", "-n2", "--log-dir", logs.text, HANGS, "body");
        kill(open_started(&l, 0), SIGKILL);
        result r = finish(l);
        const char *wanted = i ? other.text : logs.text;
        assert_memory_equal(last_path(&r).text, wanted, strlen(wanted));
        forget(r);
    }
    remove_folder(folder);
}

static void a_file_that_cannot_be_written_is_an_error_in_a_line(void **state) {
    (void)state;
    launched l = LAUNCH("run", "-n2", "--flight-dir=/dev/null/x", HANGS, "body");
    kill(open_started(&l, 0), SIGKILL);
    result r = finish(l);
    assert_int_equal(r.code, 128 + SIGKILL);
    assert_non_null(
        strstr(r.err, "what the workers did last could not be written: Not a directory\n"));
    forget(r);
}

static void programs_that_are_no_workers_leave_no_file(void **state) {
    (void)state;
    path folder = make_folder();
    setenv("XDG_STATE_HOME", folder.text, 1);
    result r = RUN("run", "-n2", "sh", "-c", "exit $RANK");
    assert_int_equal(r.code, 1);
    assert_null(strstr(r.err, "did last"));
    assert_int_equal(access(in_folder(folder, "gradwire").text, F_OK), -1);
    forget(r);
    remove_folder(folder);
}

static int count_entries(const char *folder) {
    int count = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) count += e->d_name[0] != '.';
    closedir(d);
    return count;
}

static void the_files_of_five_jobs_are_kept(void **state) {
    (void)state;
    path folder = make_folder(), base = in_folder(folder, "gradwire");
    setenv("XDG_STATE_HOME", folder.text, 1);
    path last = { "" };
    for (int i = 0; i < 7; i++) {
        launched l = LAUNCH("run", "-n2", HANGS, "body");
        kill(open_started(&l, 0), SIGKILL);
        result r = finish(l);
        last = last_path(&r);
        forget(r);
        if (i) continue;
        // What is not a folder of a job stays.
        FILE *f = fopen(in_folder(base, "notes").text, "w");
        assert_non_null(f);
        fclose(f);
    }
    assert_int_equal(count_entries(base.text), 5 + 1);
    assert_int_equal(access(last.text, R_OK), 0);
    remove_folder(folder);
}

// The members compare their weights with those of one process that learns alone.
static void sigusr1_writes_the_file_and_changes_no_result(void **state) {
    (void)state;
    path folder = make_folder();
    setenv("XDG_STATE_HOME", folder.text, 1);
    launched l = LAUNCH("run", "-n3", "--max-restarts=1", TRAINS, "400", "1");
    read_line(l.out_fd, "[");
    for (int i = 0; i < 3; i++) {
        kill(l.pid, SIGUSR1);
        read_line(l.err_fd, "gradwire: SIGUSR1: ");
    }
    result r = finish(l);
    testing_note("%s%s", r.out, r.err);
    assert_int_equal(r.code, 0);
    assert_null(strstr(r.err, announced));
    forget(r);
    remove_folder(folder);
}

// Nor do records of all kinds, or none.
static void levels_change_no_result(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        setenv("GW_FLIGHT", i ? "all" : "0", 1);
        result r = RUN("run", "-n2", "--max-restarts=1", TRAINS, "30", "1");
        testing_note("%s%s", r.out, r.err);
        assert_int_equal(r.code, 0);
        forget(r);
    }
}

static void unknown_levels_are_reported(void **state) {
    (void)state;
    setenv("GW_FLIGHT", "call,colls", 1);
    result r = RUN("run", "-n1", TRAINS, "1", "1");
    assert_non_null(strstr(r.err, "GW_FLIGHT=call,colls: colls is neither a level (job, coll, "));
    forget(r);
}

static void a_job_without_progress_is_reported_once(void **state) {
    (void)state;
    launched l = LAUNCH("run", "-n3", "--hang-after=1", HANGS, "body");
    read_line(l.err_fd, "gradwire: job ");
    char root[256];
    snprintf(root, sizeof root, "%s", read_line(l.err_fd, "gradwire: root   "));
    assert_non_null(strstr(root, " runs sleeps, called by worker0, for "));
    assert_non_null(strstr(read_line(l.err_fd, "gradwire:   worker0 waits"), "call 1 of sleeps"));
    kill(l.pid, SIGTERM);
    result r = finish(l);
    assert_int_equal(r.code, 128 + SIGTERM);
    assert_null(strstr(r.err, "gradwire: root "));
    forget(r);
}

// Rank 1, whose body rank 0 waits for, is stopped.
static void a_rank_that_is_killed_since_it_is_stopped_is_reported_before(void **state) {
    (void)state;
    path folder = make_folder();
    setenv("XDG_STATE_HOME", folder.text, 1);
    launched l = LAUNCH("run", "-n3", "--hang-after=0", HANGS, "body");
    int pid = open_started(&l, 1);
    kill(pid, SIGSTOP);
    result r = finish(l);
    testing_note("%s", r.err);
    assert_int_equal(r.code, 128 + SIGKILL);
    // The other members may declare it dead before the launcher notices how long it is stopped.
    char job[64], root[96], killed[64];
    snprintf(job, sizeof job, ", 3 workers: process %d ", pid);
    snprintf(root, sizeof root, "\ngradwire: root   worker1 (pid %d) is stopped (SIGSTOP)", pid);
    snprintf(killed, sizeof killed, "rank 1 (pid %d)", pid);
    const char *report = strstr(r.err, job);
    assert_non_null(report);
    assert_non_null(strstr(report, root));
    assert_non_null(strstr(report, killed));
    forget(r);
    remove_folder(folder);
}

static void wrong_values_are_refused(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        { "--hang-after=-1", "--hang-after" },
        { "--hang-after=x", "--hang-after" },
        { "--flight-dir=", "--flight-dir is empty, but must be the path of a folder" },
        { "--forward-signals=USR3", "--forward-signals is USR1, USR2 or USR1,USR2, not \"USR3\"" },
        { "--forward-signals=", "--forward-signals is USR1, USR2 or USR1,USR2, not \"\"" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        result r = RUN("run", "-n1", rows[i][0], "true");
        assert_int_equal(r.code, 2);
        assert_non_null(strstr(r.err, rows[i][1]));
        assert_int_equal(count_in(r.err, "\n"), 1);
        forget(r);
    }
}

GW_TESTS_WITH_LIMIT(run_flight, 120, the_records_of_a_killed_rank_are_kept,
                    the_file_is_where_the_user_wants,
                    a_file_that_cannot_be_written_is_an_error_in_a_line,
                    programs_that_are_no_workers_leave_no_file, the_files_of_five_jobs_are_kept,
                    sigusr1_writes_the_file_and_changes_no_result, levels_change_no_result,
                    unknown_levels_are_reported,
                    a_rank_that_is_killed_since_it_is_stopped_is_reported_before,
                    a_job_without_progress_is_reported_once, wrong_values_are_refused);
