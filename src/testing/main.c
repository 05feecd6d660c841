// gradwire-tests [--list] [--jobs N] [filter...]
//
// Runs every registered test whose "group.test" contains one of the filters, each in a process and
// process group of its own. This process has one thread and never runs code of a test, so that
// nothing a test does can stop it.
#include "testing/pace.h"
#include "testing/runner.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    TEST_COUNT_MAX = 8192,
    JOBS_MAX = 64,
    USUAL_LIMIT_S = 60,
    SANITIZED_FACTOR = 5,
    SLOW_MS = 5000,
    REASONS_MAX = 32,
};

typedef struct test {
    char name[TESTING_NAME_MAX];  // "group.test"
    void (*run)(void **state);
    unsigned limit_s;
} test;

// A test that is running.
typedef struct job {
    const test *test;  // NULL: free
    pid_t pid;
    int output_fd;
    int64_t start_ms;
    int64_t deadline_ms;  // by the clock of pace.h
    bool expired;
    char *note;
    _Atomic int *patience_ms;
} job;

// Why tests were skipped.
typedef struct reason {
    char text[TESTING_NOTE_MAX];
    int test_count;
} reason;

typedef struct runner {
    // arguments
    int job_count;
    // progress
    job jobs[JOBS_MAX];
    int running_count;
    sigset_t signals;  // blocked, and taken by sigtimedwait alone
    FILE *ran;         // for the names of tests that have passed; NULL: not requested
    // results
    int passed_count, failed_count, skipped_count;
    reason reasons[REASONS_MAX];
    int reason_count;
} runner;

#define BUSY 1.5  // slower than that is worth a word

static test tests[TEST_COUNT_MAX];
static int test_count;

static int64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void die(const char *what) {
    perror(what);
    exit(2);
}

// ---- Which tests --------------------------------------------------------------------------------

static bool is_wanted(const char *name, char **filters) {
    if (!*filters) return true;
    for (; *filters; filters++) {
        if (strstr(name, *filters)) return true;
    }
    return false;
}

static void add_group(const testing_group *group, unsigned usual_limit_s, char **filters) {
    const char *name = group->test_names;
    for (size_t i = 0; i < group->test_count; i++) {
        name += strspn(name, ", \n");
        int size = (int)strcspn(name, ", \n");
        test t = { .run = group->tests[i], .limit_s = usual_limit_s };
        if (group->limit_s > t.limit_s) t.limit_s = group->limit_s;
        snprintf(t.name, sizeof t.name, "%s.%.*s", group->name, size, name);
        name += size;
        if (!is_wanted(t.name, filters)) continue;
        if (test_count == TEST_COUNT_MAX) {
            fprintf(stderr, "more than %d tests: raise TEST_COUNT_MAX\n", TEST_COUNT_MAX);
            exit(2);
        }
        tests[test_count++] = t;
    }
}

// Long ones first, so that the end does not wait for one that started last; then by name.
static int compare_tests(const void *a, const void *b) {
    const test *x = a, *y = b;
    if (x->limit_s != y->limit_s) return x->limit_s > y->limit_s ? -1 : 1;
    return strcmp(x->name, y->name);
}

static void choose_tests(char **filters) {
    unsigned limit_s =
        (unsigned)testing_environment_int("GW_TEST_LIMIT_S", USUAL_LIMIT_S) *
        (TESTING_ADDRESS_SANITIZER || TESTING_THREAD_SANITIZER ? SANITIZED_FACTOR : 1);
    for (testing_group *g = testing_groups; g; g = g->next) add_group(g, limit_s, filters);
    qsort(tests, (size_t)test_count, sizeof tests[0], compare_tests);
}

// ---- One test -----------------------------------------------------------------------------------

