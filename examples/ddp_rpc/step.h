// A step of a trainer; gw-bench measures it.
#ifndef STEP_H
#define STEP_H

#include <gradwire.h>

enum { EMBEDDINGS = 100, FEATURES = 16, CLASSES = 8 };

typedef struct batch {
    gw_tensor *indices, *offsets, *target;
} batch;

// 20 to 50 indices in bags of 1 to 10. If planted, the indices of a bag are those of its class.
batch batch_draw(gw_scope *s, bool is_planted);

// Looks up rows of |table| on its worker, passes them through |layer|, then runs backward and a step over both. Returns
// the loss.
double train_step(gw_scope *outer, gw_module *table, gw_module *layer, gw_optimizer *opt, batch b);

#endif
