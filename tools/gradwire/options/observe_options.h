// The options of gradwire run for those who observe the job: --flight-dir, --forward-signals, --on-signal, --hang-after,
// --monitor, --metrics-listen, --metrics-token-file, --trace.
#ifndef GRADWIRE_OBSERVE_OPTIONS_H
#define GRADWIRE_OBSERVE_OPTIONS_H

#include "options/option.h"
#include "options/run_options.h"

// False after an error was printed.
bool observe_options_take(run_option option, const char *name, const char *text, run_options *out);

#endif
