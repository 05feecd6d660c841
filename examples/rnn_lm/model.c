#include "model.h"

// ---- The modules of the parameter server --------------------------------------------------------

// As in PyTorch's example of word models.
static void start_uniform(gw_scope *s, gw_module *m) {
    gw_init_uniform(s, gw_module_parameter_get(s, m, "weight"), -0.1, 0.1);
}

static gw_module *embedding_table_open(gw_scope *own,
                                       const gw_args *a) {  // words, features, dropout
    gw_module *table =
        gw_nn_embedding(own, gw_arg_int(own, a, 0), gw_arg_int(own, a, 1), .sparse = true);
    start_uniform(own, table);
    return gw_nn_sequential(own, table, gw_nn_dropout(own, gw_arg_float(own, a, 2)));
}
GW_MODULE(embedding_table, embedding_table_open, "int, int, float");

static gw_module *decoder_open(gw_scope *own, const gw_args *a) {  // words, hidden, dropout
    gw_module *scores = gw_nn_linear(own, gw_arg_int(own, a, 1), gw_arg_int(own, a, 0));
    start_uniform(own, scores);
    return gw_nn_sequential(own, gw_nn_dropout(own, gw_arg_float(own, a, 2)), scores);
}
GW_MODULE(decoder, decoder_open, "int, int, float");

// ---- The model ----------------------------------------------------------------------------------

rnn_model model_open(gw_scope *s, const char *ps, model_options o) {
    return (rnn_model){
        .emb = gw_module_remote(s, ps, "embedding_table", o.words, o.features, o.dropout),
        .rnn = gw_nn_lstm(s, o.features, o.hidden, .layers = o.layers, .dropout = o.dropout),
        .dec = gw_module_remote(s, ps, "decoder", o.words, o.hidden, o.dropout),
    };
}

gw_tensor *model_call(gw_scope *s, rnn_model m, gw_tensor *input, hidden *state) {
    gw_tensor *emb = gw_module_call(s, m.emb, input);
    gw_lstm_result r = gw_nn_lstm_call(s, m.rnn, emb, .h0 = state->h, .c0 = state->c);
    *state = (hidden){ r.h, r.c };
    return gw_module_call(s, m.dec, r.output);
}

void model_train(gw_scope *s, rnn_model m) {
    gw_module_train(s, m.emb);
    gw_module_train(s, m.rnn);
    gw_module_train(s, m.dec);
}

void model_eval(gw_scope *s, rnn_model m) {
    gw_module_eval(s, m.emb);
    gw_module_eval(s, m.rnn);
    gw_module_eval(s, m.dec);
}
