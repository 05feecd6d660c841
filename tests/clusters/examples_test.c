// Each program of examples/ over two hosts or more, in a short form and with a key: its output, and where it is the
// same each time, that it equals the output on one host. Where the kernel makes no hosts these tests are skipped.
#include "../support/hosts.h"
#include "testing/testing.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct example {
    const char *programs;  // of examples/
    const char *command;
    int ranks;           // of each host, by gradwire run; 0: it starts its own workers
    const char *founds;  // the NAME of their group's file, /tmp/gradwire-NAME-PID
    const char *joins;   // and one more, from the other host, at $URL
    int hosts;           // 0: 2
    int code;            // 3: the short form misses the goal
    const char *prints;
    const char
        *same;  // a filter whose output is as on one host; NULL: the output depends on timing
} example;

static const example examples[] = {
    { "hello", "./hello", 1, .prints = "tensor([ 6., 12., 18.])", .same = "cat" },
    { "hello_cpp", "./hello_cpp", 1, .prints = "counted to 42", .same = "cat" },
    { "stats_server stats_client",
      "sh -c 'if [ $RANK = 0 ]; then exec ./stats_client; else exec ./stats_server; fi'", 1,
      .prints = "count 5, mean 2.0000, std 1.5811", .same = "cat" },
    { "remote_dataset", "./remote_dataset", 1, .prints = "step 96: 0.01", .same = "cat" },
    { "rl_cartpole", "./rl_cartpole --max-episodes 6 --log-interval 1 --seed 7", 2, .code = 3,
      .prints = "Episode 6", .same = "cat" },
    { "a3c", "./a3c --steps 2000 --evaluate 2", 1, .prints = "over 2 new episodes",
      .same = "sed 's/, [0-9.]* s$//'" },
    { "a3c", "./a3c --steps 2000 --evaluate 2", 2, .prints = "over 2 new episodes" },
    { "parameter_server", "./parameter_server --epochs 2", 1, .code = 3,
      .prints = "1 trainers, 180 steps: ",
      .same = "sed 's/[0-9.]* [a-z]* a step//; s/[0-9.]* s$//'" },
    { "parameter_server", "./parameter_server --form push --epochs 1", 2, .code = 3,
      .prints = " steps late" },
    { "parameter_server", "./parameter_server --form hogwild --epochs 1", 2, .code = 3,
      .prints = "3 trainers, 90 steps: " },
    { "batch_rpc", "./batch_rpc --epochs 3", 2, .code = 3,
      .prints = "3 trainers, answered together" },
    { "rnn_lm",
      "./rnn_lm --text /usr/share/common-licenses/GPL-2 --vocabulary 300 --batch 5 --hidden 32 "
      "--features 32 --epochs 1",
      1, .prints = "held-out perplexity: ", .same = "sed 's/ *[0-9.]* s  //'" },
    { "pipeline", "./pipeline --check --epochs 2", 1, .hosts = 3,
      .prints = "weights and losses are those of the unsplit model", .same = "grep epoch" },
    { "ddp_digits", "./ddp_digits --epochs 2 --shards 4", 2, .code = 3, .prints = "4 members",
      .same = "grep -o 'weights.*'" },
    { "checkpoints",
      "sh -c 'f=/tmp/gradwire-saved-$GW_JOB_ID; ./checkpoints $f 20; code=$?; rm -rf $f; exit "
      "$code'",
      1, .prints = "ends at step 20 with loss" },
    { "ddp_rpc", "./ddp_rpc --epochs 3", 2, .code = 3,
      .prints = "the replicas have the same bits" },
    { "ddp_elastic", "./ddp_elastic --epochs 4", 2, .prints = " % of the test digits, weights ",
      .same = "grep -o 'weights.*'" },
    { "ddp_survives", "./ddp_survives --epochs 3 --losses 0", 2, .code = 3,
      .prints = "3 epochs, weights " },
    { "join_uneven", "./join_uneven", 2, .prints = "worker3 has used all of its 8 inputs",
      .same = "sort" },
    { "local_sgd", "./local_sgd --epochs 2", 2, .code = 3, .prints = "PowerSGD" },
    { "pipeline_ddp", "./pipeline_ddp --check --epochs 1", 2, .code = 3,
      .prints = "the weights are those of the unsplit model" },
    { "zero_memory", "./zero_memory --width 64", 2, .prints = "plain       0.3       0.3      0.7",
      .same = "awk '!/step/ { print $6 }'" },
    { "fedavg", "./fedavg --clients 2 --await 3 --shares 3 --rounds 3 --epochs 1 --seed 4",
      .founds = "fedavg", .joins = "./fedavg --shares 3 --number 3 --join $URL",
      .prints = "round   3  3 clients", .same = "sed -n 's/  [0-9.]* MB.*//p'" },
    { "supervisor", "./supervisor", .founds = "supervisor", .joins = "./supervisor $URL worker4",
      .prints = "the sum of 40 squares is 22140" },
    { "ddp_digits", "./ddp_digits --elastic --epochs 4", 2, .code = 3, .prints = "epoch 4 of 4" },
    { "elastic_actors", "./elastic_actors --updates=40", 2, .prints = "40 updates, score " },
    { "preempted", "./preempted --epochs 2", 2, .prints = "finished, weights ",
      .same = "grep -o 'weights.*'" },
};

