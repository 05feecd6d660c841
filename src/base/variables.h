// The library's environment variables: invalid values, and names that are similar to one of
// them, are logged.
//
// Threads: any.
#ifndef BASE_VARIABLES_H
#define BASE_VARIABLES_H

#include <stdbool.h>

// Logs a warning for each invalid variable, once in the process, when it opens its first root
// scope. Variables that are read later, or make gw_rpc_init fail, are reported there.
void variables_check(void);

// The same for |environment|, each time.
void variables_check_all(char *const *environment);

// Whether |text| is a number from 0 to |max|, in decimal digits alone.
bool variable_number(const char *text, long max, int *out);

#endif
