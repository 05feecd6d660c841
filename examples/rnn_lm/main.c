// A language model over two workers, with distributed autograd and a distributed optimizer.
//
// The parameter server holds the embedding table and the decoder, this worker the LSTM between
// them. The forward pass calls the server twice; gw_backward goes the same way back;
// gw_optimizer_step changes the weights where they are, on both workers or on none. After the
// tutorial "Distributed RNN using Distributed Autograd and Distributed Optimizer" of PyTorch.
// Held-out text shares no passage with the training text: a repeated passage is left out of the text (text.h).
//
//     rnn_lm                                      makes its own two processes, reads the licences that Debian has
//     rnn_lm --text "/usr/share/doc/*/README" --hidden 200
//     rnn_lm --tiny                               the sizes of the tutorial
//     gradwire run -n 2 -- rnn_lm
//
// The lines that communicate: 7 (init, the two modules and the calls of them, the optimizer, shutdown). Backward,
// clipping, the step and the checkpoint cross workers too, but are written as in a local program.
#include "model.h"
#include "options.h"
#include "text.h"

#include "../common/curve.h"
#include "../common/workers.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- A text -------------------------------------------------------------------------------------

// Each batch: |length| words of each column, and the word that follows each of them.
static gw_data_loader *open_loader(gw_scope *s, gw_tensor *columns, int64_t length) {
    int64_t end = gw_size(columns, 0) - 1;
    gw_tensor *words = gw_slice(s, columns, 0, 0, end, 1);
    gw_tensor *next = gw_slice(s, columns, 0, 1, end + 1, 1);
    return gw_data_loader_open(s, gw_tensor_dataset(s, "text", words, next), .batch_size = length);
}

static gw_tensor *loss_of(gw_scope *s, rnn_model m, gw_data_loader *loader, int64_t words,
                          hidden *state) {
    gw_tensor *scores = model_call(s, m, gw_data_loader_tensor(s, loader, 0), state);
    gw_tensor *next = gw_reshape(s, gw_data_loader_tensor(s, loader, 1), -1);
    return gw_cross_entropy(s, gw_reshape(s, scores, -1, words), next);
}

// Number of words in each column.
static double length_of(gw_scope *s, gw_data_loader *loader) {
    return (double)gw_size(gw_data_loader_tensor(s, loader, 0), 0);
}

// Makes one pass over the text; each column continues where its last batch ended. Returns the mean loss.
static double train_epoch(gw_scope *root, const options *o, rnn_model m, gw_optimizer *opt,
                          gw_data_loader *loader, int64_t words) {
    gw_scope *epoch = gw_scope_open(root);
    gw_list *weights = gw_parameters(epoch, m.emb, m.rnn, m.dec);
    hidden state = { 0 };
    double loss_sum = 0, count = 0;
    while (gw_data_loader_next(epoch, loader)) {
        gw_scope *s = gw_scope_open(epoch);
        hidden next = state;
        gw_span *forward = gw_span_open(s, "forward");  // for gradwire trace
        gw_tensor *loss = loss_of(s, m, loader, words, &next);
        gw_span_close(forward);
        gw_backward(s, loss);
        gw_clip_grad_norm(s, weights, o->clip);
        gw_optimizer_step(s, opt);
        gw_set(epoch, &state.h, gw_detach(s, next.h));
        gw_set(epoch, &state.c, gw_detach(s, next.c));
        loss_sum += gw_item(s, loss) * length_of(s, loader);
        count += length_of(s, loader);
        gw_scope_close_up(s);
    }
    gw_scope_close_up(epoch);
    return loss_sum / count;
}

