// Where passes have left gradients, so that a step in another scope can say where they are.
//
// A scope with gradients has a number, and each leaf keeps that of the last scope in which a pass has
// left a gradient of it. A table of the last scopes has their names.
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

static inline void left_note(gw_tensor *leaf, uint32_t number) {
    atomic_store_explicit(&leaf->left_in, number, memory_order_relaxed);
}

// The later one of |number| and that of |leaf|.
uint32_t left_latest(uint32_t number, const gw_tensor *leaf);

// The end of a sentence: where gradients of these parameters are, or were.
left_text left_say(uint32_t number);

#endif
