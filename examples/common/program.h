// The whole of a program around its work: command line, workers, agent, curve and verdict.
//
//     static int64_t epochs = 30;
//     static curve progress = { .options = { .title = "test accuracy", .x_label = "epoch", .of = &epochs, .goal = 0.97 } };
//
//     static void work(gw_scope *root) {                       // on each worker
//         for (int64_t epoch = 0; epoch < epochs && gw_ok(root); epoch++) curve_put(&progress, learn(root));
//     }
//
//     int main(int argc, char **argv) {
//         return program_main(argc, argv, work, &progress, .about = "Learns digits.",
//                             .flags = { { "epochs", "N", "of training", .integer = &epochs, .min = 1, .max = 1000 } });
//     }
#ifndef PROGRAM_H
#define PROGRAM_H

#include "curve.h"
#include "flags.h"

#include <gradwire.h>

enum { PROGRAM_FLAGS_MAX = 12, PROGRAM_MISSED = 3 };

typedef struct program {
    void (*work)(gw_scope *root);  // of each worker; |root| has an agent
    curve *progress;               // has its options; opened on each worker
    int reporter;       // the rank that shows and draws it, and by whom its goal is judged
    const char *about;  // for --help, which adds what the exit codes mean
    flag flags[PROGRAM_FLAGS_MAX];  // of its own, besides --world-size and --plot

    // How many workers to make, if no launcher has started this process as one of them.
    int64_t workers, workers_min;  // unless --world-size says otherwise: 2; at least: 1
    bool exactly;                  // neither more nor less
    const char *who;               // they are, for who starts too few or too many
    const char *const *names;      // up to a NULL, the last one for all further; NULL: worker%d
} program;

// program_main(argc, argv, work, progress, .about = "...", ...): the exit code, 0 once the goal is
// reached, PROGRAM_MISSED if not, 1 after an error, 2 with one sentence for a wrong option.
#define program_main(argc, argv, ...) program_run(argc, argv, &(program){ __VA_ARGS__ })
int program_run(int argc, char **argv, const program *p);

// Says what else has not been reached.
void program_miss(const char *format, ...) GW_PRINTF(1, 2);

#endif
