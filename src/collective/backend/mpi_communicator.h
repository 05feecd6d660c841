// Communicators of MPI, and the calls under way in them. An mpi_communicator has one MPI communicator for each channel;
// all of these are made when the members open their group. The caller starts a call only after the previous call in the
// channel has ended, so the call begins at once.
//
// Ownership: a communicator frees itself when it is closed and nothing is under way in it. Threads: the first part
// may be called on any thread; the second only on the thread that makes all calls of MPI.
#ifndef COLLECTIVE_BACKEND_MPI_COMMUNICATOR_H
#define COLLECTIVE_BACKEND_MPI_COMMUNICATOR_H

#include "collective/backend/backend.h"

enum { MPI_CHANNELS = 8 };

typedef struct mpi_communicator mpi_communicator;

// NO_MEMORY.
gw_status mpi_communicator_open(const backend_members *m, mpi_communicator **out, gw_error *error);
// As |start|, |abort| and |close| of a backend.
void mpi_communicator_start(mpi_communicator *c, backend_call *call);
void mpi_communicator_abort(mpi_communicator *c);
void mpi_communicator_close(mpi_communicator *c);
void mpi_communicators_stop(void);  // mpi_await returns false from here on

// ---- The thread of MPI --------------------------------------------------------------------------

void mpi_communicators_init(void);  // before any other

// Sleeps while there is nothing to do. False: it was stopped.
bool mpi_await(void);
// Makes the opened communicators, unless there is no MPI: |why_not|; begins started calls, and ends completed ones.
// Whether anything has begun or ended.
bool mpi_progress(const gw_error *why_not);
int mpi_count_flights(void);  // calls that are under way

#endif
