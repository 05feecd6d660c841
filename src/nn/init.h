// Initial values of parameters. Random ones are drawn from the scope's generator.
#ifndef NN_INIT_H
#define NN_INIT_H

#include "nn/module.h"

// Add a parameter that is uniform in [-bound, bound), or |value| everywhere.
void init_uniform(gw_scope *s, gw_module *m, const char *name, gw_dtype dtype, gw_shape shape,
                  double bound);
void init_full(gw_scope *s, gw_module *m, const char *name, gw_dtype dtype, gw_shape shape,
               double value);

// |count| times |size|, of |maker|: numbers of any source. Fails |s|, and returns 0, if
// no tensor can be that long.
int64_t init_length(gw_scope *s, const char *maker, int64_t count, int64_t size);

// Adds a buffer that is |value| everywhere.
void init_buffer(gw_scope *s, gw_module *m, const char *name, gw_dtype dtype, gw_shape shape,
                 double value);

// Adds "weight", the table of embeddings, which is normal, and 0 in the row of padding. |maker| is
// named in errors.
void init_table(gw_scope *s, gw_module *m, const char *maker, int64_t count, int64_t features,
                const gw_nn_embedding_options *options);

#endif
