// Tables of rows that indices look up: torch.nn.Embedding.
#include "nn/init.h"

static gw_tensor *forward_embedding(gw_scope *s, gw_module *m, gw_tensor *x) {
    const gw_embedding_options *options = m->settings;
    return gw_embedding_with(s, m->parameters.items[0].is.parameter, x, *options);
}

gw_module *gw_nn_embedding_with(gw_scope *s, int64_t count, int64_t features,
                                gw_nn_embedding_options options) {
    gw_embedding_options e = GW_OPTIONS(gw_embedding_options, .sparse = options.sparse,
                                        .padding_idx = options.padding_idx);
    gw_module *m = module_new_with(s, "embedding", forward_embedding, &e, sizeof e);
    init_table(s, m, "gw_nn_embedding", count, features, &options);
    return gw_ok(s) ? m : &module_poison;
}
