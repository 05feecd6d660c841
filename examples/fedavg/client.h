#ifndef CLIENT_H
#define CLIENT_H

#include "options.h"

// Runs a client: joins the group, serves rounds until it is dismissed, leaves. Returns its exit code.
int client_run(const options *o);

#endif
