// A whole program around its work function: command line, workers, agent, curve and exit code.
#ifndef PROGRAM_H
#define PROGRAM_H

#include "curve.h"
#include "flags.h"

#include <gradwire.h>

enum { PROGRAM_FLAGS_MAX = 12, PROGRAM_MISSED = 3 };

typedef struct program {
    void (*work)(gw_scope *root);   // of each worker; |root| has an agent
    curve *progress;                // has its options; opened on each worker
    int reporter;                   // the rank that shows and draws it, and checks its goal
    const char *about;              // for --help, which adds the exit codes
    flag flags[PROGRAM_FLAGS_MAX];  // of its own, besides --world-size and --plot

    // Number of workers that the program starts, if no launcher has started it.
    int64_t workers, workers_min;  // default of --world-size, 0: 2; at least: 1
    bool exactly;                  // neither more nor less
    const char *roles;             // of the workers, for the error about too few or too many
    const char *const *names;      // up to a NULL, the last one for all further; NULL: worker%d

    // With the flag --elastic, if it has one, and under a launcher, |work| joins the job and leaves it, by gw_elastic_open
    // and gw_elastic_close. A worker that was too late to join has no curve, and misses no goal.
    // The same always; and the program starts its workers by `gradwire run`, which starts failed ones again so many
    // times. 0: it starts them itself.
    int restarts;
} program;

// program_main(argc, argv, work, progress, .about = "...", ...): the exit code, 0 once the goal is reached,
// PROGRAM_MISSED if not, 1 after an error, 2 with one line for a wrong option.
#define program_main(argc, argv, ...) program_run(argc, argv, &(program){ __VA_ARGS__ })
int program_run(int argc, char **argv, const program *p);

// The values of a curve, which |context| points to, as state of an elastic job: a member that joins gets them.
gw_map *curve_save(gw_scope *s, void *context);
void curve_load(gw_scope *s, void *context, gw_map *state);

// Prints a goal that was missed; the exit code becomes PROGRAM_MISSED.
void program_miss(const char *format, ...) GW_PRINTF(1, 2);

#endif