enum { EXAMPLES = sizeof examples / sizeof examples[0] };

// The full forms, which reach their goals: run by `make clusters`.
static const example in_full[] = {
    { "a3c", "./a3c --goal 300 --evaluate 30 --seed 3", 2, .prints = "over 30 new episodes" },
    { "parameter_server", "./parameter_server", 2, .prints = "3 trainers, 1800 steps: 9" },
    { "batch_rpc", "./batch_rpc", 2, .prints = "3 trainers, answered together: 9" },
    { "batch_rpc", "./batch_rpc --form agent --episodes 10 --seed 3", 2, .code = 3,
      .prints = "3 observers, answered together: ", .same = "grep episode" },
    { "rnn_lm", "./rnn_lm --vocabulary 500 --features 128 --hidden 128 --dropout 0.5 --epochs 8", 1,
      .prints = "of a bigram model" },
    { "pipeline", "./pipeline --epochs 15", 1, .hosts = 3, .prints = "test accuracy: 9" },
    { "ddp_digits", "./ddp_digits", 2, .prints = "4 members" },
    { "ddp_rpc", "./ddp_rpc", 2, .prints = "the replicas have the same bits" },
    { "local_sgd", "./local_sgd", 2, .prints = "PowerSGD" },
    { "pipeline_ddp", "./pipeline_ddp", 2, .prints = "% of the test digits" },
    { "fedavg", "./fedavg --clients 2 --await 3 --shares 3 --seed 4", .founds = "fedavg",
      .joins = "./fedavg --shares 3 --number 3 --join $URL", .prints = "round  60  3 clients" },
};

enum { IN_FULL = sizeof in_full / sizeof in_full[0] };

// ---- Running one ----------------------------------------------------------------------------------

typedef struct site {
    hosts *net;
    path folder, key;
} site;

static site open_site(void) {
    site p = { .net = hosts_open((hosts_options){ .count = 3 }), .folder = make_folder() };
    p.key = make_key(p.folder);
    return p;
}

static void close_site(site *p) {
    remove_folder(p->folder);
    hosts_close(p->net);
}

static void expect(const example *x, launched *ranks, int count) {
    for (int i = 0; i < count; i++) {
        result r = finish(ranks[i]);
        testing_note("%s: part %d ended with %d, \"%.600s\"", x->command, i, r.code, r.err);
        assert_int_equal(r.code, x->joins && i ? 0 : x->code);
        forget(r);
    }
}

// Runs it under the launcher, on |count| hosts; the output of ranks of host n goes to file |to|.n.
static void run_ranks(const site *p, const example *x, const char *to, int count) {
    char arguments[800];
    launched of[HOSTS_MAX];
    int all = x->ranks * (x->hosts ? x->hosts : 2);
    for (int i = 0; i < count; i++) {
        snprintf(arguments, sizeof arguments, "--key=%s --no-prefix -- %s > %s/%s.%d", p->key.text,
                 x->command, p->folder.text, to, i);
        of[i] = hosts_launch_run(p->net, i, count, all / count, arguments);
    }
    expect(x, of, count);
}

