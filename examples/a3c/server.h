// The parameter server: keeps the weights, and takes a step with gradients as they arrive.
#ifndef SERVER_H
#define SERVER_H

#include "../common/curve.h"
#include "options.h"

#include <gradwire.h>

enum { RECENT = 100 };

typedef struct server {
    gw_scope *own;
    const options *o;
    gw_module *policy;
    gw_optimizer *optimizer;
    curve *progress;
    int64_t steps, updates, episodes, lines;  // played, pushed, ended, printed so far
    double scores[RECENT];                    // of the last episodes, in a ring
} server;

// Builds the policy. |o| and |progress| must live as long as |self|.
void server_begin(server *self, const options *o, curve *progress);

// Returns the mean score of the last episodes.
double server_score(const server *self);

#endif
