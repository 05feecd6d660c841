// gradwire run: the environment of ranks, and their output.
#include "testing/testing.h"

#include <netinet/in.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "../support/launched.h"

static int count_lines(const char *text) {
    int count = 0;
    for (; *text; text++) count += *text == '\n';
    return count;
}

// ---- The command line ---------------------------------------------------------------------------

static void help_and_version_are_printed(void **state) {
    (void)state;
    result help = RUN("--help"), version = RUN("--version"), run_help = RUN("run", "--help");
    assert_int_equal(help.code, 0);
    assert_non_null(strstr(help.out, "  run "));
    assert_int_equal(version.code, 0);
    assert_int_equal(strncmp(version.out, "gradwire ", 9), 0);
    assert_int_equal(run_help.code, 0);
    assert_non_null(strstr(run_help.out, "--on-failure=stop|keep"));
    forget(help);
    forget(version);
    forget(run_help);
}

static void a_wrong_command_line_prints_one_line(void **state) {
    (void)state;
    static const char *const lines[][8] = {
        { "gradwire" },
        { "gradwire", "walk" },
        { "gradwire", "run" },
        { "gradwire", "run", "true" },
        { "gradwire", "run", "-n", "2" },
        { "gradwire", "run", "-n" },
        { "gradwire", "run", "-n", "0", "true" },
        { "gradwire", "run", "-n", "1025", "true" },
        { "gradwire", "run", "-n", "99999999999999999999", "true" },
        { "gradwire", "run", "-n", "2x", "true" },
        { "gradwire", "run", "-n", "", "true" },
        { "gradwire", "run", "-n", "-1", "true" },
        { "gradwire", "run", "-n", "2", "--on-failure=explode", "true" },
        { "gradwire", "run", "-n", "2", "--on-failure" },
        { "gradwire", "run", "-n", "2", "--master-port=65536", "true" },
        { "gradwire", "run", "-n", "2", "--master-port=http", "true" },
        { "gradwire", "run", "-n", "2", "--grace=-1", "true" },
        { "gradwire", "run", "-n", "2", "--grace=nan", "true" },
        { "gradwire", "run", "-n", "2", "--grace=inf", "true" },
        { "gradwire", "run", "-n", "2", "--grace=soon", "true" },
        { "gradwire", "run", "-n", "2", "--no-prefix=1", "true" },
        { "gradwire", "run", "-n", "2", "--%s%n", "true" },
        { "gradwire", "run", "-n", "2", "--nproc_per_nodes=2", "true" },
        { "gradwire", "run", "-n", "2", "--nnodes=2", "true" },
        { "gradwire", "run", "-n", "2", "--nnodes=0", "true" },
        { "gradwire", "run", "-n", "2", "--nnodes=2", "--node-rank=0", "true" },
        { "gradwire", "run", "-n", "2", "--nnodes=2", "--node-rank=2",
          "--rdzv-endpoint=localhost:1", "true" },
        { "gradwire", "run", "-n", "2", "--node-rank=1", "true" },
        { "gradwire", "run", "-n", "2", "--rdzv-endpoint=localhost", "true" },
        { "gradwire", "run", "-n", "2", "--rdzv-endpoint=localhost:0", "true" },
        { "gradwire", "run", "-n", "2", "--rdzv-endpoint=10.0.0.1:29500", "true" },
        { "gradwire", "run", "-n", "2", "--rdzv-endpoint=localhost:1", "--rdzv-id=a/b", "true" },
        { "gradwire", "run", "-n", "1024", "--nnodes=5", "--node-rank=0",
          "--rdzv-endpoint=localhost:1", "true" },
        { "gradwire", "run", "-n", "2", "--key=/nonexistent/job.key", "true" },
        { "gradwire", "run", "-n", "2", "--key=/nonexistent/job.key", "--insecure", "true" },
        { "gradwire", "run", "-n", "2", "--log-dir=/tmp", "--no-prefix", "true" },
        { "gradwire", "run", "-n", "2", "--max-restarts=-1", "true" },
        { "gradwire", "run", "-n", "2", "--max-restarts=10001", "true" },
        { "gradwire", "run", "-n", "2", "--max-restarts=99999999999999999999", "true" },
        { "gradwire", "run", "-n", "2", "--max-restarts=two", "true" },
        { "gradwire", "run", "-n", "2", "--max-restarts=2", "--on-failure=stop", "true" },
        { "gradwire", "run", "-n", "2", "--max-restarts=2", "--on-failure=keep", "true" },
        { "gradwire", "run", "-n", "2", "--on-failure=restart", "true" },
        { "gradwire", "run", "-n", "2", "--on-failure=restart-all", "true" },
        { "gradwire", "run", "-n", "2", "--on-failure=auto", "--max-restarts=0", "true" },
        { "gradwire", "run", "-n", "2", "--on-failure=restart-", "--max-restarts=1", "true" },
        { "gradwire", "run", "-n", "2", "--on-failure=", "true" },
        { "gradwire", "run", "-n", "2", "--restart-window=-1", "true" },
        { "gradwire", "run", "-n", "2", "--backoff=soon", "true" },
        { "gradwire", "run", "-n", "2", "--min-success=1", "true" },
        { "gradwire", "run", "-n", "2", "--min-success=3", "--on-failure=keep", "true" },
        { "gradwire", "run", "-n", "2", "--min-success=0", "--on-failure=keep", "true" },
        { "gradwire", "run", "-n", "2", "-t", "3", "true" },
        { "gradwire", "run", "-n", "2", "--log-dir=/tmp", "-t", "4", "true" },
        { "gradwire", "run", "-n", "2", "--log-dir=/tmp", "-t", "", "true" },
        { "gradwire", "run", "-n", "2", "--log-dir=/tmp", "-r", "9:1", "true" },
        { "gradwire", "run", "-n", "2", "--log-dir=/tmp", "-r", "0:1,", "true" },
        { "gradwire", "run", "-n", "2", "--log-dir=/tmp", "-r", "0:", "true" },
        { "gradwire", "run", "-n", "2", "--log-dir=/tmp", "-r", "0=1", "true" },
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        testing_note("command line %zu", i);
        result r = finish(launch(lines[i]));
        assert_int_equal(r.code, 2);
        assert_int_equal(r.out_size, 0);
        assert_int_equal(count_lines(r.err), 1);
        assert_int_equal(strncmp(r.err, "gradwire", 8), 0);
        forget(r);
    }
}

