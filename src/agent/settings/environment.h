// The environment variables that launchers set for the processes that they start.
//
// Each row of the table stands for a launcher. The first row whose variables are set determines rank and world size.
// Among rows with the same rank and world size, the first row that has an address determines the address of rank 0: one
// launch may match two rows (Slurm, PMI).
//
// | launcher | rank, world size | local rank, and of how many | mark of the job | where rank 0 is |
// |---|---|---|---|---|
// | gradwire, torchrun | RANK, WORLD_SIZE | LOCAL_RANK, LOCAL_WORLD_SIZE | TORCHELASTIC_RUN_ID, GRADWIRE_JOB | MASTER_ADDR, MASTER_PORT |
// | Open MPI | OMPI_COMM_WORLD_RANK, _SIZE | OMPI_COMM_WORLD_LOCAL_RANK, _LOCAL_SIZE | PMIX_NAMESPACE, OMPI_MCA_ess_base_jobid, OMPI_MCA_orte_precondition_transports | on one host: here |
// | PMI (MPICH's and Intel's hydra) | PMI_RANK, PMI_SIZE | MPI_LOCALRANKID, MPI_LOCALNRANKS | the process behind PMI_FD | on one host: here |
// | Slurm (srun) | SLURM_PROCID, SLURM_STEP_NUM_TASKS or SLURM_NTASKS | SLURM_LOCALID | SLURM_JOB_ID, SLURM_STEP_ID | on one host (SLURM_STEP_NUM_NODES): here; else the first of SLURM_STEP_NODELIST or SLURM_JOB_NODELIST |
// | Kubernetes (indexed jobs) | JOB_COMPLETION_INDEX, WORLD_SIZE of the manifest | | | MASTER_ADDR of the manifest, port 29500 |
//
// * MASTER_ADDR and MASTER_PORT precede the address of any row. A port that no variable states is derived from the
//   mark, 20000 to 29999.
// * *Here* is a name in the kernel, derived from the mark, which two jobs cannot share and which needs no removal; with
//   GW_TRANSPORT=tcp it is 127.0.0.1 and a port.
// * RANK and WORLD_SIZE must not contradict another row, since it is then unknown which row is intended. RANK and
//   WORLD_SIZE may contradict another launcher's row when their launcher runs inside that launcher (GRADWIRE_JOB,
//   TORCHELASTIC_RUN_ID), or when that launcher has started one process alone.
// * A world of one needs no MASTER_ADDR: 127.0.0.1, and a port that the kernel chooses.
// * SLURM_PROCID without SLURM_STEP_ID is set in a batch script, which srun has not started.
#ifndef AGENT_SETTINGS_ENVIRONMENT_H
#define AGENT_SETTINGS_ENVIRONMENT_H

#include "base/limits.h"
#include "net/tls/protection.h"
#include <gradwire/rpc.h>

// Set in workers that gw_process_start starts.
#define ENVIRONMENT_STARTED "GRADWIRE_STARTED"

// Looks a variable up: getenv, or a test's.
typedef char *(*environment_lookup)(const char *name);

// Takes *rank and *world_size from the environment, where they are -1. INVALID, naming variables, if something is missing,
// is no number, or contradicts itself.
gw_status environment_place(environment_lookup variable, int *rank, int *world_size,
                            gw_error *error);

// The address of rank 0.
typedef struct environment_master {
    char address[LIMIT_ADDRESS_BYTES + 1];  // of a transport, "shm://..."; "": host and port
    char host[LIMIT_ADDRESS_BYTES + 1];
    char port[32];                      // as it was found
    const char *host_from, *port_from;  // variables, for error texts
} environment_master;

// |rank| and |world_size| as they were found, or given; -1 and 0 of a group. INVALID, naming variables.
gw_status environment_master_of(environment_lookup variable, int rank, int world_size,
                                environment_master *out, gw_error *error);

// The mark of the job that the launcher of this rank has given to all its ranks; "" if it has given none that is the same
// on all hosts.
void environment_job(environment_lookup variable, int rank, int world_size, char out[JOB_ID_MAX]);

// The result of gw_rpc_launched.
gw_launch environment_launch(environment_lookup variable);

#endif
