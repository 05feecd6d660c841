// Tests of jobs that another launcher has started: mpirun, mpiexec, srun. Each function is a test of one of them.
//
//     other_launcher_computes_the_same("exec srun");
//
// |start| is the command before -n.
#ifndef TESTS_OTHER_LAUNCHERS_H
#define TESTS_OTHER_LAUNCHERS_H

// The output and exit code of an example are those of `gradwire run`.
void other_launcher_computes_the_same(const char *start);

// Two jobs of one user on one host find their own ranks.
void other_launcher_keeps_jobs_apart(const char *start);

// A rank that a shell starts again joins the elastic job as its next attempt.
void other_launcher_heals(const char *start);

#endif
