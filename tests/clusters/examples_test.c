// Each program of examples/ over two hosts or more, in a short form and with a key: what it says, and where it is the same each
// time, that it is what one host computes. Where the kernel makes no hosts these tests are skipped.
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
    int ranks;          // of each host, by gradwire run; 0: it makes its own workers
    const char *meets;  // those: in /tmp/gradwire-NAME-PID
    const char *joins;  // and one more, from the other host, at $URL
    int hosts;          // 0: 2
    int code;           // 3: too little is learnt, as short as it is
    const char *says;
    const char
        *same;  // a filter, behind which all is as on one host; NULL: it depends on who is faster
} example;

static const example examples[] = {
    { "hello", "./hello", 1, .says = "tensor([ 6., 12., 18.])", .same = "cat" },
    { "hello_cpp", "./hello_cpp", 1, .says = "counted to 42", .same = "cat" },
    { "stats_server stats_client",
      "sh -c 'if [ $RANK = 0 ]; then exec ./stats_client; else exec ./stats_server; fi'", 1,
      .says = "count 5, mean 2.0000, std 1.5811", .same = "cat" },
    { "remote_dataset", "./remote_dataset", 1, .says = "step 96: 0.01", .same = "cat" },
    { "rl_cartpole", "./rl_cartpole --max-episodes 6 --log-interval 1 --seed 7", 2, .code = 3,
      .says = "Episode 6", .same = "cat" },
    { "a3c", "./a3c --steps 2000 --evaluate 2", 1, .says = "over 2 new episodes",
      .same = "sed 's/, [0-9.]* s$//'" },
    { "a3c", "./a3c --steps 2000 --evaluate 2", 2, .says = "over 2 new episodes" },
    { "parameter_server", "./parameter_server --epochs 2", 1, .code = 3,
      .says = "1 trainers, 180 steps: ",
      .same = "sed 's/[0-9.]* [a-z]* a step//; s/[0-9.]* s$//'" },
    { "parameter_server", "./parameter_server --form push --epochs 1", 2, .code = 3,
      .says = " steps late" },
    { "parameter_server", "./parameter_server --form hogwild --epochs 1", 2, .code = 3,
      .says = "3 trainers, 90 steps: " },
    { "batch_rpc", "./batch_rpc --epochs 3", 2, .code = 3,
      .says = "3 trainers, answered together" },
    { "rnn_lm",
      "./rnn_lm --text /usr/share/common-licenses/GPL-2 --vocabulary 300 --batch 5 --hidden 32 "
      "--features 32 --epochs 1",
      1, .says = "held-out perplexity: ", .same = "sed 's/ *[0-9.]* s  //'" },
    { "pipeline", "./pipeline --check --epochs 2", 1, .hosts = 3,
      .says = "weights and losses are those of the unsplit model", .same = "grep epoch" },
    { "ddp_digits", "./ddp_digits --epochs 2 --shards 4", 2, .code = 3, .says = "4 members",
      .same = "grep -o 'weights.*'" },
    { "ddp_rpc", "./ddp_rpc --epochs 3", 2, .code = 3, .says = "the replicas have the same bits" },
    { "join_uneven", "./join_uneven", 2, .says = "worker3 has used all of its 8 inputs",
      .same = "sort" },
    { "local_sgd", "./local_sgd --epochs 2", 2, .code = 3, .says = "PowerSGD" },
    { "pipeline_ddp", "./pipeline_ddp --check --epochs 1", 2, .code = 3,
      .says = "the weights are those of the unsplit model" },
    { "zero_memory", "./zero_memory --width 64", 2, .says = "plain       0.3       0.3      0.7",
      .same = "awk '!/step/ { print $6 }'" },
    { "fedavg", "./fedavg --clients 2 --await 3 --shares 3 --rounds 3 --epochs 1 --seed 4",
      .meets = "fedavg", .joins = "./fedavg --shares 3 --number 3 --join $URL",
      .says = "round   3  3 clients", .same = "sed -n 's/  [0-9.]* MB.*//p'" },
    { "supervisor", "./supervisor", .meets = "supervisor", .joins = "./supervisor $URL worker4",
      .says = "the sum of 40 squares is 22140" },
    { "ddp_survives", "./ddp_survives --losses 0 --world-size 2", .meets = "survives",
      .joins = "./ddp_survives --losses 0 --world-size 2 --number 31 --join $URL",
      .says = "  3 members  test accuracy" },
};