// exp of the mean loss over |w|, read from the beginning to the end.
static double perplexity(gw_scope *root, rnn_model m, words w, int64_t words) {
    enum { LENGTH = 100 };
    gw_scope *inference = gw_scope_open(root);
    gw_no_grad(inference);
    gw_span_open(inference, "evaluate");  // until the scope closes
    model_eval(inference, m);
    gw_data_loader *loader = open_loader(inference, text_columns(inference, w, 1), LENGTH);
    hidden state = { 0 };
    double loss_sum = 0;
    while (gw_data_loader_next(inference, loader)) {
        gw_scope *s = gw_scope_open(inference);
        hidden next = state;
        loss_sum += gw_item(s, loss_of(s, m, loader, words, &next)) * length_of(s, loader);
        gw_set(inference, &state.h, next.h);
        gw_set(inference, &state.c, next.c);
        gw_scope_close_up(s);
    }
    model_train(inference, m);
    gw_scope_close_up(inference);
    return exp(loss_sum / (double)(w.count - 1));
}

static void save(gw_scope *root, const char *path, rnn_model m) {
    gw_scope *s = gw_scope_open(root);
    gw_map *all = gw_map_open(s);
    gw_map_put(s, all, "emb", gw_module_state_dict(s, m.emb));
    gw_map_put(s, all, "rnn", gw_module_state_dict(s, m.rnn));
    gw_map_put(s, all, "dec", gw_module_state_dict(s, m.dec));
    gw_checkpoint_save(s, path, all);
    gw_scope_close_up(s);
}

static void load(gw_scope *root, const char *path, rnn_model m) {
    gw_scope *s = gw_scope_open(root);
    gw_map *all = gw_checkpoint_load(s, path);
    gw_module_load_state_dict(s, m.emb, gw_map_of(s, gw_map_get(s, all, "emb")));
    gw_module_load_state_dict(s, m.rnn, gw_map_of(s, gw_map_get(s, all, "rnn")));
    gw_module_load_state_dict(s, m.dec, gw_map_of(s, gw_map_get(s, all, "dec")));
    gw_scope_close_up(s);
}

static void print_stats(gw_scope *s, int64_t steps) {
    gw_rpc_stats stats = gw_rpc_get_stats(s);
    double n = (double)steps;
    printf("a step: %.1f messages, %.1f kB (including those of the evaluation); "
           "%llu reconnects\n",
           (double)(stats.messages_sent + stats.messages_received) / n,
           (double)(stats.bytes_sent + stats.bytes_received) / n / 1e3,
           (unsigned long long)stats.reconnects);
}

static void learn_text(gw_scope *root, const options *o) {
    text t = text_load(root, o->text, o->vocabulary);
    double bigram = gw_ok(root) ? text_bigram_perplexity(root, &t) : 0;
    if (gw_ok(root) && t.train.count < 2 * o->batch)
        gw_fail(root, GW_INVALID, "--batch %d: the text is too short", (int)o->batch);
    if (!gw_ok(root)) return;
    printf("%d files, %lld words to learn from, %lld held out, %lld different; left out %lld in "
           "repeated passages\n",
           t.files, (long long)t.train.count, (long long)t.held_out.count, (long long)t.vocabulary,
           (long long)t.repeated);
    rnn_model m = model_open(root, "ps",
                             (model_options){ .words = t.vocabulary,
                                              .features = o->features,
                                              .hidden = o->hidden,
                                              .layers = (int)o->layers,
                                              .dropout = o->dropout });
    gw_optimizer *opt = gw_sgd(root, gw_parameters(root, m.emb, m.rnn, m.dec), .lr = o->lr);
    gw_scheduler *schedule =
        gw_cosine_annealing_lr(root, opt, .t_max = o->epochs, .eta_min = o->lr / 100);
    gw_data_loader *loader = open_loader(root, text_columns(root, t.train, o->batch), o->length);
    if (o->load) load(root, o->load, m);
    curve progress;
    curve_open(
        &progress, stdout,
        (curve_options){ .title = "held-out perplexity", .x_label = "epoch", .goal = bigram });
    double reached = 0;
    for (int epoch = 1; epoch <= o->epochs && gw_ok(root); epoch++) {
        gw_scope *s = gw_scope_open(root);
        gw_scope_label(s, "epoch %d", epoch);
        double since_s = now_s(), loss = train_epoch(s, o, m, opt, loader, t.vocabulary);
        double seconds = now_s() - since_s;
        gw_scheduler_step(s, schedule);
        reached = perplexity(s, m, t.held_out, t.vocabulary);
        if (o->save) save(s, o->save, m);
        const char *line = gw_format(s, "epoch %3d  %5.1f s  perplexity %8.2f, held out %8.2f",
                                     epoch, seconds, exp(loss), reached);
        if (gw_ok(s)) curve_add(&progress, reached, line);
        if (gw_ok(s)) curve_print(&progress, line);
        gw_scope_close_up(s);
    }
    int64_t steps = gw_optimizer_steps(opt);
    if (gw_ok(root) && o->stats) print_stats(root, steps ? steps : 1);
    if (gw_ok(root)) printf("held-out perplexity: %.2f, of a bigram model %.2f\n", reached, bigram);
    if (gw_ok(root) && o->plot && !curve_plot(&progress, o->plot))
        gw_fail(root, GW_SYSTEM, "%s: %s", o->plot, strerror(errno));
    curve_close(&progress);
}

