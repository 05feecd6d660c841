#include "step.h"

static int64_t draw(gw_scope *s, int64_t low, int64_t high) {
    return gw_item_int(s, gw_randint(s, GW_I64, low, high, 1));
}

batch batch_draw(gw_scope *s, bool is_planted) {
    int64_t indices[50], offsets[50], labels[50], bags = 0, end = 0, count = draw(s, 20, 51);
    for (int64_t i = 0; i < count; i++) {
        if (i == end) {
            offsets[bags] = i;
            labels[bags++] = draw(s, 0, CLASSES);
            end += draw(s, 1, 11);
        }
        indices[i] = draw(s, 0, EMBEDDINGS);
        if (is_planted)
            indices[i] = indices[i] % (EMBEDDINGS / CLASSES) * CLASSES + labels[bags - 1];
    }
    return (batch){ gw_from(s, indices, count), gw_from(s, offsets, bags),
                    gw_from(s, labels, bags) };
}

double train_step(gw_scope *outer, gw_module *table, gw_module *layer, gw_optimizer *opt, batch b) {
    gw_scope *s = gw_scope_open(outer);
    gw_tensor *rows = gw_nn_embedding_bag_call(s, table, b.indices, .offsets = b.offsets);
    gw_tensor *loss = gw_cross_entropy(s, gw_module_call(s, layer, rows), b.target);
    gw_backward(s, loss);
    gw_optimizer_step(s, opt);
    double value = gw_item(s, loss);
    gw_scope_close_up(s);
    return value;
}