static void start_test(runner *r, const test *t) {
    job *j = r->jobs;
    while (j->test) j++;
    j->test = t;
    j->expired = false;
    j->note[0] = '\0';
    *j->patience_ms = 0;
    j->output_fd = memfd_create(t->name, MFD_CLOEXEC);
    if (j->output_fd < 0) die("memfd_create");

    fflush(NULL);
    pid_t parent = getpid();
    j->pid = fork();
    if (j->pid < 0) die("fork");
    if (j->pid == 0) {
        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) _exit(1);
        sigprocmask(SIG_UNBLOCK, &r->signals, NULL);
        dup2(j->output_fd, STDOUT_FILENO);
        dup2(j->output_fd, STDERR_FILENO);
        unsetenv("GW_TEST_RAN");           // a harness that it runs has results of its own
        setvbuf(stdout, NULL, _IOLBF, 0);  // in order with the output to stderr
        for (int i = 0; i < r->job_count; i++) {
            if (r->jobs[i].test) close(r->jobs[i].output_fd);
        }
        testing_note_text = j->note;
        testing_patience_ms = j->patience_ms;
        testing_run_child(t->name, t->run);
    }
    setpgid(j->pid, j->pid);  // on both sides: either may be first
    j->start_ms = now_ms();
    j->deadline_ms = pace_now_ms() + (int64_t)t->limit_s * 1000;
    r->running_count++;
}

static void print_output(const job *j) {
    char buffer[4096];
    ssize_t n;
    lseek(j->output_fd, 0, SEEK_SET);
    while ((n = read(j->output_fd, buffer, sizeof buffer)) > 0)
        fwrite(buffer, 1, (size_t)n, stdout);
    if (j->note[0]) printf("note: %s\n", j->note);
}

static void print_end(const job *j, int status) {
    if (j->expired) {
        printf("FAILED %s: ran longer than %u s", j->test->name, j->test->limit_s);
        if (pace_slowness_max() >= BUSY)
            printf(" of a machine that has nothing else to do, and for %.0f s of this one",
                   (double)(now_ms() - j->start_ms) / 1000);
        printf("\n");
    } else if (WIFSIGNALED(status)) {
        printf("FAILED %s: %s\n", j->test->name, strsignal(WTERMSIG(status)));
    } else {
        printf("FAILED %s: exit code %d\n", j->test->name, WEXITSTATUS(status));
    }
}

static void count_reason(runner *r, const char *text) {
    int i = 0;
    while (i < r->reason_count && strcmp(r->reasons[i].text, text) != 0) i++;
    if (i == REASONS_MAX) return;
    if (i == r->reason_count)
        snprintf(r->reasons[r->reason_count++].text, TESTING_NOTE_MAX, "%s", text);
    r->reasons[i].test_count++;
}

static void finish_test(runner *r, job *j, int status) {
    kill(-j->pid, SIGKILL);  // processes that the test has left running
    int64_t took_ms = now_ms() - j->start_ms;
    if (!j->expired && WIFEXITED(status) && WEXITSTATUS(status) == TESTING_EXIT_PASSED) {
        r->passed_count++;
        if (r->ran) fprintf(r->ran, "%s\n", j->test->name);
        if (took_ms >= SLOW_MS) printf("slow: %s %.1f s\n", j->test->name, (double)took_ms / 1000);
    } else if (!j->expired && WIFEXITED(status) && WEXITSTATUS(status) == TESTING_EXIT_SKIPPED) {
        r->skipped_count++;
        printf("skipped: %s\n", j->test->name);
        count_reason(r, j->note[0] ? j->note : "no reason was given");
    } else {
        r->failed_count++;
        printf("\n");
        print_output(j);
        print_end(j, status);
    }
    fflush(stdout);
    close(j->output_fd);
    j->test = NULL;
    r->running_count--;
}

// ---- All tests ----------------------------------------------------------------------------------

static void kill_all(runner *r) {
    for (int i = 0; i < r->job_count; i++) {
        if (r->jobs[i].test) kill(-r->jobs[i].pid, SIGKILL);
    }
}

static void reap(runner *r) {
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        for (int i = 0; i < r->job_count; i++) {
            job *j = &r->jobs[i];
            if (j->test && j->pid == pid) finish_test(r, j, status);
        }
    }
}

static int64_t deadline_of(const job *j) {
    return j->deadline_ms + *j->patience_ms;
}

