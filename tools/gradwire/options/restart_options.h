// The options of gradwire run about failures: which ranks start again and how often; and about the files of their
// output.
#ifndef GRADWIRE_RESTART_OPTIONS_H
#define GRADWIRE_RESTART_OPTIONS_H

#include "options/run_options.h"

typedef enum restart_option {
    OPTION_ON_FAILURE = 256,  // behind all characters, which are the short options
    OPTION_MAX_RESTARTS,
    OPTION_MIN_SUCCESS,
    OPTION_RESTART_WINDOW,
    OPTION_BACKOFF,
    OPTION_REDIRECTS,
    OPTION_TEE,
    OPTION_LOG_DIR,
    OPTION_CHECKPOINT_DIR,
    RESTART_OPTIONS_END,
} restart_option;

// These functions print one line and return false if something is wrong.

// |name| is what the user has set: an option, or a variable.
bool restart_options_take(restart_option option, const char *name, const char *text,
                          run_options *out);

// Sets the values that the environment has: PET_MAX_RESTARTS and so on, as torchrun names them.
bool restart_options_take_environment(run_options *out);

// Checks them together, once all options are known, and sets the policy if the user has chosen none.
bool restart_options_check(run_options *out);

#endif
