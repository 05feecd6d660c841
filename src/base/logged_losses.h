// The losses of other workers that the log has already: the death of a worker is one line on each other worker, whether
// a worker detects it first as an event or as the error of a root scope.
//
// Threads: any.
#ifndef BASE_LOGGED_LOSSES_H
#define BASE_LOGGED_LOSSES_H

#include "base/env.h"
#include "base/status.h"

// Logs |why| as a warning, unless the worker of |e| has logged the loss that it reports.
void logged_losses_log(env *e, const gw_error *why);

// Logs |error| of the root scope of |worker|, unless it reports a loss that this worker has logged. True if standard
// error has the line.
bool logged_losses_log_root(env *e, const char *worker, const gw_error *error);

// The worker of |e| is fenced, because of a loss or not: the error of its root scope, which reports that, is logged.
void logged_losses_forget(env *e);

#endif
