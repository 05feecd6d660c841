// The roles of a job: --role=NAME:COUNT[:POLICY], once for each role.
#ifndef GRADWIRE_ROLES_H
#define GRADWIRE_ROLES_H

#include "options/run_options.h"

// "NAME", or "NAME:COUNT[:POLICY]". False after an error was printed.
bool roles_take(const char *name, const char *text, run_options *out);

// Before the number of ranks is checked: it is that of all roles.
bool roles_check(run_options *o);

// A role without a policy of its own gets that of the job. Once all options are known.
bool roles_check_policies(run_options *o);

// The role of a rank of this host, and its number in the role; NULL: the job has no roles.
const run_role *roles_find(const run_options *o, int index, int *out_number);

// What the failure of this rank leads to.
failure_policy roles_policy(const run_options *o, int index);

#endif
