// SIGTERM: asks this process to leave its elastic jobs. Taken only if neither the program nor its parent has changed what
// the signal does, and given back when the last job that has taken it closes.
#include "elastic/elastic.h"

#include "base/process_lock.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>

static atomic_bool has_arrived;               // lock-free: written in the handler
PROCESS_LOCK(lock, PROCESS_LOCK_LEAF, NULL);  // of |takers|
static int takers;

static sem_t arrivals;  // a handler may post it
static void (*notify)(void);

// A second signal ends the process. Set here and not by SA_RESETHAND, which ThreadSanitizer does not report.
static void arrived(int number) {
    signal(number, SIG_DFL);
    atomic_store(&has_arrived, true);
    sem_post(&arrivals);
}

// A handler can wake no waiting thread itself. Sleeps until a signal arrives, and until the process ends.
static void *watch(void *arg) {
    (void)arg;
    for (;;)
        if (!sem_wait(&arrivals)) notify();
    return NULL;
}

// Without a thread gw_elastic_begin still observes the request.
static void begin_watch(void) {
    pthread_t thread;
    sigset_t every, before;
    sem_init(&arrivals, 0, 0);
    sigfillset(&every);
    pthread_sigmask(SIG_SETMASK, &every, &before);
    if (!pthread_create(&thread, NULL, watch, NULL)) pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static bool set_handler(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct sigaction old, new = { .sa_handler = arrived, .sa_flags = SA_RESTART };
    if (sigaction(SIGTERM, NULL, &old) || (old.sa_flags & SA_SIGINFO) || old.sa_handler != SIG_DFL)
        return false;
    pthread_once(&once, begin_watch);
    sigemptyset(&new.sa_mask);
    return sigaction(SIGTERM, &new, NULL) == 0;
}

bool term_take(void (*on_arrival)(void)) {
    process_lock_take(&lock);
    notify = on_arrival;
    bool takes = takers > 0 || set_handler();
    takers += takes;
    process_lock_release(&lock);
    return takes;
}

// A handler that the program has set meanwhile stays.
void term_give_back(void) {
    struct sigaction now;
    process_lock_take(&lock);
    bool is_last = --takers == 0;
    bool is_ours = is_last && sigaction(SIGTERM, NULL, &now) == 0 && !(now.sa_flags & SA_SIGINFO) &&
                   now.sa_handler == arrived;
    if (is_ours) signal(SIGTERM, SIG_DFL);
    if (is_last) atomic_store(&has_arrived, false);
    process_lock_release(&lock);
}

bool term_has_arrived(void) {
    return atomic_load(&has_arrived);
}
