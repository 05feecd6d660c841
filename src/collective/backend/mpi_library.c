// Without Open MPI there is nothing here (CMakeLists.txt).
#ifdef GW_OPEN_MPI

#include "collective/backend/mpi_library.h"

#include "base/status.h"

#include <dlfcn.h>

mpi_library mpi;

static void *library;

// Its plug-ins search for its symbols in the whole process.
void mpi_load(void) {
    library = dlopen(MPI_LIBRARY, RTLD_NOW | RTLD_GLOBAL);
    if (!library) return;
    mpi.is_loaded = true;
#define LOAD(name)                                                                                 \
    *(void **)&mpi.name = dlsym(library, "MPI_" #name);                                            \
    mpi.is_loaded = mpi.is_loaded && mpi.name;
    MPI_CALLS(LOAD)
    mpi.world = dlsym(library, "ompi_mpi_comm_world");
    mpi.returns_errors = dlsym(library, "ompi_mpi_errors_return");
    mpi.byte = dlsym(library, "ompi_mpi_byte");
    mpi.is_loaded = mpi.is_loaded && mpi.world && mpi.returns_errors && mpi.byte;
}

MPI_Datatype mpi_datatype_of(gw_dtype dtype) {
    static const char *const names[GW_DTYPE_COUNT] = {
        [GW_F32] = "ompi_mpi_float",
        [GW_F64] = "ompi_mpi_double",
        [GW_I32] = "ompi_mpi_int32_t",
        [GW_I64] = "ompi_mpi_int64_t",
    };
    return names[dtype] ? dlsym(library, names[dtype]) : NULL;
}

MPI_Op mpi_op_of(combine_op op) {
    static const char *const names[] = {
        [COMBINE_SUM] = "ompi_mpi_op_sum",   [COMBINE_PRODUCT] = "ompi_mpi_op_prod",
        [COMBINE_MIN] = "ompi_mpi_op_min",   [COMBINE_MAX] = "ompi_mpi_op_max",
        [COMBINE_BAND] = "ompi_mpi_op_band", [COMBINE_BOR] = "ompi_mpi_op_bor",
        [COMBINE_BXOR] = "ompi_mpi_op_bxor",
    };
    return names[op] ? dlsym(library, names[op]) : NULL;
}

gw_status mpi_check(int code, const char *what, gw_error *error) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int size;
    if (code == MPI_SUCCESS) return GW_OK;
    mpi.Error_string(code, text, &size);
    return error_set(error, GW_REMOTE, "mpi: %s: %s", what, text);
}

#endif