// As torchrun writes its options, too. Values and the program are unchanged.
static void options_may_have_underscores(void **state) {
    (void)state;
    result r = RUN("run", "--nproc_per_node=1", "--master_port", "29512", "--on_failure=keep",
                   "--rdzv_id=a_b", "--no_prefix", "printf", "%s", "--a_b");
    assert_int_equal(r.code, 0);
    assert_string_equal(r.out, "--a_b");
    forget(r);
}

// torchrun reads these variables; an option precedes its variable.
static void variables_have_defaults_of_options(void **state) {
    (void)state;
    setenv("PET_MAX_RESTARTS", "many", 1);
    result r = RUN("run", "-n", "1", "true");
    assert_int_equal(r.code, 2);
    assert_string_equal(r.err, "gradwire run: PET_MAX_RESTARTS takes a number from 0 to 10000, not "
                               "\"many\"\n");
    forget(r);
    setenv("PET_MAX_RESTARTS", "7", 1);
    setenv("PET_ON_FAILURE", "restart_all", 1);
    r = RUN("run", "-n", "1", "sh", "-c", "echo $TORCHELASTIC_MAX_RESTARTS");
    assert_string_equal(r.out, "[0] 7\n");
    forget(r);
    r = RUN("run", "-n", "1", "--max_restarts=8", "sh", "-c", "echo $TORCHELASTIC_MAX_RESTARTS");
    assert_string_equal(r.out, "[0] 8\n");
    forget(r);
    r = RUN("run", "-n", "1", "--on-failure=stop", "true");
    assert_int_equal(r.code, 2);
    forget(r);
}

