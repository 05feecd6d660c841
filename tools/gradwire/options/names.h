// The names of the options of gradwire run, and of the variables that set their defaults.
#ifndef GRADWIRE_OPTION_NAMES_H
#define GRADWIRE_OPTION_NAMES_H

#include <getopt.h>
#include <stdbool.h>

enum { NAME_BYTES = 40 };

// All long options, ended by an empty row.
const struct option *names_all(void);

// The short options, as getopt_long takes them.
extern const char names_short[];

// The value of the long form of |option|, which getopt_long has returned.
int names_long_form(int option);

// The option without a value: "--max-restarts"; and "-n", which is better known than its long form.
void names_write(int option, char out[NAME_BYTES]);

// "PET_MAX_RESTARTS", as torchrun names them. Returns false if no variable sets |option|.
bool names_write_variable(const struct option *option, char out[NAME_BYTES]);

// Prints that |given| is no option. Returns false.
bool names_refuse(const char *given);

#endif
