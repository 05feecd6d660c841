// One stage of the pipeline: some layers of the model, on some worker.
#ifndef STAGE_H
#define STAGE_H

#include "options.h"

#include <gradwire.h>

// The layers of stage |number|. The same seed gives the same weights.
gw_module *stage_model(gw_scope *s, const options *o, int number);

// Makes the object of stage |number| on worker |number|.
gw_rref *stage_remote(gw_scope *s, const options *o, int number);

// The optimizer of one stage, or of all.
gw_optimizer *stage_optimizer(gw_scope *s, const options *o, gw_list *parameters);

// The part of micro-batch |images| in the mean loss of its batch.
gw_tensor *stage_loss(gw_scope *s, gw_tensor *scores, gw_tensor *labels, int64_t micro_batches);

#endif
