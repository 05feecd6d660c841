// The options of gradwire run about failures: which ranks start again and how often; and about the files of their
// output.
#ifndef GRADWIRE_RESTART_OPTIONS_H
#define GRADWIRE_RESTART_OPTIONS_H

#include "options/option.h"
#include "options/run_options.h"

// These functions print one line and return false if something is wrong.

// |name| is what the user has set: an option, or a variable.
bool restart_options_take(run_option option, const char *name, const char *text, run_options *out);

// Checks them together, once all options are known, and sets the policy if the user has chosen none.
bool restart_options_check(run_options *out);

// Reads a policy.
bool restart_options_parse_policy(const char *name, const char *text, failure_policy *out);

// The name of a policy, as the user gives it.
const char *restart_options_policy(failure_policy p);

#endif
