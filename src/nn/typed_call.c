// The layers that take or give several values, by name.
#include "nn/module.h"

#include <string.h>

static const typed_call *const all[] = {
    &typed_lstm,          &typed_gru, &typed_rnn, &typed_embedding_bag, &typed_multihead_attention,
    &typed_encoder_layer,
};

const typed_call *typed_call_find(const char *name) {
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(all[i]->name, name)) return all[i];
    return NULL;
}