enum { EXAMPLES = sizeof examples / sizeof examples[0] };

// The same in full, which learns what it is to learn: `make clusters` wants it.
static const example in_full[] = {
    { "a3c", "./a3c --goal 300 --evaluate 30 --seed 3", 2, .says = "over 30 new episodes" },
    { "parameter_server", "./parameter_server", 2, .says = "3 trainers, 1800 steps: 9" },
    { "batch_rpc", "./batch_rpc", 2, .says = "3 trainers, answered together: 9" },
    { "batch_rpc", "./batch_rpc --form agent --episodes 10 --seed 3", 2, .code = 3,
      .says = "3 observers, answered together: ", .same = "grep episode" },
    { "rnn_lm", "./rnn_lm --vocabulary 500 --features 128 --hidden 128 --dropout 0.5 --epochs 8", 1,
      .says = "of a bigram model" },
    { "pipeline", "./pipeline --epochs 15", 1, .hosts = 3, .says = "test accuracy: 9" },
    { "ddp_digits", "./ddp_digits", 2, .says = "4 members" },
    { "ddp_rpc", "./ddp_rpc", 2, .says = "the replicas have the same bits" },
    { "local_sgd", "./local_sgd", 2, .says = "PowerSGD" },
    { "pipeline_ddp", "./pipeline_ddp", 2, .says = "% of the test digits" },
    { "fedavg", "./fedavg --clients 2 --await 3 --shares 3 --seed 4", .meets = "fedavg",
      .joins = "./fedavg --shares 3 --number 3 --join $URL", .says = "round  60  3 clients" },
};

enum { IN_FULL = sizeof in_full / sizeof in_full[0] };

// ---- Running one ----------------------------------------------------------------------------------

typedef struct place {
    hosts *net;
    path folder, key;
} place;

static place open_place(void) {
    place p = { .net = hosts_open((hosts_options){ .count = 3 }), .folder = make_folder() };
    p.key = make_key(p.folder);
    return p;
}

static void close_place(place *p) {
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

// Under the launcher, on |count| hosts; what ranks of host n print is file |to|.n.
static void run_ranks(const place *p, const example *x, const char *to, int count) {
    char what[800];
    launched of[HOSTS_MAX];
    int all = x->ranks * (x->hosts ? x->hosts : 2);
    for (int i = 0; i < count; i++) {
        snprintf(what, sizeof what, "--key=%s --no-prefix -- %s > %s/%s.%d", p->key.text,
                 x->command, p->folder.text, to, i);
        of[i] = hosts_launch_run(p->net, i, count, all / count, what);
    }
    expect(x, of, count);
}

// It makes its own workers on host 0, once one more, on host |other|, waits in the file where it will found their group.
static void run_founder(const place *p, const example *x, const char *to, int other) {
    launched of[2];
    of[0] =
        hosts_launch(p->net, 0,
                     "export GW_INTERFACE=eth0 GW_KEY_FILE=%s; f=/tmp/gradwire-%s-$$; rm -f $f; "
                     "echo ready >&2; until test -e $f; do sleep 0.02; done; exec %s > %s/%s.0",
                     p->key.text, x->meets, x->command, p->folder.text, to);
    read_line(of[0].err_fd, "ready");
    of[1] = hosts_launch(p->net, other,
                         "export GW_INTERFACE=eth0 GW_KEY_FILE=%s URL=file:///tmp/gradwire-%s-%d; "
                         "exec %s > %s/%s.1",
                         p->key.text, x->meets, (int)of[0].pid, x->joins, p->folder.text, to);
    expect(x, of, 2);
}

static result read_back(const place *p, const char *from, const char *filter) {
    return finish(launch_command("cat %s/%s.* | %s", p->folder.text, from, filter));
}

static void run_example(const place *p, const example *x) {
    int count = x->hosts ? x->hosts : 2;
    x->joins ? run_founder(p, x, "hosts", 1) : run_ranks(p, x, "hosts", count);
    result r = read_back(p, "hosts", "cat");
    testing_note("%s: \"%.1000s\"", x->command, r.out);
    assert_non_null(strstr(r.out, x->says));
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
    place p = open_place();
    for (int i = 0; i < count; i++) run_example(&p, &all[i]);
    close_place(&p);
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

// A program is a file, or a folder with main.c in it.
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
