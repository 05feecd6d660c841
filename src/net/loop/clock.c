// Kernel helpers of this folder: the monotonic clock and threads without signals.
#include "net/loop/loop.h"

#include <time.h>

int64_t os_now_ns(env *e) {
    (void)e;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

// Signals are the program's own; its handlers do not run on our threads.
int os_create_thread(pthread_t *out, void *(*run)(void *), void *arg) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(out, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}
