// SIGTERM: asks this process to leave its elastic jobs. Taken only if neither the program nor its parent has changed what
// the signal does, and given back when the last job that has taken it closes.
#include "elastic/elastic.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

static atomic_bool has_arrived;                           // lock-free: written in the handler
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;  // a leaf, of |takers|
static int takers;

// A second signal ends the process. Set here and not by SA_RESETHAND, which ThreadSanitizer does not report.
static void arrived(int number) {
    signal(number, SIG_DFL);
    atomic_store(&has_arrived, true);
}

static bool set_handler(void) {
    struct sigaction old, new = { .sa_handler = arrived, .sa_flags = SA_RESTART };
    if (sigaction(SIGTERM, NULL, &old) || (old.sa_flags & SA_SIGINFO) || old.sa_handler != SIG_DFL)
        return false;
    sigemptyset(&new.sa_mask);
    return sigaction(SIGTERM, &new, NULL) == 0;
}

bool term_take(void) {
    pthread_mutex_lock(&lock);
    bool takes = takers > 0 || set_handler();
    takers += takes;
    pthread_mutex_unlock(&lock);
    return takes;
}

// A handler that the program has set meanwhile stays.
void term_give_back(void) {
    struct sigaction now;
    pthread_mutex_lock(&lock);
    bool is_last = --takers == 0;
    bool is_ours = is_last && sigaction(SIGTERM, NULL, &now) == 0 && !(now.sa_flags & SA_SIGINFO) &&
                   now.sa_handler == arrived;
    if (is_ours) signal(SIGTERM, SIG_DFL);
    if (is_last) atomic_store(&has_arrived, false);
    pthread_mutex_unlock(&lock);
}

bool term_has_arrived(void) {
    return atomic_load(&has_arrived);
}
