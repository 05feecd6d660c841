// A real Slurm on this host, of the test's own: munged, slurmctld and slurmd in its folder and on its ports, and srun,
// which starts programs of gradwire. `make clusters` installs it; elsewhere these tests are skipped.
#include "../support/launched.h"
#include "../support/other_launchers.h"
#include "testing/testing.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DAEMONS = 3 };

typedef struct slurm {
    path folder;
    pid_t daemons[DAEMONS];
} slurm;

static void write_file(const slurm *s, const char *name, const char *text) {
    path file = in_folder(s->folder, name);
    FILE *f = fopen(file.text, "we");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    fclose(f);
}

// One node: this host, with more task slots than processors.
static void configure(const slurm *s, const char *host) {
    char text[4096];
    const char *at = s->folder.text;
    snprintf(text, sizeof text,
             "ClusterName=gradwire\nSlurmctldHost=%s(127.0.0.1)\nSlurmUser=root\nSlurmdUser=root\n"
             "AuthType=auth/munge\nAuthInfo=socket=%s/munge.socket\nCredType=cred/munge\n"
             "SlurmctldPort=%d\nSlurmdPort=%d\nStateSaveLocation=%s\nSlurmdSpoolDir=%s\n"
             "SlurmctldPidFile=%s/slurmctld.pid\nSlurmdPidFile=%s/slurmd.pid\n"
             "SlurmctldLogFile=%s/slurmctld.log\nSlurmdLogFile=%s/slurmd.log\n"
             "ProctrackType=proctrack/pgid\nTaskPlugin=task/none\nSchedulerType=sched/builtin\n"
             "SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\n"
             "JobAcctGatherType=jobacct_gather/none\n"
             "AccountingStorageType=accounting_storage/none\nSwitchType=switch/none\n"
             "MpiDefault=none\nReturnToService=2\nSlurmdParameters=config_overrides\n"
             "NodeName=%s NodeAddr=127.0.0.1 CPUs=16 State=UNKNOWN\n"
             "PartitionName=all Nodes=%s Default=YES MaxTime=INFINITE State=UP\n",
             host, at, testing_free_port(), testing_free_port(), at, at, at, at, at, at, host,
             host);
    write_file(s, "slurm.conf", text);
}

// Kills this process's children, and those that it adopts from them.
static void end_children(void) {
    char at[64];
    snprintf(at, sizeof at, "/proc/self/task/%d/children", (int)getpid());
    for (bool is_any = true; is_any;) {
        FILE *children = fopen(at, "re");
        int pid;
        for (is_any = false; children && fscanf(children, "%d", &pid) == 1; is_any = true) {
            kill(pid, SIGKILL);
            waitpid(pid, NULL, 0);
        }
        if (children) fclose(children);
    }
}

static void end_all(int signal_number) {
    (void)signal_number;
    end_children();
    _exit(0);
}

// A daemon leaves processes behind that outlive it, such as slurmstepd: a common parent waits for each, and ends them
// with itself.
_Noreturn static void keep_daemon(const char *command) {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    signal(SIGTERM, end_all);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    pid_t daemon = fork();
    if (daemon == 0) {
        signal(SIGTERM, SIG_DFL);
        execl("/bin/sh", "sh", "-c", command, NULL);
        _exit(127);
    }
    for (pid_t ended; (ended = waitpid(-1, NULL, 0)) != daemon && ended > 0;) {
    }
    end_children();
    _exit(0);
}

static pid_t start_daemon(const slurm *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static pid_t start_daemon(const slurm *s, const char *format, ...) {
    char command[1024];
    size_t at = (size_t)snprintf(command, sizeof command, "cd %s && exec ", s->folder.text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command + at, sizeof command - at, format, arguments);
    va_end(arguments);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) keep_daemon(command);
    return pid;
}

static void await_success(const slurm *s, int daemon, const char *command) {
    while (system(command)) {
        if (waitpid(s->daemons[daemon], NULL, WNOHANG)) fail_msg("Slurm has ended: %s", command);
        poll(NULL, 0, 100);
    }
}

