// The options of gradwire run about its hosts: how many they are, which this one is, and where they meet.
#ifndef GRADWIRE_RENDEZVOUS_OPTIONS_H
#define GRADWIRE_RENDEZVOUS_OPTIONS_H

#include "options/option.h"
#include "options/run_options.h"

// These functions print one line and return false if something is wrong.

// |name| is what the user has set: an option, or a variable.
bool rendezvous_take(run_option option, const char *name, const char *text, run_options *out);

// Checks them together, once all options are known.
bool rendezvous_check(run_options *out);

#endif
