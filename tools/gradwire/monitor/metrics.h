// The numbers of a job in the text format of Prometheus, 0.0.4.
#ifndef GRADWIRE_METRICS_H
#define GRADWIRE_METRICS_H

#include <stdio.h>

#include "monitor/model.h"

// Of workers of one name the latest attempt counts, so that no series is written twice.
void metrics_write(const model *m, FILE *out);

#endif
