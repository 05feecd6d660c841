// gradwire run with torchrun's options, and with the variables that set their defaults.
#include "testing/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/launched.h"

enum { ARGUMENTS_MAX = 6, PROGRAM = 5 };

// Runs one rank, or as many as the first option says, which print the variables.
static result run_with(const char *const options[ARGUMENTS_MAX]) {
    static const char print[] = "echo $RANK/$WORLD_SIZE $ROLE_NAME $MASTER_ADDR $GW_ADDRESS";
    const char *arguments[2 + ARGUMENTS_MAX + PROGRAM] = { "gradwire", "run" };
    int count = 2;
    for (int i = 0; i < ARGUMENTS_MAX && options[i]; i++) arguments[count++] = options[i];
    arguments[count++] = "sh";
    arguments[count++] = "-c";
    arguments[count] = print;
    return finish(launch(arguments));
}

typedef struct row {
    const char *options[ARGUMENTS_MAX];
    const char *out;  // of rank 0, behind "[0] "; NULL: refused
    const char *err;  // the beginning, behind "gradwire run: "; NULL: nothing
} row;

static void check(const row *r) {
    result of = run_with(r->options);
    testing_note("%s %s: code %d, \"%s\", \"%s\"", r->options[0], r->options[1], of.code, of.out,
                 of.err);
    assert_int_equal(of.code, r->out ? 0 : 2);
    char line[256];
    snprintf(line, sizeof line, "[0] %s\n", r->out);
    if (r->out) assert_non_null(strstr(of.out, line));
    snprintf(line, sizeof line, "gradwire run: %s", r->err);
    if (r->err)
        assert_int_equal(strncmp(of.err, line, strlen(line)), 0);
    else
        assert_string_equal(of.err, "");
    forget(of);
}

