// Many workers on one host: 64 processes join, call each other and leave, and take little memory while idle.
#include "../support/launched.h"
#include "testing/testing.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

// 6.25 MiB, of which 1.4 are OpenSSL's, most of them the same pages for all.
enum { WORKERS = 64, RESIDENT_MAX_KIB = 6400, RINGS_MAX_KIB = 4096, THREADS_MAX = 4 };

typedef struct processes {
    pid_t pids[WORKERS];
    FILE *in[WORKERS], *out[WORKERS];
} processes;

static void start_worker(processes *c, int rank, const char *url) {
    int in[2], out[2];
    char text[16], program[512];
    assert_int_equal(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC), 0);
    snprintf(text, sizeof text, "%d", rank);
    snprintf(program, sizeof program, "%s/bin/gradwire-scale-worker", GW_BUILD_DIR);
    c->pids[rank] = fork();
    assert_true(c->pids[rank] >= 0);
    if (c->pids[rank] == 0) {
        dup2(in[0], STDIN_FILENO);
        dup2(out[1], STDOUT_FILENO);
        execl(program, program, url, text, "64", (char *)NULL);
        _exit(126);
    }
    close(in[0]);
    close(out[1]);
    c->in[rank] = fdopen(in[1], "w");
    c->out[rank] = fdopen(out[0], "r");
}

static void command_all(processes *c, const char *what) {
    for (int rank = 0; rank < WORKERS; rank++) {
        fprintf(c->in[rank], "%s\n", what);
        fflush(c->in[rank]);
    }
}

static void expect_from_all(processes *c, const char *what) {
    char line[64];
    for (int rank = 0; rank < WORKERS; rank++) {
        testing_note("rank %d: \"%s\"", rank, what);
        assert_non_null(fgets(line, sizeof line, c->out[rank]));
        line[strcspn(line, "\n")] = '\0';
        assert_string_equal(line, what);
    }
}

// Resident memory of a process, and the part that it shares with its peers as rings.
typedef struct resident {
    long kib, rings_kib;
} resident;

static resident resident_of(pid_t pid) {
    char path[64], line[256];
    resident r = { 0 };
    bool is_ring = false;
    snprintf(path, sizeof path, "/proc/%d/smaps", (int)pid);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        long kib;
        if (strchr("0123456789abcdef", line[0])) is_ring = strstr(line, "gradwire-ring") != NULL;
        if (sscanf(line, "Rss: %ld kB", &kib) != 1) continue;
        r.kib += kib;
        if (is_ring) r.rings_kib += kib;
    }
    fclose(f);
    return r;
}

static int count_entries(pid_t pid, const char *folder) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, folder);
    DIR *d = opendir(path);
    assert_non_null(d);
    int count = 0;
    for (struct dirent *e; (e = readdir(d));) count += e->d_name[0] != '.';
    closedir(d);
    return count;
}

static void it_keeps_64_workers_small(void **state) {
    (void)state;
    static processes c;
    path folder = make_folder();
    char url[300];
    snprintf(url, sizeof url, "file://%s", in_folder(folder, "store").text);
    for (int rank = 0; rank < WORKERS; rank++) start_worker(&c, rank, url);
    expect_from_all(&c, "joined");
    command_all(&c, "call");
    expect_from_all(&c, "called");
    // The memory of a sanitizer would be included.
    bool sanitized = getenv("SCALE") != NULL;
    for (int rank = 0; rank < WORKERS; rank++) {
        resident r = resident_of(c.pids[rank]);
        testing_note("rank %d: %ld KiB, %ld of rings, %d descriptors, %d threads", rank, r.kib,
                     r.rings_kib, count_entries(c.pids[rank], "fd"),
                     count_entries(c.pids[rank], "task"));
        if (!sanitized) assert_in_range(r.kib - r.rings_kib, 1, RESIDENT_MAX_KIB);
        assert_in_range(r.rings_kib, 1, RINGS_MAX_KIB);
        assert_in_range(count_entries(c.pids[rank], "fd"), 1, 3 * (WORKERS - 1));
        if (!sanitized) assert_in_range(count_entries(c.pids[rank], "task"), 1, THREADS_MAX);
    }
    command_all(&c, "leave");
    expect_from_all(&c, "left");
    for (int rank = 0; rank < WORKERS; rank++) {
        int status;
        assert_int_equal(waitpid(c.pids[rank], &status, 0), c.pids[rank]);
        assert_int_equal(status, 0);
        fclose(c.in[rank]);
        fclose(c.out[rank]);
    }
    remove_folder(folder);
}

GW_TESTS(scale, it_keeps_64_workers_small);