// The program starts its own workers on host 0, and one more, on host |other|, waits for the file of their group.
static void run_founder(const site *p, const example *x, const char *to, int other) {
    launched of[2];
    of[0] =
        hosts_launch(p->net, 0,
                     "export GW_INTERFACE=eth0 GW_KEY_FILE=%s; f=/tmp/gradwire-%s-$$; rm -f $f; "
                     "echo ready >&2; until test -e $f; do sleep 0.02; done; exec %s > %s/%s.0",
                     p->key.text, x->founds, x->command, p->folder.text, to);
    read_line(of[0].err_fd, "ready");
    of[1] = hosts_launch(p->net, other,
                         "export GW_INTERFACE=eth0 GW_KEY_FILE=%s URL=file:///tmp/gradwire-%s-%d; "
                         "exec %s > %s/%s.1",
                         p->key.text, x->founds, (int)of[0].pid, x->joins, p->folder.text, to);
    expect(x, of, 2);
}

static result read_back(const site *p, const char *from, const char *filter) {
    return finish(launch_command("cat %s/%s.* | %s", p->folder.text, from, filter));
}

static void run_example(const site *p, const example *x) {
    int count = x->hosts ? x->hosts : 2;
    x->joins ? run_founder(p, x, "hosts", 1) : run_ranks(p, x, "hosts", count);
    result r = read_back(p, "hosts", "cat");
    testing_note("%s: \"%.1000s\"", x->command, r.out);
    assert_non_null(strstr(r.out, x->prints));
    forget(r);
    if (!x->same) return;
    x->joins ? run_founder(p, x, "one", 0) : run_ranks(p, x, "one", 1);
    r = read_back(p, "hosts", x->same);
    result one = read_back(p, "one", x->same);
    testing_note("%s", x->command);
    assert_true(r.out_size > 0);
    assert_string_equal(r.out, one.out);
    forget(r);
    forget(one);
}

static void run_all(const example *all, int count) {
    site p = open_site();
    for (int i = 0; i < count; i++) run_example(&p, &all[i]);
    close_site(&p);
}

static void examples_work_over_hosts(void **state) {
    (void)state;
    run_all(examples, EXAMPLES);
}

static void examples_learn_over_hosts(void **state) {
    (void)state;
    if (!getenv("GW_CLUSTERS")) testing_skip("make clusters runs it");
    run_all(in_full, IN_FULL);
}

// ---- All of them ----------------------------------------------------------------------------------

static bool has_row(const char *program) {
    for (int i = 0; i < EXAMPLES; i++) {
        const char *at = strstr(examples[i].programs, program);
        size_t size = strlen(program);
        if (at && (!at[size] || at[size] == ' ') && (at == examples[i].programs || at[-1] == ' '))
            return true;
    }
    return false;
}

// A program is a file, or a folder with main.c.
static void no_example_is_left_out(void **state) {
    (void)state;
    DIR *all = opendir(GW_SOURCE_DIR "/examples");
    assert_non_null(all);
    int count = 0;
    for (struct dirent *e; (e = readdir(all));) {
        char name[256], main_file[600];
        snprintf(name, sizeof name, "%s", e->d_name);
        snprintf(main_file, sizeof main_file, GW_SOURCE_DIR "/examples/%s/main.c", name);
        char *dot = strrchr(name, '.');
        bool is_file = dot && (strcmp(dot, ".c") == 0 || strcmp(dot, ".cc") == 0);
        if (!is_file && access(main_file, R_OK)) continue;
        if (is_file) *dot = '\0';
        count++;
        if (!has_row(name)) fail_msg("%s runs on one host alone", name);
    }
    closedir(all);
    assert_true(count > 15);
}

GW_TESTS_WITH_LIMIT(clusters_examples, 300, examples_work_over_hosts, examples_learn_over_hosts,
                    no_example_is_left_out);
