// Signals as events: blocked, and read one by one by the launcher's loop. Ranks get back what the
// launcher was given.
#ifndef GRADWIRE_SIGNALS_H
#define GRADWIRE_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

// What a signal to the launcher is for.
typedef enum signal_duty {
    DUTY_NONE,
    DUTY_CHILD,   // a child has ended
    DUTY_END,     // the job is to end
    DUTY_PAUSE,   // the job is to stop for a while, and so is the launcher
    DUTY_RESUME,  // the job is to continue
    DUTY_USER,    // --on-signal
} signal_duty;

typedef struct signals {
    int fd;  // readable when a signal waits
    // as they were before
    sigset_t old_mask;
    struct sigaction old_actions[3];
} signals;

bool signals_open(signals *s);  // false, with errno
void signals_close(signals *s);

// Takes a pending signal; DUTY_NONE when there is none.
signal_duty signals_take(signals *s, int *out_signal);

// True if one of DUTY_END waits, which is left where it is.
bool signals_end_waits(void);

// In the child that becomes a rank: everything as the launcher was given it.
void signals_restore(const signals *s);

// The signal that ends the ranks when the launcher has received |signal_number|.
int signals_to_ranks(int signal_number);

// "SIGINT"
const char *signals_name(int signal_number);

#endif
