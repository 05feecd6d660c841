// Planted bugs: rules of the protocols that a build for tests can leave out, one at a time, to see that the simulator
// notices. In the library each is the constant false.
//
//     if (!planted(PLANTED_NO_TOMBSTONE)) remember(id);
//
// The environment variable GW_PLANTED_BUG names the one that is in force: the constant's name in small letters,
// "no_tombstone". A new bug is a line here, one in planted.c, and a site.
//
// Threads: chosen before main.
#ifndef BASE_PLANTED_H
#define BASE_PLANTED_H

#include <stdbool.h>

typedef enum planted_bug {
    PLANTED_NONE,

    // membership and sessions
    PLANTED_NO_FENCING,   // what a member says after it was declared dead is listened to
    PLANTED_WALL_CLOCK,   // liveness is judged by the clock on the wall, which may step
    PLANTED_NO_MAJORITY,  // who is cut off from most of the others declares them dead
    PLANTED_NO_PROBES,    // a member that one other does not hear is dead, whoever else hears it
    PLANTED_RESEND_LOST,  // what a broken connection had under way is not sent again
    PLANTED_DUPLICATE_FRAME,  // a frame that came before is received once more

    // calls
    PLANTED_REPLY_NOT_DEDUPLICATED,  // a second reply completes a call again
    PLANTED_CANCEL_IGNORED,          // what a cancelled call has called goes on
    PLANTED_LOST_WAKE_UP,            // who waits is not told of what came while it began to wait

    // references
    PLANTED_NO_TOMBSTONE,          // a value that is gone is not remembered as such
    PLANTED_INSERT_IF_ABSENT,      // a late fork request lists a holder that has given back
    PLANTED_RELEASE_BEFORE_CHILD,  // the parent gives back before its child is accepted
    PLANTED_ACCEPT_BEFORE_ACK,     // the child accepts before the owner has listed it
    PLANTED_GIVE_UP,               // what has failed to be sent five times is given up
    PLANTED_KEEP_DEAD_FORKS,       // the forks of a lost worker stay listed

    // passes
    PLANTED_GRADIENT_TWICE,       // what comes for a slot behind the first is added twice
    PLANTED_PASS_BEGINS_AGAIN,    // at a late gradient, when it is over
    PLANTED_SETTLED_BEFORE_DONE,  // a pass has succeeded when its initiator has all it waits for
    PLANTED_FAILED_SETTLED,  // who passes on that passes have ended does not say which have failed

    // optimizer steps
    PLANTED_STEP_NOT_ASKED,  // a step whose trainer is lost is forgotten, whatever others have done

    // limits
    PLANTED_LIMIT_AFTER_ALLOCATION,  // memory is taken for what is only claimed, and checked afterwards

    PLANTED_BUG_COUNT
} planted_bug;

#ifdef GW_PLANTED
extern planted_bug planted_now;
#define planted(bug) (planted_now == (bug))
#else
#define planted(bug) false
#endif

#endif
