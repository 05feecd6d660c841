// The library's environment variables: values that mean nothing, and names that are almost one of
// them, are told rather than passed over.
//
// Threads: any.
#ifndef BASE_VARIABLES_H
#define BASE_VARIABLES_H

// Warns of each variable that means nothing, once in the process, when it opens its first root
// scope. Variables that are looked at later, or make gw_rpc_init fail, are told there.
void variables_check(void);

// The same for |environment|, each time.
void variables_check_all(char *const *environment);

#endif
