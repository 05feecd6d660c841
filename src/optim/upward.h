// What this room asks of the room of several workers, which provides it: parameters that other workers own.
#ifndef OPTIM_UPWARD_H
#define OPTIM_UPWARD_H

#include "optim/optimizer.h"

// That part of an optimizer.
typedef struct elsewhere elsewhere;

// Whether |r| names a value of this worker, which is written to |out|; fails |s| if it has none.
bool elsewhere_is_here(gw_scope *s, gw_rref *r, gw_value *out);

// Makes |g| the next group of |o| on the owners of |refs|, too, whose parameters have |numbers|. All
// of them, or false with |s| failed.
bool elsewhere_add_group(gw_scope *s, gw_optimizer *o, const optimizer_group *g,
                         const gw_value *refs, const int *numbers, int count);
void elsewhere_close(elsewhere *e);

// Of an optimizer that has such a part: a step here and there.
void elsewhere_step(gw_scope *s, gw_optimizer *o);

// Adds their part to |map|; takes over a map, here and there, or nowhere with |s| failed.
void elsewhere_write(gw_scope *s, const gw_optimizer *o, gw_map *map);
void elsewhere_load(gw_scope *s, gw_optimizer *o, gw_map *map);

// Of all references in |params| to parameters of other workers: the sum of the squares of their
// gradients in |s|; and these times |by|.
double elsewhere_squares(gw_scope *s, const gw_list *params);
void elsewhere_scale(gw_scope *s, const gw_list *params, double by);

#endif
