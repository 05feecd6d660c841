// Plays the CartPole example's agent for a few episodes, as its main program does, without a terminal.
#ifndef CARTPOLE_PLAY_H
#define CARTPOLE_PLAY_H

#include <gradwire.h>
#include <stdio.h>

// Writes one line for each episode: steps, reward and running reward to the last bit.
void cartpole_play(gw_scope *root, int episodes, FILE *out);

#endif
