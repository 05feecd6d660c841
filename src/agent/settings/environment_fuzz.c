// What launchers leave in the environment: any texts end in a place within its limits and one way to meet, or in one sentence.
#include "agent/settings/environment.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// PMI_FD is a descriptor, and none of ours.
static const char *const names[] = {
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "PMIX_NAMESPACE",
    "PMI_RANK",
    "PMI_SIZE",
    "MPI_LOCALNRANKS",
    "SLURM_STEP_ID",
    "SLURM_PROCID",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_NTASKS",
    "SLURM_STEP_NUM_NODES",
    "SLURM_JOB_ID",
    "SLURM_STEP_NODELIST",
    "SLURM_JOB_NODELIST",
    "JOB_COMPLETION_INDEX",
    "GRADWIRE_JOB",
    "GW_TRANSPORT",
};

enum { NAMES = sizeof names / sizeof *names };

static char *texts[NAMES];

static char *variable(const char *name) {
    for (int i = 0; i < NAMES; i++)
        if (strcmp(name, names[i]) == 0) return texts[i];
    return NULL;
}

// Pieces: a byte that selects the variable, and its text with its end.
static void take_texts(char *from, const char *end) {
    memset(texts, 0, sizeof texts);
    while (from < end) {
        int which = (unsigned char)*from % NAMES;
        texts[which] = from + 1;
        from += strlen(from + 1) + 2;
    }
}

static void check_master(int rank, int world_size) {
    environment_master m;
    gw_error error = { 0 };
    if (environment_master_of(variable, rank, world_size, &m, &error)) {
        if (!error.text[0]) abort();
    } else if ((m.address[0] == 0) == (m.host[0] == 0) || (m.host[0] && !m.port[0])) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char copy[4096 + 2];
    if (size > sizeof copy - 2) return 0;
    memcpy(copy, data, size);
    copy[size] = copy[size + 1] = '\0';
    take_texts(copy, copy + size);
    int rank = -1, world_size = -1;
    gw_error error = { 0 };
    environment_launch(variable);
    check_master(-1, 0);
    if (environment_place(variable, &rank, &world_size, &error)) {
        if (!error.text[0]) abort();
        return 0;
    }
    if (rank < 0 || rank >= world_size || world_size > LIMIT_WORKERS) abort();
    check_master(rank, world_size);
    return 0;
}
