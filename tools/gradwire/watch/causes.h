// What the end of a rank means for the job, and which of several ends was the first cause.
//
// A rank that loses another member often fails because of it, and may be the first to be noticed. So
// workers report which members they have lost (docs/protocol/launcher.md), and a rank that has failed is judged
// after those that it has lost. Workers also report that their program has failed, for which others may fail: the first
// of these is judged before them.
#ifndef GRADWIRE_CAUSES_H
#define GRADWIRE_CAUSES_H

#include "job/job.h"

// Judges each rank that has ended, once: reports failures, which may end the job. A rank whose cause still seems to run
// is judged later, at |judge_ms| of the job at the latest.
void causes_judge(job *j);

#endif
