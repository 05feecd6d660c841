// Options of torchrun that gradwire run has for torchrun's command lines alone.
#ifndef GRADWIRE_TORCHRUN_OPTIONS_H
#define GRADWIRE_TORCHRUN_OPTIONS_H

#include <getopt.h>

#include "options/run_options.h"

enum { TORCHRUN_COUNT = 12 };

// Writes their rows for getopt_long, with values from OPTION_TORCHRUN.
void torchrun_names(struct option out[TORCHRUN_COUNT]);

// |option| is the value of a row, |name| what the user has set: an option, or a variable. Prints a line if the option has
// no effect, and a line before it returns false if it is refused.
bool torchrun_take(int option, const char *name, const char *text, run_options *out);

#endif
