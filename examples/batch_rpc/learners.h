// The two forms. Each runs on worker 0 until it has learned or has reached its limit. Returns whether it has learned.
#ifndef LEARNERS_H
#define LEARNERS_H

#include "../common/curve.h"
#include "options.h"

#include <gradwire.h>

bool server_learn(gw_scope *root, const options *o, curve *progress);
bool agent_learn(gw_scope *root, const options *o, curve *progress);

#endif
