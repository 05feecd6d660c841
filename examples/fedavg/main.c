// Federated averaging and federated SGD, with clients that join and leave.
//
// The server (this program) founds a group; its clients (this program, started again) join it, each with a share of the
// digits that it never sends away. In every round the server sends its weights to all present clients, and averages the
// results: weights after some local epochs (FedAvg), or gradients (FedSGD). McMahan et al., "Communication-Efficient
// Learning of Deep Networks from Decentralized Data", 2017.
//
//     fedavg --add 10 --leave 20 --kill 30             four clients; one more joins, one leaves, one dies
//     fedavg --method sgd
//     fedavg --model-parameters 25000000 --rounds 3 --epochs 1 --batch 64
//     fedavg --at file:///tmp/meet --shares 5 --await 5      and from another terminal:
//     fedavg --join file:///tmp/meet --shares 5 --number 5
//
// Clients of several owners, on several hosts, each with its own key, so that no other client can impersonate it
// (gradwire key --ca):
//
//     GW_KEY_FILE=server.pem fedavg --at tcp://10.0.0.1:29500 --clients 0 --await 2
//     GW_KEY_FILE=client1.pem fedavg --join tcp://10.0.0.1:29500 --shares 2 --number 1
//
// The lines that communicate: 6 of the client (join, its object, gw_named, enlist, await_dismissal, leave) and 10 of
// the server (found, its object, the call of a round and the wait for it, three for a promise that a client arrives and
// two for one that a client is dismissed, shutdown). Computing and printing are the same as in one process.
#include "client.h"
#include "server.h"

#include "../common/curve.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// ---- The clients' processes ---------------------------------------------------------------------

typedef struct processes {
    gw_scope *root;
    const char *url;
    const options *o;
    gw_process *all[MEMBERS_MAX];  // by number; NULL: not started here
} processes;

static void start_client(processes *p, int64_t number) {
    const char *name = gw_format(p->root, "client%d", (int)number);
    const char *shares = gw_format(p->root, "%d", (int)p->o->shares);
    const char *const arguments[] = { "--join",
                                      p->url,
                                      "--number",
                                      name + strlen("client"),
                                      "--shares",
                                      shares,
                                      p->o->data ? "--data" : NULL,
                                      p->o->data,
                                      NULL };
    p->all[number] = gw_process_start(p->root, name, arguments);
}

static void kill_last_started(void *context) {
    processes *p = context;
    int64_t number = p->o->clients;
    printf("client%d is killed\n", (int)number);
    gw_process_kill(p->all[number]);
}

// Lost clients may still compute a round that is over for the others.
static void end_lost(const processes *p, const round_report *r) {
    for (int i = 0; i < r->lost_count; i++) {
        int64_t number = r->lost[i];
        if (number > 0 && number < MEMBERS_MAX) gw_process_kill(p->all[number]);
    }
}

// A client that this program killed has not failed.
static int await_clients(const processes *p) {
    gw_scope *s = gw_scope_open(p->root);
    gw_scope_set_timeout(s, p->o->timeout_s * 1000);
    int failed = 0;
    for (int i = 0; i < MEMBERS_MAX && gw_ok(s); i++) {
        int64_t code = p->all[i] ? gw_int_of(s, gw_wait(s, gw_process_ended(p->all[i]))) : 0;
        if (code && code < 128) failed = (int)code;
    }
    gw_scope_close_up(s);
    return failed;
}

// ---- Learning -----------------------------------------------------------------------------------

typedef struct costs {
    double bytes, seconds, computing_s, parameters;
    int rounds;
} costs;

// Trains the same model on all digits in one process, for as many epochs. Returns its accuracy.
static double train_centrally(gw_scope *root, const options *o, int64_t width, digits_split d) {
    gw_scope *s = gw_scope_open(root);
    gw_module *model = digits_model(s, width);
    gw_optimizer *opt = gw_sgd(s, gw_parameters(s, model), .lr = 0.2);
    int64_t epochs = strcmp(o->method, "avg") == 0 ? o->rounds * o->epochs : 80;
    for (int64_t epoch = 0; epoch < epochs && gw_ok(s); epoch++)
        digits_train_epoch(s, model, opt, d.train, o->batch);
    double accuracy = digits_accuracy(s, model, d.test);
    gw_scope_close_up(s);
    return accuracy;
}

static double bytes_so_far(gw_scope *s) {
    gw_rpc_stats stats = gw_rpc_get_stats(s);
    return (double)(stats.bytes_sent + stats.bytes_received);
}

// Before this round, clients that are due join and leave.
static void change_members(gw_scope *s, server *self, int round, processes *p) {
    const options *o = p->o;
    for (int64_t number = 1; round == 1 && number <= o->await && gw_ok(s); number++) {
        if (number <= o->clients) start_client(p, number);
        server_await(s, self, number, p->all[number], o->timeout_s);
    }
    if (round == o->add) {
        start_client(p, o->clients + 1);
        server_await(s, self, o->clients + 1, p->all[o->clients + 1], o->timeout_s);
    }
    if (round == o->leave && self->member_count > 0) {
        printf("%s is dismissed\n", self->members[0].name);
        server_dismiss(self, 0);
    }
}

