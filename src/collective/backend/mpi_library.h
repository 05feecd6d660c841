// Open MPI, loaded when a group needs it: no program is linked with MPI, and programs without MPI do not need it.
//
// Threads: once it is loaded, the thread that makes all calls of MPI (backend_mpi.c).
#ifndef COLLECTIVE_BACKEND_MPI_LIBRARY_H
#define COLLECTIVE_BACKEND_MPI_LIBRARY_H

#include "collective/backend/backend.h"

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

extern mpi_library mpi;  // tests replace its functions

void mpi_load(void);                           // sets |mpi.is_loaded| if the library exists
MPI_Datatype mpi_datatype_of(gw_dtype dtype);  // for the types that backend_mpi adds
MPI_Op mpi_op_of(combine_op op);

// REMOTE, with the text of MPI for |code|, unless it is MPI_SUCCESS.
gw_status mpi_check(int code, const char *what, gw_error *error);

#endif