static void min_success_is_at_most_the_ranks_of_all_hosts(void **state) {
    (void)state;
    for (int count = 4; count <= 5; count++) {
        char option[32];
        snprintf(option, sizeof option, "--min-success=%d", count);
        result r =
            RUN("run", "-n", "2", "--nnodes=2", "--node-rank=0", "--rdzv-endpoint=localhost:1",
                "--dry-run", "--on-failure=keep", option, "true");
        testing_note("%s", r.err);
        assert_int_equal(r.code, count == 4 ? 0 : 2);
        assert_int_equal(strstr(r.err, "--min-success=5 is more than the 4 ranks\n") != NULL,
                         count == 5);
        forget(r);
    }
}

static void a_host_without_an_address_is_refused(void **state) {
    (void)state;
    result r = RUN("run", "--nnodes=2", "--node-rank=0", "-n1",
                   "--rdzv-endpoint=no.such.invalid:29500", "true");
    assert_int_equal(r.code, 2);
    testing_note("%s", r.err);
    assert_non_null(strstr(
        r.err,
        "the host of --rdzv-endpoint is \"no.such.invalid\", a name that does not resolve:"));
    forget(r);
}

// The page of the manual has every option that --help names.
static void the_manual_names_every_option(void **state) {
    (void)state;
    char page[64 * 1024];
    FILE *f = fopen(GW_SOURCE_DIR "/docs/man/gradwire.1", "r");
    assert_non_null(f);
    size_t size = fread(page, 1, sizeof page - 1, f), plain = 0;
    fclose(f);
    // troff writes a hyphen that is to be copied as "\-".
    for (size_t i = 0; i < size; i++)
        if (page[i] != '\\') page[plain++] = page[i];
    page[plain] = '\0';
    result help = RUN("run", "--help");
    int count = 0;
    for (const char *at = help.out; (at = strstr(at, " --")); count++) {
        char option[64];
        assert_int_equal(sscanf(++at, "%63[a-z-]", option), 1);
        testing_note("%s", option);
        assert_non_null(strstr(page, option));
    }
    assert_in_range(count, 14, 100);
    forget(help);
}

// The processors of this thread become |count| of those it had.
static void keep_processors(int count) {
    cpu_set_t had, kept;
    assert_int_equal(sched_getaffinity(0, sizeof had, &had), 0);
    CPU_ZERO(&kept);
    for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&kept) < count; i++)
        if (CPU_ISSET(i, &had)) CPU_SET(i, &kept);
    assert_int_equal(sched_setaffinity(0, sizeof kept, &kept), 0);
}

// The masks of the ranks, which print the processors that they may use.
static int find_masks(int count, bool binds, cpu_set_t *out) {
    char n[8], line[64];
    snprintf(n, sizeof n, "%d", count);
    const char *script = "sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status |"
                         " tr , '\\n' | sed 's/^/cpu /'";
    result r = binds ? RUN("run", "-n", n, "--bind", "sh", "-c", script)
                     : RUN("run", "-n", n, "sh", "-c", script);
    assert_int_equal(r.code, 0);
    int found = 0;
    for (int i = 0; i < count; i++) {
        CPU_ZERO(&out[i]);
        snprintf(line, sizeof line, "[%d] cpu ", i);
        for (const char *at = r.out; (at = strstr(at, line)); found++) {
            int first, last;
            at += strlen(line);
            if (sscanf(at, "%d-%d", &first, &last) < 2) last = first = (int)strtol(at, NULL, 10);
            for (; first <= last; first++) CPU_SET(first, &out[i]);
        }
    }
    forget(r);
    return found;
}

