// The server: keeps the model, and the list of the clients that improve it.
#ifndef SERVER_H
#define SERVER_H

#include "../common/digits.h"
#include "options.h"

#include <gradwire.h>

enum { MEMBERS_MAX = 64 };

typedef struct member {
    gw_rref *client;
    gw_future *dismissal;  // the result of its await_dismissal
    int64_t number;
    const char *name;
} member;

typedef struct server {
    gw_scope *own;
    int64_t width;  // of the model
    gw_module *model;
    gw_optimizer *optimizer;  // of FedSGD
    member members[MEMBERS_MAX];
    int member_count;
    gw_future *dismissals[MEMBERS_MAX];  // of the clients that leave after the round
    int dismissal_count;
    gw_future *arrival;  // resolves when a client enlists
} server;

typedef struct round_report {
    int updates;         // of so many clients
    double loss;         // mean over their digits
    double computing_s;  // of the slowest client
    int lost_count;      // clients, and their numbers
    int64_t lost[MEMBERS_MAX];
} round_report;

// Creates the server's object under a name, by which clients find it.
gw_rref *server_start(gw_scope *root, const options *o);

// Waits until client |number| has enlisted, or |process| (NULL: not started here) was killed, which is printed. Fails
// if the process has failed.
void server_await(gw_scope *s, server *self, int64_t number, gw_process *process,
                  int64_t timeout_s);

// Runs one round: all clients compute from the same weights, and the results are averaged. |in_flight| (may be NULL) is
// called when all calls are sent. A lost client is removed, with a line that names the reason.
round_report server_round(gw_scope *s, server *self, const options *o,
                          void (*in_flight)(void *context), void *context);

// Dismisses a member: it gets no further calls, and leaves the group at the next server_farewell.
void server_dismiss(server *self, int index);

void server_farewell(gw_scope *s, server *self);

#endif