static void expire(runner *r) {
    for (int i = 0; i < r->job_count; i++) {
        job *j = &r->jobs[i];
        if (!j->test || j->expired || pace_now_ms() < deadline_of(j)) continue;
        j->expired = true;
        testing_print_stacks_of_group(j->pid, j->output_fd);
        kill(-j->pid, SIGKILL);
    }
}

// Waits until a test ends, the next deadline, or the user has had enough.
static void wait_for_something(runner *r) {
    int64_t next_ms = INT64_MAX;
    for (int i = 0; i < r->job_count; i++) {
        const job *j = &r->jobs[i];
        if (j->test && !j->expired && deadline_of(j) < next_ms) next_ms = deadline_of(j);
    }
    int64_t wait_ms = next_ms == INT64_MAX ? 1000 : next_ms - pace_now_ms();  // or more
    if (wait_ms < 0) wait_ms = 0;
    struct timespec t = { .tv_sec = wait_ms / 1000, .tv_nsec = wait_ms % 1000 * 1000000 };
    int signal_number = sigtimedwait(&r->signals, NULL, &t);
    if (signal_number == SIGINT || signal_number == SIGTERM) {
        kill_all(r);
        fprintf(stderr, "interrupted\n");
        exit(130);
    }
}

static void run_all(runner *r) {
    for (int i = 0; i < test_count || r->running_count > 0;) {
        while (i < test_count && r->running_count < r->job_count) start_test(r, &tests[i++]);
        wait_for_something(r);
        reap(r);
        expire(r);
    }
}

// What the process of a test writes for this one.
typedef struct shared {
    char note[TESTING_NOTE_MAX];
    _Atomic int patience_ms;
} shared;

static void open_runner(runner *r) {
    shared *all = mmap(NULL, JOBS_MAX * sizeof *all, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) die("mmap");
    for (int i = 0; i < JOBS_MAX; i++) {
        r->jobs[i].note = all[i].note;
        r->jobs[i].patience_ms = &all[i].patience_ms;
    }
    const char *path = getenv("GW_TEST_RAN");
    if (path && *path && !(r->ran = fopen(path, "we"))) die(path);
    sigemptyset(&r->signals);
    sigaddset(&r->signals, SIGCHLD);
    sigaddset(&r->signals, SIGINT);
    sigaddset(&r->signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &r->signals, NULL);
}

// A shell that starts this in the background has some signals ignored, which programs under test
// would inherit: they are to end by them.
static void restore_signals(void) {
    const int numbers[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) signal(numbers[i], SIG_DFL);
}

int main(int argc, char **argv) {
    restore_signals();
    static runner r;
    bool list_only = false;
    // One more for every two processors: some tests wait for timers.
    r.job_count = (int)sysconf(_SC_NPROCESSORS_ONLN) * 3 / 2;
    int i = 1;
    for (; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
        if (strcmp(argv[i], "--list") == 0) {
            list_only = true;
        } else if (strcmp(argv[i], "--jobs") == 0 && i + 1 < argc) {
            r.job_count = (int)strtol(argv[++i], NULL, 10);
        } else {
            fprintf(stderr, "usage: %s [--list] [--jobs N] [filter...]\n", argv[0]);
            return 2;
        }
    }
    if (r.job_count < 1) r.job_count = 1;
    if (r.job_count > JOBS_MAX) r.job_count = JOBS_MAX;

    choose_tests(argv + i);
    if (list_only) {
        for (int t = 0; t < test_count; t++) puts(tests[t].name);
        return 0;
    }
    if (test_count == 0) fprintf(stderr, "no test has such a name; --list shows them\n");
    pace_open();
    open_runner(&r);
    run_all(&r);
    if (r.ran && fclose(r.ran)) die("GW_TEST_RAN");
    for (int k = 0; k < r.reason_count; k++)
        printf("%d skipped: %s\n", r.reasons[k].test_count, r.reasons[k].text);
    if (pace_slowness_max() >= BUSY)
        printf("the machine was up to %.0f times slower than it can be\n", pace_slowness_max());
    printf("%d passed, %d failed, %d skipped\n", r.passed_count, r.failed_count, r.skipped_count);
    return r.failed_count > 0 || test_count == 0;
}