static void ranks_are_bound_to_their_share_of_the_processors(void **state) {
    (void)state;
    cpu_set_t had, masks[5], both;
    assert_int_equal(sched_getaffinity(0, sizeof had, &had), 0);
    int processors = CPU_COUNT(&had);
    if (processors < 2) testing_skip("one processor");
    find_masks(2, false, masks);
    for (int i = 0; i < 2; i++) assert_true(CPU_EQUAL(&masks[i], &had));
    // All of them, and none twice.
    find_masks(2, true, masks);
    CPU_AND(&both, &masks[0], &masks[1]);
    assert_int_equal(CPU_COUNT(&both), 0);
    CPU_OR(&both, &masks[0], &masks[1]);
    assert_true(CPU_EQUAL(&both, &had));
    assert_in_range(CPU_COUNT(&masks[0]), processors / 2, (processors + 1) / 2);
    // More ranks than processors.
    keep_processors(2);
    find_masks(5, true, masks);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(CPU_COUNT(&masks[i]), 1);
        assert_true(CPU_EQUAL(&masks[i], &masks[i % 2]));
    }
    assert_false(CPU_EQUAL(&masks[0], &masks[1]));
    keep_processors(1);
    find_masks(2, true, masks);
    assert_true(CPU_EQUAL(&masks[0], &masks[1]));
    assert_int_equal(CPU_COUNT(&masks[0]), 1);
}

static void a_dry_run_prints_the_processors(void **state) {
    (void)state;
    cpu_set_t had;
    char place[64];
    keep_processors(1);
    assert_int_equal(sched_getaffinity(0, sizeof had, &had), 0);
    int processor = 0;
    while (!CPU_ISSET(processor, &had)) processor++;
    result r = RUN("run", "-n", "2", "--bind", "--dry-run", "true");
    assert_int_equal(r.code, 0);
    snprintf(place, sizeof place, "rank 1 (local rank 1, processors %d):", processor);
    assert_non_null(strstr(r.out, place));
    forget(r);
}

static void a_dry_run_prints_the_commands(void **state) {
    (void)state;
    result r = RUN("run", "-n", "2", "--master-port=4711", "--dry-run", "sh", "-c", "touch 'x y'");
    assert_int_equal(r.code, 0);
    assert_int_equal(count_lines(r.out), 2);
    assert_non_null(strstr(r.out, "host 0: rank 1 (local rank 1):"));
    assert_non_null(strstr(r.out, " RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 "));
    assert_non_null(strstr(r.out, " MASTER_ADDR=127.0.0.1 MASTER_PORT=4711 "));
    assert_non_null(strstr(r.out, " sh -c 'touch '\\''x y'\\'''\n"));
    forget(r);
    r = RUN("run", "-n", "2", "--nnodes=3", "--node-rank=2", "--rdzv-endpoint=[::1]:29500",
            "--dry-run", "no-such-program");
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "host 2: rank 4 (local rank 0):"));
    assert_non_null(strstr(r.out, " RANK=5 WORLD_SIZE=6 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 "
                                  "GROUP_RANK=2 GROUP_WORLD_SIZE=3 MASTER_ADDR=::1 "));
    forget(r);
}

// ---- The environment of a rank ------------------------------------------------------------------

static void ranks_find_their_rank_in_the_environment(void **state) {
    (void)state;
    setenv("RANK", "77", 1);
    setenv("MASTER_PORT", "1", 1);
    launched l =
        LAUNCH("run", "-n3", "--master-port=4711", "--", "sh", "-c",
               "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $MASTER_ADDR:$MASTER_PORT");
    char *seen[3] = { 0 };
    for (int i = 0; i < 3; i++) {
        const char *line = read_line(l.out_fd, "[");
        int rank = line[0] - '0';
        assert_in_range(rank, 0, 2);
        assert_null(seen[rank]);
        seen[rank] = strdup(line + 3);
    }
    assert_string_equal(seen[0], "0/3 0/3 127.0.0.1:4711");
    assert_string_equal(seen[1], "1/3 1/3 127.0.0.1:4711");
    assert_string_equal(seen[2], "2/3 2/3 127.0.0.1:4711");
    for (int i = 0; i < 3; i++) free(seen[i]);
    result r = finish(l);
    assert_int_equal(r.code, 0);
    forget(r);
}

