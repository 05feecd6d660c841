// Hosts on one machine: network namespaces with a link each into a common bridge.
//
//     hosts *net = hosts_open((hosts_options){ .count = 2 });
//     launched a = hosts_launch(net, 0, "MASTER_ADDR=%s ./train", hosts_address(net, 0));
//     hosts_plug(net, 1, false);    // the cable is pulled
//
// A namespace has no name, and is held by descriptors of the test alone, so that nothing remains however the test ends.
// Where the kernel does not allow it (no root, no user namespaces, no `ip`), the test counts as skipped.
//
// Hosts cannot reach anything outside their bridge. They share files, processes and clocks.
#ifndef TESTS_HOSTS_H
#define TESTS_HOSTS_H

#include "launched.h"

enum { HOSTS_MAX = 8 };

typedef struct hosts hosts;

typedef struct hosts_options {
    int count;
    int mtu;         // 0: 1500
    int rate_mbit;   // of each link, both ways, by tbf; 0: the rate of the machine
    bool ipv6_only;  // else both
} hosts_options;

hosts *hosts_open(hosts_options options);
void hosts_close(hosts *h);

// "10.77.0.1", or "fd77::1" with IPv6 only.
const char *hosts_address(const hosts *h, int host);

// Starts a command of the shell on that host, in the folder of our programs.
launched hosts_launch(hosts *h, int host, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Starts a process on that host, as by fork.
pid_t hosts_fork(hosts *h, int host);

// Starts gradwire run on |host|, one of the first |count|, with the first as the endpoint: |ranks| of each.
// |arguments|: the rest of its command line.
launched hosts_launch_run(hosts *h, int host, int count, int ranks, const char *arguments);

// Plugs or pulls the cable of that host. Without it the host itself has an event that its link is down; the others have
// none.
void hosts_plug(hosts *h, int host, bool in);

// A fault farther away: frames are lost, one way or both, without an event on any host.
typedef enum hosts_way {
    HOSTS_FROM = 1,  // frames from it
    HOSTS_TO = 2,    // frames to it
    HOSTS_BOTH = 3,
} hosts_way;

void hosts_cut(hosts *h, int host, hosts_way ways);
void hosts_heal(hosts *h, int host, hosts_way ways);

// Adds an IPv4 address to that host that the others cannot reach: a worker with this address can connect to them, and
// they cannot to it. It is valid until the next call.
const char *hosts_add_one_way(hosts *h, int host);

#endif
