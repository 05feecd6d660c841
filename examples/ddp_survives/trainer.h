#ifndef TRAINER_H
#define TRAINER_H

#include "options.h"

// Runs a trainer: joins the job and the group, trains with the others until all epochs are over, leaves. Returns its
// exit code.
int trainer_run(const options *o);

#endif
