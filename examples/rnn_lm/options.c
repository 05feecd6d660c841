#include "options.h"

#include "../common/flags.h"

#include <stddef.h>

static const char about[] =
    "Learns which word comes next in a text, by an LSTM whose embedding and decoder live on a\n"
    "parameter server, and says how good it is on words it has not seen, beside a bigram model.";

int options_parse(int argc, char **argv, options *out) {
    options o = { .text = "/usr/share/common-licenses/*",
                  .vocabulary = 2000,
                  .features = 128,
                  .hidden = 128,
                  .layers = 1,
                  .batch = 5,
                  .length = 20,
                  .epochs = 6,
                  .seed = 1,
                  .dropout = 0.1,
                  .lr = 20,
                  .clip = 0.25 };
    const double many = 1e6;
    const flag flags[] = {
        { "text", "FILES", "what to learn from", .text = &o.text },
        { "vocabulary", "N", "most frequent words to tell apart", .integer = &o.vocabulary,
          .min = 10, .max = 20000 },
        { "features", "N", "numbers for each word", .integer = &o.features, .min = 1, .max = many },
        { "hidden", "N", "of each layer of the LSTM", .integer = &o.hidden, .min = 1, .max = many },
        { "layers", "N", "of the LSTM", .integer = &o.layers, .min = 1, .max = 100 },
        { "dropout", "X", "what part of the numbers between layers is left out", .real = &o.dropout,
          .max = 0.99 },
        { "batch", "N", "stretches of text side by side", .integer = &o.batch, .min = 1,
          .max = many },
        { "length", "N", "words that a pass goes back", .integer = &o.length, .min = 1,
          .max = many },
        { "epochs", "N", "passes over the text", .integer = &o.epochs, .min = 1, .max = many },
        { "lr", "X", "learning rate at the beginning; it falls along a cosine", .real = &o.lr,
          .min = 1e-9, .max = 1000 },
        { "clip", "X", "norm of the gradients of all workers is at most this", .real = &o.clip,
          .min = 1e-6, .max = many },
        { "seed", "N", "of weights and dropout", .integer = &o.seed, .max = 1e15 },
        { "tiny", NULL, "the tutorial's sizes and its made-up data, instead of a text",
          .is_set = &o.tiny },
        { "save", "FILE", "write a checkpoint after each epoch", .text = &o.save },
        { "load", "FILE", "begin with the weights of a checkpoint", .text = &o.load },
        { "stats", NULL, "print messages and bytes of a step", .is_set = &o.stats },
        { "plot", "FILE.svg", "draw the perplexity", .text = &o.plot },
        { 0 },
    };
    int code = flags_parse("rnn_lm", about, flags, argc, argv);
    *out = o;
    return code;
}
