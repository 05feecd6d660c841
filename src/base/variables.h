// The library's environment variables: invalid values, and names that are similar to one of
// them, are logged.
//
// Threads: any.
#ifndef BASE_VARIABLES_H
#define BASE_VARIABLES_H

// Logs a warning for each invalid variable, once in the process, when it opens its first root
// scope. Variables that are read later, or make gw_rpc_init fail, are reported there.
void variables_check(void);

// The same for |environment|, each time.
void variables_check_all(char *const *environment);

#endif
