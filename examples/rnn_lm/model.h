// The model over two workers: embedding and decoder on the parameter server, LSTM here.
#ifndef MODEL_H
#define MODEL_H

#include <gradwire.h>

typedef struct model_options {
    int64_t words, features, hidden;
    int layers;
    double dropout;
} model_options;

typedef struct rnn_model {
    gw_module *emb, *rnn, *dec;
} rnn_model;

typedef struct hidden {
    gw_tensor *h, *c;  // NULL: zeros
} hidden;

rnn_model model_open(gw_scope *s, const char *ps, model_options o);

// input: T N -> scores of the next word, T N V. |*state| becomes the state after it.
gw_tensor *model_call(gw_scope *s, rnn_model m, gw_tensor *input, hidden *state);

void model_train(gw_scope *s, rnn_model m);
void model_eval(gw_scope *s, rnn_model m);

#endif