static slurm open_slurm(void) {
    static const char *const programs[] = { "munged", "slurmctld", "slurmd", "srun", "sinfo" };
    char host[64], command[600];
    if (!getenv("GW_CLUSTERS")) testing_skip("make clusters runs it");
    if (geteuid() != 0) testing_skip("only root can be a Slurm");
    for (int i = 0; i < 5; i++)
        if (!has_program(programs[i]))
            testing_skip("Slurm is not installed: scripts/setup clusters");
    slurm s = { .folder = make_folder() };
    assert_int_equal(gethostname(host, sizeof host), 0);
    host[strcspn(host, ".")] = '\0';
    configure(&s, host);
    snprintf(command, sizeof command, "%s/slurm.conf", s.folder.text);
    setenv("SLURM_CONF", command, 1);
    snprintf(command, sizeof command,
             "cd %s && head -c 1024 /dev/urandom > munge.key && chmod 600 munge.key",
             s.folder.text);
    assert_int_equal(system(command), 0);
    s.daemons[0] = start_daemon(&s, "munged -F --force --key-file=$PWD/munge.key "
                                    "--socket=$PWD/munge.socket --pid-file=$PWD/munged.pid "
                                    "--log-file=$PWD/munged.log --seed-file=$PWD/munged.seed 2>&1");
    snprintf(command, sizeof command, "test -S %s/munge.socket", s.folder.text);
    await_success(&s, 0, command);
    s.daemons[1] = start_daemon(&s, "slurmctld -D -i >/dev/null 2>&1");
    await_success(&s, 1, "sinfo >/dev/null 2>&1");
    s.daemons[2] = start_daemon(&s, "slurmd -D -N %s >/dev/null 2>&1", host);
    await_success(&s, 2, "sinfo -h -o %T | grep -q idle");
    return s;
}

static void close_slurm(slurm *s) {
    for (int i = DAEMONS - 1; i >= 0; i--) {
        kill(s->daemons[i], SIGTERM);
        waitpid(s->daemons[i], NULL, 0);
    }
    remove_folder(s->folder);
}

static void srun_computes_the_same(void **state) {
    (void)state;
    slurm s = open_slurm();
    other_launcher_computes_the_same("exec srun");
    close_slurm(&s);
}

static void srun_starts_four_ranks(void **state) {
    (void)state;
    slurm s = open_slurm();
    result r = finish(launch_command("exec srun -n 4 ./hello"));
    testing_note("%s%s", r.out, r.err);
    assert_int_equal(r.code, 0);
    assert_string_equal(r.out, "tensor([ 6., 12., 18.])\n");
    forget(r);
    r = finish(launch_command("GW_TRANSPORT=tcp exec srun -n 4 ./hello"));
    assert_int_equal(r.code, 0);
    forget(r);
    close_slurm(&s);
}

static void steps_at_once_do_not_mix(void **state) {
    (void)state;
    slurm s = open_slurm();
    other_launcher_keeps_jobs_apart("exec srun");
    close_slurm(&s);
}

static void a_task_that_starts_again_joins_its_job(void **state) {
    (void)state;
    slurm s = open_slurm();
    other_launcher_heals("srun --kill-on-bad-exit=0");
    close_slurm(&s);
}

// A batch script is no rank, and srun in it starts some.
static void a_batch_script_is_no_rank(void **state) {
    (void)state;
    slurm s = open_slurm();
    path script = in_folder(s.folder, "job.sh"), out = in_folder(s.folder, "job.out");
    write_file(&s, "job.sh", "#!/bin/sh\nsrun -n 2 ./hello\n./gradwire run -n 2 ./hello\n");
    result r = finish(launch_command("exec sbatch --wait -n 2 -o %s %s", out.text, script.text));
    testing_note("%s%s", r.out, r.err);
    assert_int_equal(r.code, 0);
    forget(r);
    r = finish(launch_command("cat %s", out.text));
    testing_note("%s", r.out);
    assert_string_equal(r.out, "tensor([ 6., 12., 18.])\n[0] tensor([ 6., 12., 18.])\n");
    forget(r);
    close_slurm(&s);
}

GW_TESTS_WITH_LIMIT(clusters_slurm, 120, srun_starts_four_ranks, srun_computes_the_same,
                    steps_at_once_do_not_mix, a_task_that_starts_again_joins_its_job,
                    a_batch_script_is_no_rank);
