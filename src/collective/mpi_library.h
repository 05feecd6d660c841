// Open MPI, loaded when a group asks for it: nothing is linked with it, and programs that use no MPI
// need none.
//
// Threads: once it is loaded, the thread that makes all calls of MPI (backend_mpi.c).
#ifndef COLLECTIVE_MPI_LIBRARY_H
#define COLLECTIVE_MPI_LIBRARY_H

#include "collective/backend.h"

#include <gradwire/status.h>
#include <mpi.h>

#define MPI_LIBRARY "libmpi.so.40"  // of Open MPI 4 and 5
#define MPI_CALLS(X)                                                                               \
    X(Initialized)                                                                                 \
    X(Init_thread)                                                                                 \
    X(Query_thread)                                                                                \
    X(Finalize)                                                                                    \
    X(Comm_rank)                                                                                   \
    X(Comm_size)                                                                                   \
    X(Comm_group)                                                                                  \
    X(Group_incl)                                                                                  \
    X(Group_free)                                                                                  \
    X(Comm_create_group)                                                                           \
    X(Comm_dup)                                                                                    \
    X(Comm_set_errhandler)                                                                         \
    X(Error_string)                                                                                \
    X(Testsome)                                                                                    \
    X(Ialltoallv)                                                                                  \
    X(Iallgatherv)                                                                                 \
    X(Igatherv)                                                                                    \
    X(Ibcast)                                                                                      \
    X(Iallreduce)

#define MPI_FIELD(name) __typeof__(MPI_##name) *name;
typedef struct mpi_library {
    MPI_CALLS(MPI_FIELD)
    MPI_Comm world;
    MPI_Errhandler returns_errors;
    MPI_Datatype byte;
    bool is_loaded;
} mpi_library;

extern mpi_library mpi;  // tests put functions of their own there

void mpi_load(void);                           // |mpi.is_loaded|, if it is here
MPI_Datatype mpi_datatype_of(gw_dtype dtype);  // of those that backend_mpi adds
MPI_Op mpi_op_of(combine_op op);

// REMOTE, with what MPI says about |code|, unless it went well.
gw_status mpi_check(int code, const char *what, gw_error *error);

#endif