static int try_port(int port, bool shared) {
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    int fd = socket(AF_INET, SOCK_STREAM, 0), yes = shared;
    assert_true(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    int failed = bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, 1);
    close(fd);
    return !failed;
}

static void a_free_port_is_kept_for_rank_0(void **state) {
    (void)state;
    launched l = LAUNCH("run", "-n", "1", "sh", "-c", "echo $MASTER_PORT; read x");
    int port = (int)strtol(read_line(l.out_fd, "[0] "), NULL, 10);
    assert_in_range(port, 1, 65535);
    assert_true(try_port(port, true));
    assert_false(try_port(port, false));
    result r = finish(l);
    forget(r);
}

static void rank_0_reads_the_input(void **state) {
    (void)state;
    launched l =
        LAUNCH("run", "-n", "2", "sh", "-c", "while read x; do echo got $x; done; echo end");
    read_line(l.out_fd, "[1] end");
    send_line(&l, "one");
    assert_string_equal(read_line(l.out_fd, "[0] got "), "one");
    close_input(&l);
    read_line(l.out_fd, "[0] end");
    result r = finish(l);
    assert_int_equal(r.code, 0);
    forget(r);
}

// The output of |script| when a shell runs it directly.
static void print_directly(const char *script, char *out, size_t size) {
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        execlp("sh", "sh", "-c", script, (char *)NULL);
        _exit(126);
    }
    close(ends[1]);
    size_t used = 0;
    for (ssize_t n; (n = read(ends[0], out + used, size - 1 - used)) > 0;) used += (size_t)n;
    out[used] = '\0';
    close(ends[0]);
    waitpid(pid, NULL, 0);
}

