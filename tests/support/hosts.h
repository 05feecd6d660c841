// Hosts on one machine: network namespaces with a link each into a common bridge.
//
//     hosts *net = hosts_open((hosts_options){ .count = 2 });
//     launched a = hosts_launch(net, 0, "MASTER_ADDR=%s ./train", hosts_address(net, 0));
//     hosts_plug(net, 1, false);    // somebody pulls the cable
//
// A namespace has no name, and is held by descriptors of the test alone, so that nothing stays behind however the test ends.
// Where the kernel does not allow it (no root, no user namespaces, no `ip`), the test counts as skipped.
//
// Nothing that hosts do leaves them: they have no way out of their bridge. They share files, processes and clocks.
#ifndef TESTS_HOSTS_H
#define TESTS_HOSTS_H

#include "launched.h"

enum { HOSTS_MAX = 8 };

typedef struct hosts hosts;

typedef struct hosts_options {
    int count;
    int mtu;         // 0: 1500
    int rate_mbit;   // of each link, both ways, by tbf; 0: what the machine gives
    bool ipv6_only;  // else both
} hosts_options;

hosts *hosts_open(hosts_options options);
void hosts_close(hosts *h);

// "10.77.0.1", or "fd77::1" where there is nothing else.
const char *hosts_address(const hosts *h, int host);

// A command of the shell on that host, in the folder of our programs.
launched hosts_launch(hosts *h, int host, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// A process on that host, as by fork.
pid_t hosts_fork(hosts *h, int host);

// gradwire run on |host|, one of the first |count|, which meet at the first: |ranks| of each. |what|: the rest of its command
// line.
launched hosts_launch_run(hosts *h, int host, int count, int ranks, const char *what);

// The cable of that host. Without it the host sees that its link is down, as others do not.
void hosts_plug(hosts *h, int host, bool in);

// Something farther away: frames are lost, one way or both, and nobody is told.
typedef enum hosts_way {
    HOSTS_FROM = 1,  // what it sends
    HOSTS_TO = 2,    // what it is sent
    HOSTS_BOTH = 3,
} hosts_way;

void hosts_cut(hosts *h, int host, hosts_way ways);
void hosts_heal(hosts *h, int host, hosts_way ways);

// One more IPv4 address of that host, of no use to the others: who listens there can connect to them, and they cannot to it. It
// is valid until the next call.
const char *hosts_add_one_way(hosts *h, int host);

#endif
