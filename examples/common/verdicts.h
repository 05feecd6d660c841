// Whom the workers of this program have declared dead, since they were silent: they tell who has
// started them (docs/protocol/launcher.md).
//
//     int verdicts = verdicts_open();     // before the workers are started
//     ...                                 // once it can be read:
//     for (pid_t dead; (dead = verdicts_take(verdicts)) > 0;) kill(dead, SIGKILL);
#ifndef VERDICTS_H
#define VERDICTS_H

#include <sys/types.h>

int verdicts_open(void);      // a descriptor; -1: there will be none
pid_t verdicts_take(int fd);  // 0: there is none now
#endif
