// The server: keeps the model, and a list of who is there to improve it.
#ifndef SERVER_H
#define SERVER_H

#include "../common/digits.h"
#include "options.h"

#include <gradwire.h>

enum { MEMBERS_MAX = 64 };

typedef struct member {
    gw_rref *client;
    gw_future *dismissal;  // what its enlist waits for
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
    gw_future *dismissals[MEMBERS_MAX];  // of those who are to leave when the round is over
    int dismissal_count;
    gw_future *arrival;  // resolves when somebody enlists
} server;

typedef struct round_report {
    int updates;         // of so many clients
    double loss;         // mean over their digits
    double computing_s;  // of the slowest client
    int lost_count;      // clients, and their numbers
    int64_t lost[MEMBERS_MAX];
} round_report;

// Makes the server's object, which clients then find.
gw_rref *server_start(gw_scope *root, const options *o);

// Waits until the client of this number is there, or |process| (NULL: not started here) was killed, which is said. Fails
// if it has failed.
void server_await(gw_scope *s, server *self, int64_t number, gw_process *process,
                  int64_t timeout_s);

// One round: all clients compute from the same weights, and their answers are averaged. |in_flight|
// (may be NULL) is called when all have been asked. Whoever is lost is removed, with a line that
// says why.
round_report server_round(gw_scope *s, server *self, const options *o,
                          void (*in_flight)(void *context), void *context);

// Takes a member out: it is not asked any more, and leaves the group at the next server_farewell.
void server_dismiss(server *self, int index);

void server_farewell(gw_scope *s, server *self);

#endif
