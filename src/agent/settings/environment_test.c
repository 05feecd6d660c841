#include "agent/settings/environment.h"

#include "agent/settings/options.h"
#include "testing/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const char *const *environment;  // "NAME=value", ended by NULL

static char *look_up(const char *name) {
    size_t size = strlen(name);
    for (int i = 0; environment[i]; i++)
        if (!strncmp(environment[i], name, size) && environment[i][size] == '=')
            return (char *)environment[i] + size + 1;
    return NULL;
}

// What gw_rpc_init makes of it with nothing in its options.
static join_options resolve(const char *const variables[]) {
    environment = variables;
    join_options out;
    gw_error error = { 0 };
    const gw_rpc_options nothing = GW_OPTIONS(gw_rpc_options);
    gw_status status = options_resolve(&nothing, look_up, &out, &error);
    testing_note("%s ...: %s", variables[0], error.text);
    assert_int_equal(status, GW_OK);
    return out;
}

static void refuse(const char *const variables[], const char *words) {
    environment = variables;
    join_options out;
    gw_error error = { 0 };
    const gw_rpc_options nothing = GW_OPTIONS(gw_rpc_options);
    assert_int_equal(options_resolve(&nothing, look_up, &out, &error), GW_INVALID);
    testing_note("\"%s\" should say \"%s\"", error.text, words);
    assert_non_null(strstr(error.text, words));
}

#define RESOLVE(...) resolve((const char *const[]){ __VA_ARGS__, NULL })
#define REFUSE(words, ...) refuse((const char *const[]){ __VA_ARGS__, NULL }, words)

static void assert_place(const join_options *o, int rank, int world_size) {
    char name[32];
    snprintf(name, sizeof name, "worker%d", rank);
    assert_int_equal(o->rank, rank);
    assert_int_equal(o->world_size, world_size);
    assert_string_equal(o->name, name);
}

// A name in the kernel of this host.
static void assert_here(const join_options *o) {
    assert_int_equal(strncmp(o->master, "shm://here:", 11), 0);
    assert_int_equal(strlen(o->master), 11 + 16);
}

#define OPEN_MPI(rank, size, local_size)                                                           \
    "OMPI_COMM_WORLD_RANK=" rank, "OMPI_COMM_WORLD_SIZE=" size, "OMPI_COMM_WORLD_LOCAL_RANK=0",    \
        "OMPI_COMM_WORLD_LOCAL_SIZE=" local_size, "PMIX_NAMESPACE=1119420417"
#define SLURM(rank, size, nodes, list)                                                             \
    "SLURM_STEP_ID=0", "SLURM_JOB_ID=17", "SLURM_PROCID=" rank, "SLURM_STEP_NUM_TASKS=" size,      \
        "SLURM_LOCALID=1", "SLURM_STEP_NUM_NODES=" nodes, "SLURM_STEP_NODELIST=" list

static void it_understands_torchrun(void **state) {
    (void)state;
    join_options o = RESOLVE("RANK=1", "WORLD_SIZE=3", "LOCAL_RANK=1", "MASTER_ADDR=127.0.0.1",
                             "MASTER_PORT=29500", "TORCHELASTIC_RUN_ID=x");
    assert_place(&o, 1, 3);
    assert_string_equal(o.master, "127.0.0.1:29500");
    assert_string_equal(o.launch, "x");
}

static void it_understands_open_mpi(void **state) {
    (void)state;
    join_options a = RESOLVE(OPEN_MPI("0", "4", "4")), b = RESOLVE(OPEN_MPI("3", "4", "4"));
    assert_place(&a, 0, 4);
    assert_place(&b, 3, 4);
    assert_here(&a);
    assert_string_equal(a.master, b.master);
    assert_string_equal(a.launch, "1119420417");
    // Another job at the same time meets elsewhere.
    join_options c =
        RESOLVE(OPEN_MPI("0", "4", "4"), "OMPI_MCA_orte_precondition_transports=e0fd-1924");
    assert_here(&c);
    assert_string_not_equal(a.master, c.master);
}

