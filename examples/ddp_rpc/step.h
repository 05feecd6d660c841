// A step of a trainer; gw-bench measures it.
#ifndef STEP_H
#define STEP_H

#include <gradwire.h>

enum { EMBEDDINGS = 100, FEATURES = 16, CLASSES = 8 };

typedef struct batch {
    gw_tensor *indices, *offsets, *target;
} batch;

// 20 to 50 indices in bags of 1 to 10. Planted: those of a bag are indices of its class.
batch batch_draw(gw_scope *s, bool is_planted);

// Looks rows of |table| up on its worker, puts them through |layer|, and goes backward and steps over
// both. Returns the loss.
double train_step(gw_scope *outer, gw_module *table, gw_module *layer, gw_optimizer *opt, batch b);

#endif
