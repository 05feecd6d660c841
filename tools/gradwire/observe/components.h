// Strongly connected components.
#ifndef GRADWIRE_COMPONENTS_H
#define GRADWIRE_COMPONENTS_H

#include <stdbool.h>

// Of a graph of |count| nodes: the edges of node n are to[first[n]] to to[first[n + 1] - 1]. Writes the number of each
// node's component, from 0. Returns how many there are, -1 without memory.
int components_find(const int *first, const int *to, int count, int *out_component);

#endif