static void several_hosts_of_open_mpi_need_the_name_of_one(void **state) {
    (void)state;
    REFUSE("MASTER_ADDR is not set, and the ranks are on several hosts (OMPI_COMM_WORLD_LOCAL_SIZE "
           "is 2, OMPI_COMM_WORLD_SIZE is 4): set it to the host of rank 0 with mpirun -x "
           "MASTER_ADDR=",
           OPEN_MPI("3", "4", "2"));
    // The port is made of the job's mark, and the same for all.
    join_options a = RESOLVE(OPEN_MPI("0", "4", "2"), "MASTER_ADDR=127.0.0.1");
    join_options b = RESOLVE(OPEN_MPI("3", "4", "2"), "MASTER_ADDR=127.0.0.1");
    assert_int_equal(strncmp(a.master, "127.0.0.1:2", 11), 0);
    assert_string_equal(a.master, b.master);
}

static void it_understands_pmi(void **state) {
    (void)state;
    int ends[2];
    char fd[32];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    snprintf(fd, sizeof fd, "PMI_FD=%d", ends[0]);
    join_options a = RESOLVE("PMI_RANK=0", "PMI_SIZE=2", "MPI_LOCALNRANKS=2", fd);
    assert_place(&a, 0, 2);
    assert_here(&a);
    snprintf(fd, sizeof fd, "PMI_FD=%d", ends[1]);
    join_options b = RESOLVE("PMI_RANK=1", "PMI_SIZE=2", "MPI_LOCALNRANKS=2", fd);
    assert_place(&b, 1, 2);
    assert_string_equal(a.master, b.master);
    assert_string_equal(a.launch, "");  // on another host it would be another one
    REFUSE("(MPI_LOCALNRANKS is 1, PMI_SIZE is 2): set the host of rank 0 and a port with mpiexec "
           "-genv MASTER_ADDR",
           "PMI_RANK=1", "PMI_SIZE=2", "MPI_LOCALNRANKS=1", fd);
    REFUSE("neither MASTER_ADDR nor MPI_LOCALNRANKS is set, although PMI_RANK is set", "PMI_RANK=1",
           "PMI_SIZE=2", fd);
    close(ends[0]);
    close(ends[1]);
}

static void it_understands_slurm(void **state) {
    (void)state;
    join_options a = RESOLVE(SLURM("2", "4", "1", "node7"));
    assert_string_equal(a.launch, "17.0");
    assert_place(&a, 2, 4);
    assert_here(&a);
    // Another step of the same allocation meets elsewhere.
    join_options b = RESOLVE("SLURM_STEP_ID=1", SLURM("2", "4", "1", "node7"));
    assert_string_not_equal(a.master, b.master);
    // The step's own size precedes the allocation's.
    join_options c = RESOLVE("SLURM_NTASKS=9", SLURM("2", "4", "1", "node7"));
    assert_place(&c, 2, 4);
    join_options d = RESOLVE("SLURM_STEP_ID=0", "SLURM_JOB_ID=17", "SLURM_PROCID=2",
                             "SLURM_NTASKS=9", "SLURM_STEP_NUM_NODES=1");
    assert_place(&d, 2, 9);
}

static void the_first_of_slurms_hosts_has_rank_0(void **state) {
    (void)state;
    static const char *const lists[][2] = {
        { "node7", "node7" },
        { "node[03-12,15],other", "node03" },
        { "a,b", "a" },
        { "rack[2-3]n[1,4].site", "rack2n1.site" },
        { "gpu-1.site,gpu-2", "gpu-1.site" },
    };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        char list[64];
        snprintf(list, sizeof list, "SLURM_JOB_NODELIST=%s", lists[i][0]);
        environment = (const char *const[]){ "SLURM_STEP_ID=0",
                                             "SLURM_JOB_ID=17",
                                             "SLURM_PROCID=3",
                                             "SLURM_STEP_NUM_TASKS=4",
                                             list,
                                             NULL };
        environment_master m;
        gw_error error;
        assert_int_equal(environment_master_of(look_up, 3, 4, &m, &error), GW_OK);
        assert_string_equal(m.host, lists[i][1]);
        assert_in_range(strtol(m.port, NULL, 10), 20000, 29999);
    }
    REFUSE("SLURM_STEP_NODELIST is \"node[\", which does not begin with a host",
           SLURM("2", "4", "2", "node["));
    REFUSE("SLURM_STEP_NODELIST is \"node[1\", which", SLURM("2", "4", "2", "node[1"));
    REFUSE("neither SLURM_STEP_NODELIST nor MASTER_ADDR", "SLURM_STEP_ID=0", "SLURM_JOB_ID=17",
           "SLURM_PROCID=3", "SLURM_NTASKS=4");
}

