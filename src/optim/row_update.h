// A step for one parameter whose gradient is sparse by rows: computes only the rows of the gradient, in separate
// arrays, and writes them at the commit.
#ifndef OPTIM_ROW_UPDATE_H
#define OPTIM_ROW_UPDATE_H

#include "optim/optimizer.h"

// Whether the rule can use |grad|; else fails |s|. *out_dense: it uses it as a dense one.
bool row_update_check(gw_scope *s, const gw_optimizer *o, const parameter *p, const gw_tensor *grad,
                      bool *out_dense);

// Takes all memory that the step needs. False with |s| failed.
bool row_update_reserve(gw_scope *s, const gw_optimizer *o, parameter *p);
void row_update_compute(const gw_optimizer *o, parameter *p);
void row_update_commit(parameter *p);
// For rows that another worker computes: takes memory for those that |indices| name. False with |s| failed.
bool row_update_await(gw_scope *s, const gw_optimizer *o, parameter *p, gw_tensor *indices);
block *row_update_block(const parameter *p);  // the new rows, one behind the other
// Writes the new rows to |to|, where values like those of the parameter begin at |offset|.
void row_update_write(const parameter *p, block *to, size_t offset);
void row_update_discard(parameter *p);

// The initial state |k| of a parameter like |x|. False without memory.
bool state_begin(const gw_optimizer *o, parameter *p, int k);

#endif
