// Workers report to the process that has started them which workers they have declared dead after silence
// (docs/protocol/launcher.md).
//
//     int deaths = deaths_open();     // before the workers are started
//     ...                                 // once it can be read:
//     for (pid_t dead; (dead = deaths_take(deaths)) > 0;) kill(dead, SIGKILL);
#ifndef DEATHS_H
#define DEATHS_H

#include <sys/types.h>

int deaths_open(void);      // a descriptor; -1: there will be no reports
pid_t deaths_take(int fd);  // 0: no report is pending
#endif
