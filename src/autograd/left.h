// Where passes have left gradients, so that a step in another scope fails and names that scope.
//
// A scope with gradients has a number. Each leaf keeps the number of the last scope in which a pass has left a gradient
// of the leaf, and whether a step has used the gradient since. A table has the last scopes.
//
// Threads: any.
#ifndef AUTOGRAD_LEFT_H
#define AUTOGRAD_LEFT_H

#include "tensor/tensor.h"

typedef struct left_text {
    char text[160];
} left_text;

uint32_t left_open(const gw_scope *s);  // never 0
void left_close(uint32_t number);       // the scope is closed

// Numbers of scopes are even; this bit of a leaf's says that no step has used the gradient.
enum { LEFT_UNUSED = 1 };

static inline void left_note(gw_tensor *leaf, uint32_t number) {
    atomic_store_explicit(&leaf->left_in, number | LEFT_UNUSED, memory_order_relaxed);
}

static inline void left_note_used(gw_tensor *leaf) {
    atomic_fetch_and_explicit(&leaf->left_in, ~(uint32_t)LEFT_UNUSED, memory_order_relaxed);
}

// The later one of |number| and that of |leaf|, with LEFT_UNUSED.
uint32_t left_latest(uint32_t number, const gw_tensor *leaf);

// Whether a function that finds no gradient in |s| has missed the one that was left as |number|: it is
// unused, and of the same work. The work is one body; outside of bodies the gradients that one thread has left
// since the first pass in |s|, whose number is |own|, or in a scope that is still open. So a step
// without gradients stays right where a model is not used in each step, and while other threads run.
bool left_is_missed(uint32_t number, const gw_scope *s, uint32_t own);

// The end of an error text: where gradients of these parameters are, or were.
left_text left_describe(uint32_t number);

#endif