static void a_batch_script_is_no_rank(void **state) {
    (void)state;
    REFUSE("SLURM_PROCID is set, but SLURM_STEP_ID is not: start the program by srun",
           "SLURM_PROCID=0", "SLURM_NTASKS=4", "SLURM_JOB_ID=17");
}

static void it_understands_indexed_jobs_of_kubernetes(void **state) {
    (void)state;
    join_options o = RESOLVE("JOB_COMPLETION_INDEX=2", "WORLD_SIZE=3", "MASTER_ADDR=127.0.0.1");
    assert_place(&o, 2, 3);
    assert_string_equal(o.master, "127.0.0.1:29500");
    o = RESOLVE("JOB_COMPLETION_INDEX=2", "WORLD_SIZE=3", "MASTER_ADDR=127.0.0.1",
                "MASTER_PORT=1234");
    assert_string_equal(o.master, "127.0.0.1:1234");
    REFUSE("no world size was given: WORLD_SIZE is not set, although JOB_COMPLETION_INDEX is set",
           "JOB_COMPLETION_INDEX=2");
    REFUSE("MASTER_ADDR is not set, although JOB_COMPLETION_INDEX is set: set it in the manifest "
           "to the pod",
           "JOB_COMPLETION_INDEX=2", "WORLD_SIZE=3");
}

static void contradicting_variables_are_named(void **state) {
    (void)state;
    REFUSE("RANK is 1, but SLURM_PROCID is 2", "RANK=1", "MASTER_ADDR=127.0.0.1",
           SLURM("2", "4", "1", "n"));
    REFUSE("WORLD_SIZE is 8, but OMPI_COMM_WORLD_SIZE is 4", "WORLD_SIZE=8", "RANK=3",
           OPEN_MPI("3", "4", "4"));
    REFUSE("RANK is 0, but JOB_COMPLETION_INDEX is 2", "RANK=0", "WORLD_SIZE=3",
           "JOB_COMPLETION_INDEX=2");
    REFUSE("rank 4 is out of range for world size 4 (OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE)",
           OPEN_MPI("4", "4", "4"));
    REFUSE("rank 5 is out of range for world size 2 (RANK, WORLD_SIZE)", "RANK=5", "WORLD_SIZE=2");
    REFUSE("no world size was given: PMI_SIZE is not set, although PMI_RANK is set", "PMI_RANK=1");
    REFUSE("PMI_RANK is \"first\", but must be a number", "PMI_RANK=first", "PMI_SIZE=2");
    REFUSE("the world size is 0, but must be 1 to 4096 (PMI_SIZE)", "PMI_RANK=0", "PMI_SIZE=0");
    REFUSE("(OMPI_COMM_WORLD_RANK, PMI_RANK, SLURM_PROCID, JOB_COMPLETION_INDEX)", "HOME=/");
    char host[300] = "MASTER_ADDR=";
    memset(host + strlen(host), 'x', 200);
    REFUSE("which is too long", "RANK=0", "WORLD_SIZE=2", host);
}

