// What the end of a rank means for the job, and which of several ends was the first cause.
//
// A rank that loses another member often fails because of it, and may be the first to be noticed. So
// workers report whom they have lost (docs/protocol/launcher.md), and a rank that has failed is judged
// after those that it has lost.
#ifndef GRADWIRE_CAUSES_H
#define GRADWIRE_CAUSES_H

#include "job.h"

// Judges the ranks that have ended, once each: tells of failures, and lets them end the job. One whose
// cause still seems to run is left for a moment, until |judge_ms| of the job.
void causes_judge(job *j);

#endif
