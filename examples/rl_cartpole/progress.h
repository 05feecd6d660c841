// Progress of the agent: the tutorial's lines, a live line on a terminal, and a learning curve as SVG.
#ifndef PROGRESS_H
#define PROGRESS_H

#include <stdbool.h>
#include <stdio.h>

typedef struct progress {
    FILE *out;
    bool live;  // |out| is a terminal
    double threshold;
    double started_s, shown_s;
    long long steps;         // taken by all observers so far
    double *last, *running;  // reward of each episode, and the running reward after it
    int count, capacity;
} progress;

void progress_open(progress *p, FILE *out, double threshold);
void progress_close(progress *p);

// Called after each episode. |print_line|: prints the tutorial's line.
void progress_episode(progress *p, int steps, double last_reward, double running_reward,
                      bool print_line);

// Draws both curves over the episodes. Returns false, with errno, if the file could not be written.
bool progress_plot(const progress *p, const char *path);

#endif