// srun gradwire run ..., mpirun torchrun ...: the inner one has set RANK.
static void an_inner_launcher_takes_precedence(void **state) {
    (void)state;
    join_options o = RESOLVE("RANK=5", "WORLD_SIZE=8", "GRADWIRE_JOB=abc", "MASTER_ADDR=127.0.0.1",
                             "MASTER_PORT=29500", SLURM("1", "2", "2", "n[1-2]"));
    assert_place(&o, 5, 8);
    assert_string_equal(o.master, "127.0.0.1:29500");
    // A shell that srun has started, alone.
    o = RESOLVE("RANK=5", "WORLD_SIZE=8", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=29500",
                SLURM("0", "1", "1", "n1"));
    assert_place(&o, 5, 8);
    // mpirun within an allocation of Slurm, whose daemon is a step of its own.
    o = RESOLVE(OPEN_MPI("3", "4", "4"), SLURM("0", "1", "1", "n1"));
    assert_place(&o, 3, 4);
}

// Slurm's own PMI has no address of rank 0, but Slurm has.
static void one_launch_may_match_two_rows(void **state) {
    (void)state;
    join_options o = RESOLVE("PMI_RANK=2", "PMI_SIZE=4", SLURM("2", "4", "1", "n1"));
    assert_place(&o, 2, 4);
    assert_here(&o);
}

static void given_values_precede_those_of_launchers(void **state) {
    (void)state;
    join_options o = RESOLVE(OPEN_MPI("3", "4", "4"), "MASTER_ADDR=127.0.0.1", "MASTER_PORT=29500");
    assert_string_equal(o.master, "127.0.0.1:29500");
    o = RESOLVE(OPEN_MPI("3", "4", "4"), "MASTER_PORT=29500");
    assert_string_equal(o.master, "127.0.0.1:29500");
    o = RESOLVE(OPEN_MPI("3", "4", "4"), "RANK=3");
    assert_place(&o, 3, 4);
    // Where shared memory is not wanted, a port of this host.
    o = RESOLVE(OPEN_MPI("3", "4", "4"), "GW_TRANSPORT=tcp");
    assert_int_equal(strncmp(o.master, "127.0.0.1:2", 11), 0);
}

static void a_program_may_query_before_it_joins(void **state) {
    (void)state;
    environment = (const char *const[]){ "HOME=/", NULL };
    gw_launch l = environment_launch(look_up);
    assert_int_equal(l.rank, -1);
    assert_int_equal(l.world_size, -1);
    environment = (const char *const[]){ OPEN_MPI("3", "4", "4"), NULL };
    l = environment_launch(look_up);
    assert_int_equal(l.rank, 3);
    assert_int_equal(l.world_size, 4);
    assert_int_equal(l.local_rank, 0);
    assert_int_equal(l.attempt, 0);
    assert_false(l.creates);
    environment = (const char *const[]){ "RANK=1", "TORCHELASTIC_RESTART_COUNT=2", NULL };
    assert_int_equal(environment_launch(look_up).attempt, 2);
    environment = (const char *const[]){ "RANK=0", "TORCHELASTIC_RESTART_COUNT=2", NULL };
    assert_true(environment_launch(look_up).creates);
    environment = (const char *const[]){ "RANK=0", "GW_ELASTIC_CREATE=0", NULL };
    assert_false(environment_launch(look_up).creates);
    environment = (const char *const[]){ "RANK=0", "GW_ELASTIC_CREATE=1", NULL };
    assert_true(environment_launch(look_up).creates);
    environment = (const char *const[]){ "RANK=1", "TORCHELASTIC_RESTART_COUNT=-2", NULL };
    assert_int_equal(environment_launch(look_up).attempt, 0);
    environment =
        (const char *const[]){ "RANK=1", "LOCAL_RANK=x", SLURM("2", "4", "1", "n1"), NULL };
    l = environment_launch(look_up);
    assert_int_equal(l.rank, 1);
    assert_int_equal(l.world_size, -1);
    assert_int_equal(l.local_rank, -1);
}

GW_TESTS(agent_environment, it_understands_torchrun, it_understands_open_mpi,
         several_hosts_of_open_mpi_need_the_name_of_one, it_understands_pmi, it_understands_slurm,
         the_first_of_slurms_hosts_has_rank_0, a_batch_script_is_no_rank,
         it_understands_indexed_jobs_of_kubernetes, contradicting_variables_are_named,
         an_inner_launcher_takes_precedence, one_launch_may_match_two_rows,
         given_values_precede_those_of_launchers, a_program_may_query_before_it_joins);
