// Streams of the simulator whose bytes go through memory: the functions that sim_stream.c calls.
#ifndef TESTING_SIM_RINGS_H
#define TESTING_SIM_RINGS_H

#include "net/shm/ring.h"
#include "testing/sim_net.h"

bool sim_rings_open(sim_stream *client, sim_stream *server);  // false without memory
void sim_rings_close(sim_stream *c);
void sim_rings_lose(sim_stream *c);  // some of the written bytes do not arrive any more

size_t sim_rings_send(sim_stream *c, const struct iovec *parts, int count);
bool sim_rings_have_room(sim_stream *c);  // if not, the user is notified once it has

// Polls for bytes, and falls asleep or polls again later. True: it has ended, and all has been read.
bool sim_rings_poll(sim_stream *c);

#endif
