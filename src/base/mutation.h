// Mutations: rules of the protocols that a build for tests can leave out, one at a time, to see
// that the simulator notices. In the library each is the constant false.
//
//     if (!has_mutation(MUTATION_NO_TOMBSTONE)) remember(id);
//
// The environment variable GW_MUTATION names the one that is in force: the constant's name in small
// letters, "no_tombstone". A new bug is a line here, one in mutation.c, and a place where it
// applies.
//
// Threads: chosen before main.
#ifndef BASE_MUTATION_H
#define BASE_MUTATION_H

#include <stdbool.h>

typedef enum mutation {
    MUTATION_NONE,

    // membership and sessions
    MUTATION_NO_FENCING,        // what a member says after it was declared dead is listened to
    MUTATION_WALL_CLOCK,        // liveness is judged by the clock on the wall, which may step
    MUTATION_NO_MAJORITY,       // a worker without a quorum declares the others dead
    MUTATION_NO_PROBES,         // a member that one other does not hear is dead, without probes
    MUTATION_RECEIVED_ONLY,     // a worker that hears the others decides, though they do not answer
    MUTATION_ACTS_ALONE,        // what a worker has decided is so for it before a quorum knows
    MUTATION_RESEND_LOST,       // what a broken connection had under way is not sent again
    MUTATION_DUPLICATE_FRAME,   // a frame that came before is received once more
    MUTATION_BULK_NOT_REWOUND,  // after a break bulk goes on where it had been sent to
    MUTATION_BULK_OVERTAKEN,    // a call starts before one of its order whose bulk has not come
    MUTATION_BODY_UNCHECKED,    // a damaged body is taken

    // joining
    MUTATION_GIVES_UP_UNREPORTED,  // who stops waiting for a rank does not say so in the store

    // calls
    MUTATION_REPLY_NOT_DEDUPLICATED,  // a second reply completes a call again
    MUTATION_CANCEL_IGNORED,          // what a cancelled call has called goes on
    MUTATION_LOST_WAKE_UP,            // who waits is not told of what came while it began to wait

    // references
    MUTATION_NO_TOMBSTONE,          // a value that is gone is not remembered as such
    MUTATION_INSERT_IF_ABSENT,      // a late fork request adds a holder that has released
    MUTATION_RELEASE_BEFORE_CHILD,  // the parent releases before its child is accepted
    MUTATION_ACCEPT_BEFORE_ACK,     // the child accepts before the owner has listed it
    MUTATION_GIVE_UP,               // what has failed to be sent five times is given up
    MUTATION_KEEP_DEAD_FORKS,       // the forks of a lost worker stay listed

    // rings
    MUTATION_RING_INDEX_BELIEVED,  // what the peer says of the other end is not checked
    MUTATION_RING_TAIL_FIRST,      // bytes are announced before they are there
    MUTATION_RING_WAKE_LOST,       // who is about to sleep looks first and says so then
    MUTATION_RING_NOT_CHECKED,     // who is about to sleep says so, and looks no more

    // passes
    MUTATION_GRADIENT_TWICE,     // what comes for a slot behind the first is added twice
    MUTATION_PASS_BEGINS_AGAIN,  // at a late gradient, when it is over
    MUTATION_FINAL_BEFORE_DONE,  // a pass has succeeded when its initiator has all it waits for
    MUTATION_FAILED_OMITTED,  // who passes on that passes have ended does not say which have failed
    MUTATION_ABORT_FORGOTTEN,      // late gradients of a pass that was aborted begin it again
    MUTATION_DONE_WHILE_REDUCING,  // a part says done before what is late on its worker has come

    // waits
    MUTATION_CALLER_NOT_QUERIED,  // who waits for an idle member does not ask who may still call it

    // collectives
    MUTATION_PART_TWICE,     // a large value is added twice, as if it had come again behind a break
    MUTATION_ENTER_AHEAD,    // a member enters more collectives than may be under way
    MUTATION_BLOCK_WRITTEN,  // what a member brings is not kept as it was

    // replicas
    MUTATION_BUCKET_OUT_OF_ORDER,  // buckets set out as their gradients come, without a key
    MUTATION_FLAGS_NOT_COMBINED,   // who has no gradient takes it that nobody has

    // joins
    MUTATION_JOINED_COUNTED_LATE,  // who has closed counts as active once more

    // optimizer steps
    MUTATION_STEP_NOT_QUERIED,  // a step whose trainer is lost is aborted without asking other owners
    MUTATION_LATE_COMMIT,       // an owner commits behind telling another that it has not
    MUTATION_DOUBT_DROPPED,     // what others may have stepped with is not kept
    MUTATION_GIVEN_DROPPED,     // state that was given to a new owner is forgotten at once

    // lent memory
    MUTATION_LEASE_KEPT,           // what was lent and given back stays pinned
    MUTATION_LENT_REUSED,          // the block of a lease is not pinned
    MUTATION_READ_UNCHECKED,       // what was read is used without a look at whose memory it was
    MUTATION_WRITTEN_BLOCK_MOVES,  // what may be written to is moved as well
    MUTATION_WRITE_LOST,           // the same, and its pages can be written to meanwhile

    // encryption
    MUTATION_KEY_WITHOUT_ROLE,    // the key of a pair is the same whoever connects
    MUTATION_IDENTITY_UNCHECKED,  // who has the key may connect, whomever it looks for
    MUTATION_OLD_KEY_ACCEPTED,    // a key that was there once is taken still
    MUTATION_HELLO_OUTSIDE_TLS,   // a hello in plain text is listened to
    MUTATION_HELLO_UNBOUND,       // the hello inside TLS may name others than its identity
    MUTATION_ANY_CA,              // a certificate of any CA is good
    MUTATION_CLIENT_UNNAMED,      // a client's certificate may name others than it says it is
    MUTATION_SERVER_UNNAMED,      // whoever answers is who was looked for, if it has a certificate
    MUTATION_MEMBER_UNNAMED,      // a certificate of any name is good for the hello of a member

    // plans of collectives
    MUTATION_WRONG_FOLD,         // members behind the power of two have others' partners
    MUTATION_SLICES_BY_ARRIVAL,  // the parts of a sum are added in the order in which they come

    // groups
    MUTATION_SIGNATURE_NOT_COMPARED,  // members may do different things in one collective
    MUTATION_SCOPE_LEFT_UNREPORTED,  // a member that leaves the scope of a failed call counts on at once
    MUTATION_REFUSED_ALONE,          // who refuses a call of a collective does not tell the others
    MUTATION_PAST_NOT_COMPARED,    // what members have called before may differ
    MUTATION_DONE_NOT_FINAL,       // what is done does not wait for those before it to be settled
    MUTATION_ABORT_NOT_REPORTED,   // the leader alone knows how a collective has ended
    MUTATION_NUMBER_NOT_ADVANCED,  // a member that has missed a collective counts on as before
    MUTATION_DECISION_NOT_STORED,  // what is decided is forgotten when its leader is lost
    MUTATION_CIRCLE_NOT_PROVEN,    // one in a circle may have entered what it is awaited in
    MUTATION_OLD_VIEW_IN_REFORM,   // the next generation of a group has those that are lost
    MUTATION_GENERATION_FORGOTTEN,  // one that has ended is taken for a group that is still to be opened

    // backends
    MUTATION_CHANNEL_THAT_IS_FREE,  // a collective takes the lane that is free on this member
    MUTATION_CHANNEL_OVERTAKEN,     // what has been entered by all begins, whatever comes before it
    MUTATION_NOT_DRAINED,           // what a verdict has ended is begun no more by who has not
    MUTATION_DRAINED_UNMET,         // what a verdict has ended goes on, also if some never enter it

    // what comes before a member has entered, or opened the group
    MUTATION_UNEXPECTED_REVERSED,         // is handed over in another order
    MUTATION_UNEXPECTED_BREAK_FORGOTTEN,  // if it is no value, it is not handed over

    // sharded optimizers
    MUTATION_PREPARED_STEP_KEPT,  // what was prepared stays, though the gradient was changed since
    MUTATION_RANGE_FROM_ZERO,     // the ranges of a gradient all begin with its first number

    // limits
    MUTATION_LIMIT_AFTER_ALLOCATION,  // memory is taken before its size is checked

    MUTATION_BUG_COUNT
} mutation;

#ifdef GW_MUTATIONS
extern mutation mutation_now;
#define has_mutation(bug) (mutation_now == (bug))
#else
#define has_mutation(bug) false
#endif

#endif