static void run_round(gw_scope *root, gw_rref *me, int round, processes *p, digits test, costs *c,
                      curve *progress) {
    const options *o = p->o;
    gw_scope *s = gw_scope_open(root);
    gw_scope_label(s, "round %d", round);
    server *self = gw_local(s, me, server);
    if (self) {
        change_members(s, self, round, p);
        double since_s = now_s(), before = bytes_so_far(s);
        round_report r = server_round(s, self, o, round == o->kill ? kill_last_started : NULL, p);
        double seconds = now_s() - since_s, bytes = bytes_so_far(s) - before;
        end_lost(p, &r);
        *c = (costs){ c->bytes + bytes, c->seconds + seconds, c->computing_s + r.computing_s,
                      (double)digits_model_parameters(self->width), c->rounds + 1 };
        double accuracy = digits_accuracy(s, self->model, test);
        const char *line = gw_format(
            s, "round %3d  %d clients  loss %.4f  test accuracy %.1f %%  %.2f MB  %.1f ms", round,
            r.updates, r.loss, accuracy * 100, bytes / 1e6, seconds * 1e3);
        if (gw_ok(s)) curve_add(progress, accuracy, line);
        if (gw_ok(s) && (round % (1 + o->rounds / 20) == 0 || round == o->rounds))
            curve_print(progress, line);
    }
    gw_scope_close_up(s);
}

static void print_costs(const costs *c) {
    double n = c->rounds ? c->rounds : 1, bits = c->bytes / n * 8;
    double here_ms = c->seconds / n * 1e3, computing_ms = c->computing_s / n * 1e3;
    printf("a round of %.3f million parameters: %.3f MB over the server's link, %.1f ms here, of "
           "which the slowest client computes %.1f ms\n",
           c->parameters / 1e6, c->bytes / n / 1e6, here_ms, computing_ms);
    for (int gigabits = 1; gigabits <= 10; gigabits *= 10)
        printf("computed for a link of %2d Gb/s: %.2f ms for the bytes, %.1f ms with computing\n",
               gigabits, bits / (gigabits * 1e6), bits / (gigabits * 1e6) + computing_ms);
}

// All clients leave after the server has released its references to them.
static void compare(gw_scope *root, gw_rref *me, const options *o, digits_split d,
                    curve *progress) {
    gw_scope *s = gw_scope_open(root);
    server *self = gw_local(s, me, server);
    while (self && self->member_count > 0) server_dismiss(self, 0);
    double accuracy = self ? digits_accuracy(s, self->model, d.test) : 0;
    if (gw_ok(root) && self && o->parameters <= 1000000) {
        double central = train_centrally(s, o, self->width, d);
        progress->options.goal = central;
        printf("test accuracy: %.2f %% from the clients, %.2f %% with all digits in one place\n",
               accuracy * 100, central * 100);
    }
    if (self) server_farewell(s, self);
    gw_scope_close_up(s);
}

static void learn(gw_scope *root, const options *o, processes *p) {
    digits_split d = digits_load(root, o->data);
    gw_rref *me = server_start(root, o);
    curve progress;
    curve_open(&progress, stdout,
               (curve_options){ .title = "test accuracy", .x_label = "round", .max = 1 });
    costs c = { 0 };
    for (int round = 1; round <= o->rounds && gw_ok(root); round++)
        run_round(root, me, round, p, d.test, &c, &progress);
    if (gw_ok(root)) print_costs(&c);
    compare(root, me, o, d, &progress);
    if (gw_ok(root) && o->plot && !curve_plot(&progress, o->plot))
        gw_fail(root, GW_SYSTEM, "%s: %s", o->plot, strerror(errno));
    curve_close(&progress);
}

int main(int argc, char **argv) {
    options o;
    int code = options_parse(argc, argv, &o);
    if (code >= 0) return code;
    if (o.join) return client_run(&o);

    setvbuf(stdout, NULL, _IOLBF, 0);
    char path[64], url[80];
    snprintf(path, sizeof path, "/tmp/gradwire-fedavg-%d", (int)getpid());
    snprintf(url, sizeof url, "file://%s", path);
    gw_scope *root = gw_scope_open(NULL);
    processes p = { .root = root, .url = o.at ? o.at : url, .o = &o };
    gw_seed(root, (uint64_t)o.seed);
    gw_rpc_init(root, .name = "server", .job = GW_JOB_CREATE, .init_method = p.url);
    if (gw_ok(root)) learn(root, &o, &p);
    if (gw_ok(root)) gw_rpc_shutdown(root);  // else clients would lose the server
    if (!o.at) unlink(path);
    int client_failed = await_clients(&p);
    int failed = gw_exit_code(gw_scope_close(root));  // ends remaining clients
    return failed ? failed : client_failed;
}
