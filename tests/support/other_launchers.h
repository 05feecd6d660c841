// What jobs do that a launcher of others has started: mpirun, mpiexec, srun. Each function is a test of one of them.
//
//     other_launcher_computes_the_same("exec srun");
//
// |start| is what comes before -n.
#ifndef TESTS_OTHER_LAUNCHERS_H
#define TESTS_OTHER_LAUNCHERS_H

// What an example computes, and how it ends, is what `gradwire run` has.
void other_launcher_computes_the_same(const char *start);

// Two jobs of one user on one host find their own ranks.
void other_launcher_keeps_jobs_apart(const char *start);

#endif