static void ranks_inherit_from_the_launcher(void **state) {
    (void)state;
    // Descriptors, blocked and ignored signals, the limit of descriptors.
    const char *script = "ls /proc/$$/fd; grep -E 'SigBlk|SigIgn' /proc/self/status; ulimit -n";
    char expected[4096];
    signal(SIGUSR1, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    setenv("GW_FLIGHT", "0", 1);  // else ranks have one more descriptor
    print_directly(script, expected, sizeof expected);
    result r = RUN("run", "-n1", "--no-prefix", "sh", "-c", script);
    assert_int_equal(r.code, 0);
    assert_string_equal(r.out, expected);
    forget(r);
}

// ---- The output of ranks ------------------------------------------------------------------------

static void lines_carry_their_rank(void **state) {
    (void)state;
    result r = RUN("run", "-n", "2", "sh", "-c", "echo a$RANK; echo; echo b$RANK; echo c$RANK >&2");
    assert_int_equal(r.code, 0);
    assert_int_equal(count_lines(r.out), 6);
    for (int i = 0; i < 2; i++) {
        char a[40], empty[40], b[40], c[40];
        snprintf(a, sizeof a, "[%d] a%d\n", i, i);
        snprintf(empty, sizeof empty, "[%d] \n", i);
        snprintf(b, sizeof b, "[%d] b%d\n", i, i);
        snprintf(c, sizeof c, "[%d] c%d\n", i, i);
        assert_true(strstr(r.out, a) < strstr(r.out, empty));
        assert_true(strstr(r.out, empty) < strstr(r.out, b));
        assert_non_null(strstr(r.err, c));
    }
    assert_int_equal(count_lines(r.err), 2);
    forget(r);
}

static void expect_file(path p, const char *text) {
    char found[256];
    FILE *f = fopen(p.text, "r");
    assert_non_null(f);
    size_t size = fread(found, 1, sizeof found - 1, f);
    found[size] = '\0';
    fclose(f);
    assert_string_equal(found, text);
}

static void a_log_is_kept_for_each_rank(void **state) {
    (void)state;
    path folder = make_folder(), logs = in_folder(folder, "logs");
    for (int i = 0; i < 2; i++) {  // the second time anew
        result r = RUN("run", "-n", "2", "--log-dir", logs.text, "sh", "-c",
                       "echo out of $RANK; printf end");
        assert_int_equal(r.code, 0);
        assert_non_null(strstr(r.out, "[1] out of 1\n"));
        forget(r);
    }
    expect_file(in_folder(logs, "rank0.log"), "out of 0\nend\n");
    expect_file(in_folder(logs, "rank1.log"), "out of 1\nend\n");
    result refused = RUN("run", "-n", "1", "--log-dir", "/dev/null", "echo", "started");
    assert_int_equal(refused.code, 125);
    assert_string_equal(refused.err, "gradwire: cannot start: --log-dir: Not a directory\n");
    forget(refused);
    remove_folder(folder);
}

static void no_prefix_leaves_output_alone(void **state) {
    (void)state;
    result r = RUN("run", "-n", "1", "--no-prefix", "printf", "no end of line");
    assert_int_equal(r.code, 0);
    assert_string_equal(r.out, "no end of line");
    assert_string_equal(r.err, "");
    forget(r);
}

static void a_last_line_without_end_gets_one(void **state) {
    (void)state;
    result r = RUN("run", "-n", "1", "printf", "one\ntwo");
    assert_string_equal(r.out, "[0] one\n[0] two\n");
    forget(r);
}

static void a_line_in_pieces_is_printed_whole(void **state) {
    (void)state;
    launched l = LAUNCH("run", "-n", "1", "sh", "-c", "printf 'half '; read x; echo ' done'");
    send_line(&l, "continue");
    result r = finish(l);
    assert_string_equal(r.out, "[0] half  done\n");
    forget(r);
}

static void a_long_line_is_cut(void **state) {
    (void)state;
    result exact =
        RUN("run", "-n1", "sh", "-c", "head -c 65536 /dev/zero | tr '\\0' a; echo; echo next");
    assert_int_equal(exact.out_size, 4 + 65536 + 1 + strlen("[0] next\n"));
    result longer =
        RUN("run", "-n1", "sh", "-c", "head -c 66536 /dev/zero | tr '\\0' a; echo; echo next");
    const char *end = longer.out + 4 + 65536;
    assert_string_equal(end, " [line cut, 1000 bytes left out]\n[0] next\n");
    forget(exact);
    forget(longer);
}

static long memory_peak_kib(pid_t pid) {
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *status = fopen(path, "r");
    assert_non_null(status);
    long peak_kib = -1;
    while (fgets(line, sizeof line, status)) sscanf(line, "VmHWM: %ld kB", &peak_kib);
    fclose(status);
    return peak_kib;
}

static void memory_is_bounded_for_any_output(void **state) {
    (void)state;
    launched l = LAUNCH("run", "-n", "2", "sh", "-c",
                        "head -c 100000000 /dev/zero | tr '\\0' a; echo; head -c 100000 /dev/zero |"
                        " tr '\\0' '\\n'; echo ready; read x; read y < /dev/null; true");
    read_line(l.out_fd, "[0] ready");
    assert_in_range(memory_peak_kib(l.pid), 1, 64 * 1024);
    result r = finish(l);
    assert_int_equal(r.code, 0);
    forget(r);
}

static void binary_passes(void **state) {
    (void)state;
    result r = RUN("run", "-n", "1", "printf", "\\000\\377\\033[31m\\r%%s\\n");
    assert_int_equal(r.out_size, 4 + 11);
    assert_memory_equal(r.out, "[0] \0\377\033[31m\r%s\n", 15);
    forget(r);
}

static void a_rank_with_endless_output_does_not_delay_the_others(void **state) {
    (void)state;
    launched l =
        LAUNCH("run", "-n", "3", "sh", "-c",
               "test $RANK != 1 && exec yes; for i in 1 2 3; do echo $i; done; exec sleep 1000");
    read_line(l.out_fd, "[1] 3");
    kill(l.pid, SIGINT);
    result r = finish(l);
    assert_int_equal(r.code, 130);
    forget(r);
}

static void ranks_get_a_broken_pipe_when_the_reader_has_closed(void **state) {
    (void)state;
    launched l = LAUNCH("run", "-n", "2", "yes");
    read_line(l.out_fd, "[");
    close(l.out_fd);
    l.out_fd = -1;
    result r = finish(l);
    assert_int_equal(r.code, 128 + SIGPIPE);
    forget(r);
}

static void a_full_disk_is_reported(void **state) {
    (void)state;
    int full_fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    const char *const arguments[] = { "gradwire", "run", "-n", "2", "echo", "lost", NULL };
    result r = finish(launch_with(arguments, -1, full_fd, -1));
    close(full_fd);
    assert_int_equal(r.code, 1);
    assert_string_equal(r.err, "gradwire: cannot write standard output: No space left on device\n");
    forget(r);
}

static void both_outputs_may_be_one_file(void **state) {
    (void)state;
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    const char *const arguments[] = {
        "gradwire", "run", "-n", "1", "sh", "-c", "echo a; echo b >&2; exit 3", NULL
    };
    launched l = launch_with(arguments, -1, ends[1], ends[1]);
    close(ends[1]);
    l.out_fd = ends[0];
    result r = finish(l);
    assert_int_equal(r.code, 3);
    assert_non_null(strstr(r.out, "[0] a\n"));
    assert_non_null(strstr(r.out, "[0] b\n"));
    const char *last = strstr(r.out, "gradwire: rank 0 (pid ");
    assert_non_null(last);
    assert_int_equal(count_lines(last), 1);
    forget(r);
}

// ---- Starting -----------------------------------------------------------------------------------

static void write_script(path p, const char *text, mode_t mode) {
    FILE *script = fopen(p.text, "w");
    assert_non_null(script);
    fputs(text, script);
    fclose(script);
    assert_int_equal(chmod(p.text, mode), 0);
}

static void a_program_that_cannot_run_is_named(void **state) {
    (void)state;
    path folder = make_folder(), plain = in_folder(folder, "plain"),
         lost = in_folder(folder, "lost"), absent = in_folder(folder, "absent");
    write_script(plain, "echo no\n", 0600);
    write_script(lost, "#!/no/such/interpreter\n", 0700);
    const struct {
        const char *program;
        int code;
        const char *why;
    } cases[] = {
        { absent.text, 127, "No such file or directory" },
        { "no-such-program-anywhere", 127, "there is no such program in PATH" },
        { lost.text, 127, "its interpreter is missing" },
        { plain.text, 126, "Permission denied" },
        { folder.text, 126, "Permission denied" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        testing_note("case %zu", i);
        char expected[512];
        snprintf(expected, sizeof expected, "gradwire: cannot run %s: %s\n", cases[i].program,
                 cases[i].why);
        result r = RUN("run", "-n", "3", cases[i].program);
        assert_int_equal(r.code, cases[i].code);
        assert_string_equal(r.out, "");
        assert_string_equal(r.err, expected);
        forget(r);
    }
    remove_folder(folder);
}

static void without_descriptors_nothing_starts(void **state) {
    (void)state;
    path folder = make_folder(), mark = in_folder(folder, "mark");
    const struct rlimit few = { 40, 40 };
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    result r = RUN("run", "-n", "100", "touch", mark.text);
    assert_int_equal(r.code, 125);
    assert_int_equal(count_lines(r.err), 1);
    assert_non_null(strstr(r.err, "Too many open files"));
    assert_int_equal(access(mark.text, F_OK), -1);
    forget(r);
    remove_folder(folder);
}

// Whether the launcher itself starts with |size| bytes more in its environment.
static bool starts_with(size_t size) {
    static char text[120000];
    memset(text, 'x', size);
    text[size] = '\0';
    setenv("PADDING", text, 1);
    result r = RUN("--version");
    int code = r.code;
    forget(r);
    return code == 0;
}

// The launcher has the largest environment that the system accepts, and adds to it for the ranks.
static void an_environment_that_is_too_big_is_reported(void **state) {
    (void)state;
    const struct rlimit small = { 512 << 10,
                                  512 << 10 };  // a quarter of it: arguments, environment
    assert_int_equal(setrlimit(RLIMIT_STACK, &small), 0);
    size_t fits = 0, too_much = 119999;
    setenv("MORE", memset((char[60000]){ 0 }, 'y', 59999), 1);
    assert_true(starts_with(fits));
    assert_false(starts_with(too_much));
    while (too_much - fits > 1) {
        size_t middle = (fits + too_much) / 2;
        *(starts_with(middle) ? &fits : &too_much) = middle;
    }
    assert_true(starts_with(fits - 64));  // room for the arguments
    result r = RUN("run", "-n", "2", "true");
    assert_string_equal(r.err, "gradwire: cannot run true: Argument list too long\n");
    assert_int_equal(r.code, 126);
    forget(r);
}

static void a_stack_of_64_kib_suffices(void **state) {
    (void)state;
    const rlim_t bytes = MEM_CACHED ? 64 << 10 : 8 << 20;  // frames are larger under a sanitizer
    const struct rlimit small = { bytes, bytes };
    assert_int_equal(setrlimit(RLIMIT_STACK, &small), 0);
    result r = RUN("run", "-n", "2", GW_BUILD_DIR "/bin/hello");
    assert_string_equal(r.err, "");
    assert_string_equal(r.out, "[0] tensor([ 6., 12., 18.])\n");
    assert_int_equal(r.code, 0);
    forget(r);
}

static void many_ranks_start(void **state) {
    (void)state;
    char count[16];
    int rank_count = testing_scaled(1024);
    snprintf(count, sizeof count, "%d", rank_count);
    // More than twice as many pipes as the usual soft limit allows.
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = 256;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    result r = RUN("run", "-n", count, "echo", "here");
    assert_int_equal(r.code, 0);
    assert_int_equal(count_lines(r.out), rank_count);
    forget(r);
}

GW_TESTS(run, help_and_version_are_printed, a_wrong_command_line_prints_one_line,
         options_may_have_underscores, a_host_without_an_address_is_refused,
         ranks_find_their_rank_in_the_environment, a_free_port_is_kept_for_rank_0,
         rank_0_reads_the_input, ranks_inherit_from_the_launcher, lines_carry_their_rank,
         variables_have_defaults_of_options, min_success_is_at_most_the_ranks_of_all_hosts,
         a_log_is_kept_for_each_rank, a_dry_run_prints_the_commands,
         a_dry_run_prints_the_processors, ranks_are_bound_to_their_share_of_the_processors,
         the_manual_names_every_option, no_prefix_leaves_output_alone,
         a_last_line_without_end_gets_one, a_line_in_pieces_is_printed_whole, a_long_line_is_cut,
         memory_is_bounded_for_any_output, binary_passes,
         a_rank_with_endless_output_does_not_delay_the_others,
         ranks_get_a_broken_pipe_when_the_reader_has_closed, a_full_disk_is_reported,
         both_outputs_may_be_one_file, a_program_that_cannot_run_is_named,
         without_descriptors_nothing_starts, an_environment_that_is_too_big_is_reported,
         a_stack_of_64_kib_suffices, many_ranks_start);
