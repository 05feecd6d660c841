#include "options.h"

#include "../common/digits.h"
#include "../common/flags.h"

#include <stdio.h>
#include <string.h>

static const char about[] =
    "Learns handwritten digits from clients that keep their digits to themselves: federated\n"
    "averaging and federated SGD (McMahan et al. 2017). Clients join, leave and die while it "
    "runs;\n"
    "the same model is also trained on all digits in one place, for comparison.";

static int wrong(const char *problem) {
    fprintf(stderr, "fedavg: %s\n", problem);
    return 2;
}

static int check(options *o, bool has_rounds, bool has_lr) {
    bool sgd = strcmp(o->method, "sgd") == 0;
    if (!has_rounds) o->rounds = sgd ? 600 : 60;
    if (!has_lr) o->lr = o->parameters > 1000000 ? 0.1 : sgd ? 0.7 : 0.2;
    if (o->await < o->clients) o->await = o->clients;
    if (o->await < 1 + (o->leave > 0) + (o->kill > 0) || o->clients < (o->kill > 0))
        return wrong("--clients: no client would be left");
    if (!o->shares) o->shares = (o->clients ? o->clients : o->await) + (o->add > 0);
    if (o->add > o->rounds || o->leave > o->rounds)
        return wrong("--add and --leave: expected a round before the last");
    if (o->kill >= o->rounds && o->kill)
        return wrong("--kill: expected a round before the last, or the loss would have no effect");
    if (o->number > o->shares) return wrong("--number: expected at most --shares");
    return -1;
}

int options_parse(int argc, char **argv, options *out) {
    options o = { .method = "avg",
                  .clients = 4,
                  .epochs = 2,
                  .batch = 16,
                  .parameters = digits_model_parameters(128),
                  .seed = 1,
                  .timeout_s = 60,
                  .number = 1 };
    static const char *const methods[] = { "avg", "sgd", NULL };
    const double many = 1e9;
    const flag flags[] = {
        { "method", "avg|sgd", "clients send weights, or gradients", .text = &o.method,
          .words = methods },
        { "clients", "N", "clients that are started; 0: none, see --await", .integer = &o.clients,
          .max = 62 },
        { "await", "N", "begin with so many clients; 0: those that are started",
          .integer = &o.await, .max = 63 },
        { "rounds", "N", "rounds; 0: 60 of avg, 600 of sgd", .integer = &o.rounds, .max = many },
        { "epochs", "N", "avg: passes of a client over its digits in each round",
          .integer = &o.epochs, .min = 1, .max = many },
        { "batch", "N", "avg: digits in a step", .integer = &o.batch, .min = 1, .max = many },
        { "lr", "X", "learning rate; 0: 0.2 of avg, 0.7 of sgd, 0.1 of large models", .real = &o.lr,
          .max = 1000 },
        { "model-parameters", "N", "about how large the model is", .integer = &o.parameters,
          .min = 1000, .max = many },
        { "add", "ROUND", "one more client joins before it; 0: never", .integer = &o.add,
          .max = many },
        { "leave", "ROUND", "a client leaves before it; 0: never", .integer = &o.leave,
          .max = many },
        { "kill", "ROUND", "a client is killed in it; 0: never", .integer = &o.kill, .max = many },
        { "timeout", "SECONDS", "how long a client may take for a round", .integer = &o.timeout_s,
          .min = 1, .max = 100000 },
        { "seed", "N", "of weights and orders", .integer = &o.seed, .max = 1e15 },
        { "data", "FILE", "digits instead of the repository's", .text = &o.data },
        { "plot", "FILE.svg", "draw the test accuracy", .file = &o.plot },
        { "at", "URL", "where clients meet, file:///path", .text = &o.at },
        { "join", "URL", "be a client of the server there", .text = &o.join },
        { "shares", "N", "the digits are dealt out in so many shares; 0: one for each client",
          .integer = &o.shares, .max = 1000 },
        { "number", "N", "of a client: which share it has", .integer = &o.number, .min = 1,
          .max = 63 },
        { 0 },
    };
    int code = flags_parse("fedavg", about, flags, argc, argv);
    *out = o;
    return code >= 0 ? code : check(out, o.rounds > 0, o.lr > 0);
}
