#include "options.h"

#include "../common/flags.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const char about[] =
    "Learns to predict the next word of a text, by an LSTM whose embedding and decoder live on a\n"
    "parameter server, and compares its perplexity on held-out words with that of a bigram model.";

enum { EPOCHS = 12, TINY_EPOCHS = 10 };

// Options that --tiny replaces by the tutorial's values.
static int check_tiny(const options *o, const options *standard) {
    const struct {
        const char *name;
        bool is_given;
    } all[] = {
        { "text", o->text != standard->text },
        { "vocabulary", o->vocabulary != standard->vocabulary },
        { "features", o->features != standard->features },
        { "hidden", o->hidden != standard->hidden },
        { "layers", o->layers != standard->layers },
        { "dropout", o->dropout != standard->dropout },
        { "batch", o->batch != standard->batch },
        { "length", o->length != standard->length },
        { "lr", o->lr != standard->lr },
        { "clip", o->clip != standard->clip },
        { "plot", o->plot },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (!all[i].is_given) continue;
        fprintf(stderr, "rnn_lm: --%s has no effect with --tiny\n", all[i].name);
        return 2;
    }
    return -1;
}

int options_parse(int argc, char **argv, options *out) {
    options o = { .text = "/usr/share/common-licenses/*",
                  .vocabulary = 2000,
                  .features = 256,
                  .hidden = 256,
                  .layers = 1,
                  .batch = 10,
                  .length = 20,
                  .epochs = EPOCHS,
                  .seed = 1,
                  .dropout = 0.65,
                  .lr = 20,
                  .clip = 0.25 };
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--tiny")) o.epochs = TINY_EPOCHS;
    const options standard = o;
    const double many = 1e6;
    const flag flags[] = {
        { "text", "FILES", "what to learn from", .text = &o.text },
        { "vocabulary", "N", "size: the N most frequent words", .integer = &o.vocabulary, .min = 10,
          .max = 20000 },
        { "features", "N", "numbers for each word", .integer = &o.features, .min = 1, .max = many },
        { "hidden", "N", "of each layer of the LSTM", .integer = &o.hidden, .min = 1, .max = many },
        { "layers", "N", "of the LSTM", .integer = &o.layers, .min = 1, .max = 100 },
        { "dropout", "X", "fraction of activations between layers that is dropped",
          .real = &o.dropout, .max = 0.99 },
        { "batch", "N", "stretches of text side by side", .integer = &o.batch, .min = 1,
          .max = many },
        { "length", "N", "words of backpropagation through time", .integer = &o.length, .min = 1,
          .max = many },
        { "epochs", "N", "passes over the text; with --tiny 10", .integer = &o.epochs, .min = 1,
          .max = many },
        { "lr", "X", "learning rate at the beginning; it falls along a cosine", .real = &o.lr,
          .min = 1e-9, .max = 1000 },
        { "clip", "X", "norm of the gradients of all workers is at most this", .real = &o.clip,
          .min = 1e-6, .max = many },
        { "seed", "N", "of weights and dropout", .integer = &o.seed, .max = 1e15 },
        { "tiny", NULL, "the tutorial's sizes and its made-up data, instead of a text",
          .is_set = &o.tiny },
        { "save", "FILE", "write a checkpoint after each epoch", .file = &o.save },
        { "load", "FILE", "begin with the weights of a checkpoint", .text = &o.load },
        { "stats", NULL, "print messages and bytes of a step", .is_set = &o.stats },
        { "plot", "FILE.svg", "draw the perplexity", .file = &o.plot },
        { 0 },
    };
    int code = flags_parse("rnn_lm", about, flags, argc, argv);
    if (code < 0 && o.tiny) code = check_tiny(&o, &standard);
    *out = o;
    return code;
}
