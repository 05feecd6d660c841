// Memory of a worker, in MB.
#ifndef MEMORY_H
#define MEMORY_H

#include <gradwire.h>

double memory_of_weights(gw_scope *s, gw_module *model);
double memory_of_gradients(gw_scope *s);  // of the passes in |s|
double memory_now(void);                  // of the whole process
double memory_peak(void);                 // the peak of the whole process so far

#endif