// Names of hosts are not resolved, and no other host is waited for.
static void options_of_torchrun_are_taken_or_refused(void **state) {
    (void)state;
    static const row rows[] = {
        { { "--nproc-per-node=1", "--nnodes=1:1" }, "0/1 default 127.0.0.1", NULL },
        { { "-n1", "--standalone", "--rdzv-endpoint=host.invalid:1", "--rdzv-backend=c10d" },
          "0/1 default 127.0.0.1",
          NULL },
        { { "-n1", "--master-addr=host.invalid" }, "0/1 default 127.0.0.1", NULL },
        { { "-n1", "--rdzv_conf=timeout=3,join_timeout=4,last_call_timeout=1,min_timeout=0" },
          "0/1 default 127.0.0.1",
          NULL },
        { { "-n1", "--role", "ps.1", "--no-python" }, "0/1 ps.1 127.0.0.1", NULL },
        { { "-n1", "--local-addr=127.0.0.2" }, "0/1 default 127.0.0.1 127.0.0.2", NULL },
        { { "-n1", "--numa-binding=core-complex" }, "0/1 default 127.0.0.1", NULL },
        { { "-n2", "--local-ranks-filter=0" }, "0/2 default 127.0.0.1", NULL },
        { { "-n1", "--monitor_interval=0.1" },
          "0/1 default 127.0.0.1",
          "--monitor-interval is ignored: " },
        { { "-n1", "--start-method=spawn" },
          "0/1 default 127.0.0.1",
          "--start-method is ignored: " },
        { { "-n1", "--event-log-handler=null" },
          "0/1 default 127.0.0.1",
          "--event-log-handler is ignored: " },
        { { "-n1", "--logs-specs=x" }, "0/1 default 127.0.0.1", "--logs-specs is ignored: " },
        { { "-n1", "--signals-to-handle=SIGTERM" },
          "0/1 default 127.0.0.1",
          "--signals-to-handle is ignored: " },
        { { "--nproc-per-node=gpu" }, NULL, "-n=gpu: gradwire uses no GPUs" },
        { { "-n1", "--nnodes=2:2" }, NULL, "--nnodes needs --rdzv-endpoint=HOST:PORT" },
        { { "-n1", "--nnodes=1:4", "--node-rank=0" },
          NULL,
          "--node-rank=0 cannot be used with --nnodes=1:4" },
        { { "-n1", "--rdzv-conf=last_call_timeout=soon" },
          NULL,
          "--rdzv-conf: last_call_timeout takes seconds " },
        { { "-n1", "--nnodes=3:2" }, NULL, "--nnodes=3:2: the first number is the least" },
        { { "-n1", "--nnodes=2:" }, NULL, "--nnodes takes a number from 1 to 512, not \"\"" },
        { { "-n1", "--nnodes=:3" }, NULL, "--nnodes takes a number from 1 to 512, not \"\"" },
        { { "-n1", "--nnodes=a:b" }, NULL, "--nnodes takes a number from 1 to 512, not \"a\"" },
        { { "-n1", "--nnodes=0:1" }, NULL, "--nnodes takes a number from 1 to 512, not \"0\"" },
        { { "-n1", "--standalone", "--nnodes=2" }, NULL, "--standalone is for one host" },
        { { "-n1", "--nnodes=2", "--node-rank=0", "--master-addr=host.invalid" },
          NULL,
          "--master-addr is \"host.invalid\", a name that does not resolve: " },
        { { "-n1", "--rdzv-backend=etcd" }, NULL, "--rdzv-backend is static, gradwire or c10d" },
        { { "-n1", "--rdzv-conf=timeot=3" },
          NULL,
          "--rdzv-conf has no key \"timeot\"; did you mean \"timeout\"?" },
        { { "-n1", "--rdzv-conf=timeout" }, NULL, "--rdzv-conf takes KEY=VALUE,..., not " },
        { { "-n1", "--rdzv-conf=timeout=-1" }, NULL, "--rdzv-conf: timeout takes seconds " },
        { { "-n1", "--role=p/s" }, NULL, "--role takes a name of at most 127 of " },
        { { "-n1", "--role=" }, NULL, "--role takes a name of at most 127 of " },
        { { "-n1", "--numa-binding=cpu" }, NULL, "--numa-binding is node, socket, exclusive or " },
        { { "-n1", "--local-ranks-filter=1" }, NULL, "--local-ranks-filter names local rank 1, " },
        { { "-n1", "--local-ranks-filter=0," }, NULL, "--local-ranks-filter takes local ranks, " },
        { { "-n1", "--no-prefix", "--local-ranks-filter=0" },
          NULL,
          "--no-prefix cannot be used with --local-ranks-filter" },
        { { "-n1", "-m" }, NULL, "--module runs a Python module: give \"python -m NAME\" " },
        { { "-n1", "--run-path" }, NULL, "--run-path runs a Python script: " },
        { { "-n1", "--virtual-local-rank" }, NULL, "--virtual-local-rank is for GPUs" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) check(&rows[i]);
}

static void a_rank_for_each_processor_starts(void **state) {
    (void)state;
    result nproc = finish(launch((const char *[]){ "gradwire", "run", "-n1", "nproc", NULL })),
           automatic = run_with((const char *[ARGUMENTS_MAX]){ "--nproc-per-node=auto" }),
           cpu = run_with((const char *[ARGUMENTS_MAX]){ "-n", "cpu" });
    char line[64];
    snprintf(line, sizeof line, "[0] 0/%.*s default", (int)strcspn(nproc.out + 4, "\n"),
             nproc.out + 4);
    assert_non_null(strstr(automatic.out, line));
    assert_non_null(strstr(cpu.out, line));
    forget(nproc);
    forget(automatic);
    forget(cpu);
}

// Without a filter the second rank would print as well.
static void only_the_chosen_ranks_are_shown(void **state) {
    (void)state;
    result r = run_with((const char *[ARGUMENTS_MAX]){ "-n3", "--local-ranks-filter=0,2" });
    assert_non_null(strstr(r.out, "[0] 0/3"));
    assert_null(strstr(r.out, "[1]"));
    assert_non_null(strstr(r.out, "[2] 2/3"));
    forget(r);
}

// --master-addr and --master-port are torchrun's older way to name where hosts meet.
static void hosts_meet_at_the_master(void **state) {
    (void)state;
    char port[32];
    snprintf(port, sizeof port, "--master-port=%d", testing_free_port());
    launched hosts[2];
    for (int i = 0; i < 2; i++)
        hosts[i] = launch((const char *[]){ "gradwire", "run", "-n1", "--nnodes=2",
                                            i ? "--node-rank=1" : "--node-rank=0",
                                            "--master-addr=localhost", port, "sh", "-c",
                                            "echo $RANK/$WORLD_SIZE $MASTER_ADDR", NULL });
    for (int i = 0; i < 2; i++) {
        char line[64];
        result r = finish(hosts[i]);
        testing_note("host %d: code %d, \"%s\"", i, r.code, r.err);
        assert_int_equal(r.code, 0);
        snprintf(line, sizeof line, "[%d] %d/2 localhost\n", i, i);
        assert_string_equal(r.out, line);
        forget(r);
    }
}

static void every_option_has_a_variable(void **state) {
    (void)state;
    static const struct {
        const char *name, *value;
        row expected;
    } rows[] = {
        { "PET_NPROC_PER_NODE", "2", { { "--role=a" }, "0/2 a 127.0.0.1", NULL } },
        { "PET_ROLE", "b", { { "-n1" }, "0/1 b 127.0.0.1", NULL } },
        { "PET_ROLE", "b", { { "-n1", "--role=c" }, "0/1 c 127.0.0.1", NULL } },
        { "PET_BIND", "1", { { "-n1" }, "0/1 default 127.0.0.1", NULL } },
        { "PET_STANDALONE", "0", { { "-n1" }, "0/1 default 127.0.0.1", NULL } },
        { "PET_STANDALONE", "1", { { "-n1", "--nnodes=2" }, NULL, "--standalone is for " } },
        { "PET_STANDALONE", "yes", { { "-n1" }, NULL, "PET_STANDALONE is 0 or 1, not \"yes\"" } },
        { "PET_NNODES", "2", { { "-n1", "--nnodes=1" }, "0/1 default 127.0.0.1", NULL } },
        { "PET_NNODES", "0", { { "-n1" }, NULL, "PET_NNODES takes a number from 1 to 512, " } },
        { "PET_RDZV_ID", "a b", { { "-n1" }, NULL, "PET_RDZV_ID takes at most 40 of " } },
        { "PET_MONITOR_INTERVAL",
          "1",
          { { "-n1" }, "0/1 default 127.0.0.1", "PET_MONITOR_INTERVAL is ignored: " } },
        { "PET_RUN_PATH", "1", { { "-n1" }, NULL, "PET_RUN_PATH runs a Python script: " } },
        { "PET_DRY_RUN", "1", { { "-n1" }, "0/1 default 127.0.0.1", NULL } },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        setenv(rows[i].name, rows[i].value, 1);
        testing_note("%s=%s", rows[i].name, rows[i].value);
        check(&rows[i].expected);
        unsetenv(rows[i].name);
    }
}

GW_TESTS(run_torchrun, options_of_torchrun_are_taken_or_refused, a_rank_for_each_processor_starts,
         only_the_chosen_ranks_are_shown, hosts_meet_at_the_master, every_option_has_a_variable);
