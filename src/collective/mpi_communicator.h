// Communicators of MPI, and the calls that are under way in them. One has a communicator of MPI for
// each lane, all made when the members open their group; a call begins when it is started, since the
// one before it in its lane has ended.
//
// Ownership: a communicator frees itself when it is closed and nothing is under way in it. Threads:
// the first part any thread; the second the one that makes all calls of MPI.
#ifndef COLLECTIVE_MPI_COMMUNICATOR_H
#define COLLECTIVE_MPI_COMMUNICATOR_H

#include "collective/backend.h"

enum { MPI_CHANNELS = 8 };

typedef struct mpi_communicator mpi_communicator;

// NO_MEMORY.
gw_status mpi_communicator_open(const backend_members *m, mpi_communicator **out, gw_error *error);
// As |start|, |abort| and |close| of a backend.
void mpi_communicator_start(mpi_communicator *c, backend_call *call);
void mpi_communicator_abort(mpi_communicator *c);
void mpi_communicator_close(mpi_communicator *c);
void mpi_communicators_stop(void);  // mpi_await gives false from here on

// ---- The thread of MPI --------------------------------------------------------------------------

void mpi_communicators_init(void);  // before any other

// Sleeps while there is nothing to do. False: it was stopped.
bool mpi_await(void);
// Makes what was opened, unless there is no MPI: |why_not|; begins what was started, and ends what has
// ended. Whether anything has.
bool mpi_progress(const gw_error *why_not);
int mpi_count_flights(void);  // calls that are under way

#endif