// ---- The tutorial's sizes -----------------------------------------------------------------------

static gw_tensor *random_below(gw_scope *s, int64_t count, int64_t rows, int64_t columns) {
    gw_tensor *chance = gw_mul(s, gw_rand(s, GW_F32, rows, columns), count);
    return gw_to_dtype(s, chance, GW_I64);
}

static void learn_tiny(gw_scope *root, const options *o) {
    enum { BATCH = 5, WORDS = 10, FEATURES = 2, INDICES = 3, HIDDEN = 3, LAYERS = 4 };
    rnn_model m =
        model_open(root, "ps", (model_options){ WORDS, FEATURES, HIDDEN, LAYERS, .dropout = 0.5 });
    gw_optimizer *opt = gw_sgd(root, gw_parameters(root, m.emb, m.rnn, m.dec), .lr = 0.05);
    hidden state = { .h = gw_randn(root, GW_F32, LAYERS, INDICES, HIDDEN) };
    state.c = gw_randn(root, GW_F32, LAYERS, INDICES, HIDDEN);
    if (o->load) load(root, o->load, m);
    for (int epoch = 0; epoch < o->epochs && gw_ok(root); epoch++) {
        for (int step = 0; step < 5 && gw_ok(root); step++) {
            gw_scope *s = gw_scope_open(root);
            gw_tensor *data = random_below(s, WORDS, BATCH, INDICES);
            gw_tensor *target = random_below(s, INDICES, BATCH, WORDS);
            hidden next = state;
            gw_tensor *loss = gw_cross_entropy(s, model_call(s, m, data, &next), target);
            gw_backward(s, loss);
            gw_optimizer_step(s, opt);
            gw_set(root, &state.h, gw_detach(s, next.h));
            gw_set(root, &state.c, gw_detach(s, next.c));
            gw_scope_close_up(s);
        }
        if (o->save) save(root, o->save, m);
        if (gw_ok(root)) printf("Training epoch %d\n", epoch);
    }
    if (gw_ok(root) && o->stats) print_stats(root, gw_optimizer_steps(opt));
}

// Runs one worker. |init_method| is NULL under a launcher.
static int run_worker(const char *init_method, void *context) {
    const options *o = context;
    bool is_trainer = gw_rpc_launched().rank == 0;
    gw_scope *root = gw_scope_open(NULL);
    gw_seed(root, (uint64_t)o->seed);
    gw_rpc_init(root, .name = is_trainer ? "trainer" : "ps", .init_method = init_method);
    if (gw_ok(root) && gw_rpc_world_size(root) != 2)
        gw_fail(root, GW_INVALID, "this program is for two workers");
    if (gw_ok(root) && is_trainer) (o->tiny ? learn_tiny : learn_text)(root, o);
    gw_rpc_shutdown(root);  // the server serves until the trainer is done
    return gw_exit_code(gw_scope_close(root));
}

int main(int argc, char **argv) {
    options o;
    int code = options_parse(argc, argv, &o);
    if (code >= 0) return code;
    if (gw_rpc_launched().rank >= 0) return run_worker(NULL, &o);
    return workers_run(2, run_worker, &o);
}
