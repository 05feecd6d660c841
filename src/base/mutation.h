// Mutations: rules of the protocols that a test build can leave out, one at a time, to check
// that the simulator detects it. In the library each is the constant false.
//
//     if (!has_mutation(MUTATION_NO_TOMBSTONE)) remember(id);
//
// The environment variable GW_MUTATION names the active one: the constant's name in lower
// case, "no_tombstone". A new mutation is a line here, one in mutation.c, and a place where it
// applies.
//
// Threads: chosen before main.
#ifndef BASE_MUTATION_H
#define BASE_MUTATION_H

#include <stdbool.h>

typedef enum mutation {
    MUTATION_NONE,

    // membership and sessions
    MUTATION_NO_FENCING,   // messages of a member are accepted after it was declared dead
    MUTATION_WALL_CLOCK,   // liveness is measured by the wall clock, which may step
    MUTATION_NO_MAJORITY,  // a worker without a quorum declares the others dead
    MUTATION_NO_PROBES,    // a member that is silent to one other is dead, without probes
    MUTATION_RECEIVED_ONLY,  // a worker that receives from the others decides, though they do not answer
    MUTATION_ACTS_ALONE,        // a worker applies its decision before a quorum has it
    MUTATION_RESEND_LOST,       // frames in transit on a broken connection are not sent again
    MUTATION_DUPLICATE_FRAME,   // an old frame is received once more
    MUTATION_BULK_NOT_REWOUND,  // after a break bulk continues where it had been sent to
    MUTATION_BULK_OVERTAKEN,  // a call starts before an earlier one of its order whose bulk is missing
    MUTATION_BODY_UNCHECKED,  // a damaged body is accepted

    // joining
    MUTATION_GIVES_UP_UNREPORTED,  // a worker that stops waiting for a rank does not write it to the store

    // calls
    MUTATION_REPLY_NOT_DEDUPLICATED,  // a second reply completes a call again
    MUTATION_CANCEL_IGNORED,          // calls made by a cancelled call continue
    MUTATION_LOST_WAKE_UP,            // a thread that begins to wait misses a message

    // references
    MUTATION_NO_TOMBSTONE,          // a deleted value leaves no tombstone
    MUTATION_INSERT_IF_ABSENT,      // a late fork request adds a holder that has released
    MUTATION_RELEASE_BEFORE_CHILD,  // the parent releases before its child is accepted
    MUTATION_ACCEPT_BEFORE_ACK,     // the child accepts before the owner has listed it
    MUTATION_GIVE_UP,               // a message whose sending failed five times is dropped
    MUTATION_KEEP_DEAD_FORKS,       // the forks of a lost worker stay listed

    // rings
    MUTATION_RING_INDEX_BELIEVED,  // the peer's index is not checked
    MUTATION_RING_TAIL_FIRST,      // bytes are announced before they are written
    MUTATION_RING_WAKE_LOST,       // an end that is about to sleep checks before it announces it
    MUTATION_RING_NOT_CHECKED,     // an end that is about to sleep announces it, and does not check

    // passes
    MUTATION_GRADIENT_TWICE,     // later gradients of a slot are added twice
    MUTATION_PASS_BEGINS_AGAIN,  // at a late gradient, after its end
    MUTATION_FINAL_BEFORE_DONE,  // a pass succeeds when its initiator has all that it waits for
    MUTATION_FAILED_OMITTED,   // a worker that forwards the ends of passes omits which have failed
    MUTATION_ABORT_FORGOTTEN,  // late gradients of an aborted pass begin it again
    MUTATION_DONE_WHILE_REDUCING,  // a part is done before late gradients of its worker have arrived

    // waits
    MUTATION_CALLER_NOT_QUERIED,  // a wait for an idle member does not query which workers may still call it

    // collectives
    MUTATION_PART_TWICE,  // a large value is added twice, as if it had been received again after a break
    MUTATION_ENTER_AHEAD,    // a member enters more collectives than may be in progress
    MUTATION_BLOCK_WRITTEN,  // the input of a member is not preserved

    // replicas
    MUTATION_BUCKET_OUT_OF_ORDER,  // buckets start as their gradients arrive, without a key
    MUTATION_FLAGS_NOT_COMBINED,   // a member without a gradient assumes that no member has one

    // joins
    MUTATION_JOINED_COUNTED_LATE,  // a member that has closed counts as active once more

    // optimizer steps
    MUTATION_STEP_NOT_QUERIED,  // a step whose trainer is lost is aborted without a query to other owners
    MUTATION_LATE_COMMIT,    // an owner commits after reporting to another that it has not
    MUTATION_DOUBT_DROPPED,  // values that others may have stepped with are not kept
    MUTATION_GIVEN_DROPPED,  // state that was given to a new owner is dropped at once

    // lent memory
    MUTATION_LEASE_KEPT,           // the block of a returned lease stays pinned
    MUTATION_LENT_REUSED,          // the block of a lease is not pinned
    MUTATION_READ_UNCHECKED,       // remotely read bytes are used without checking the process tag
    MUTATION_WRITTEN_BLOCK_MOVES,  // a block that may be written to is moved too
    MUTATION_WRITE_LOST,           // the same, and its pages can be written to meanwhile

    // encryption
    MUTATION_KEY_WITHOUT_ROLE,    // the key of a pair is the same in both directions
    MUTATION_IDENTITY_UNCHECKED,  // a client with the key may connect, whichever server it expects
    MUTATION_OLD_KEY_ACCEPTED,    // a removed key is still accepted
    MUTATION_HELLO_OUTSIDE_TLS,   // a hello in plain text is accepted
    MUTATION_HELLO_UNBOUND,       // the hello inside TLS may name others than its identity
    MUTATION_ANY_CA,              // a certificate of any CA is accepted
    MUTATION_CLIENT_UNNAMED,      // a client's certificate may name another worker
    MUTATION_SERVER_UNNAMED,      // a server with any certificate is accepted as the expected one
    MUTATION_MEMBER_UNNAMED,      // a certificate of any name is accepted for the hello of a member

    // plans of collectives
    MUTATION_WRONG_FOLD,         // members beyond the power of two have others' partners
    MUTATION_SLICES_BY_ARRIVAL,  // the parts of a sum are added in the order of arrival

    // groups
    MUTATION_SIGNATURE_NOT_COMPARED,  // members may call different operations in one collective
    MUTATION_SCOPE_LEFT_UNREPORTED,  // a member that leaves the scope of a failed call continues to count at once
    MUTATION_REFUSED_ALONE,  // a member that refuses a call of a collective does not notify the others
    MUTATION_PAST_NOT_COMPARED,  // the earlier calls of members may differ
    MUTATION_DONE_NOT_FINAL,     // a finished collective does not wait for earlier ones to be final
    MUTATION_ABORT_NOT_REPORTED,   // only the leader has the outcome of a collective
    MUTATION_NUMBER_NOT_ADVANCED,  // a member that has missed a collective counts on as before
    MUTATION_DECISION_NOT_STORED,  // a decision is lost with its leader
    MUTATION_CIRCLE_NOT_PROVEN,  // a member of a circle may have entered the collective that others await
    MUTATION_OLD_VIEW_IN_REFORM,  // the next generation of a group contains lost members
    MUTATION_GENERATION_FORGOTTEN,  // an ended generation is taken for a group that is still to be opened

    // backends
    MUTATION_CHANNEL_THAT_IS_FREE,  // a collective takes the channel that is free on this member
    MUTATION_CHANNEL_OVERTAKEN,     // a collective that all have entered begins before earlier ones
    MUTATION_NOT_DRAINED,  // a member does not begin a collective that was aborted before it entered
    MUTATION_DRAINED_UNMET,  // an aborted collective continues even if some members never enter it

    // unexpected messages: before a member has entered, or opened the group
    MUTATION_UNEXPECTED_REVERSED,         // are delivered in another order
    MUTATION_UNEXPECTED_BREAK_FORGOTTEN,  // a break among them is not delivered

    // sharded optimizers
    MUTATION_PREPARED_STEP_KEPT,  // a prepared step stays, though the gradient was changed since
    MUTATION_RANGE_FROM_ZERO,     // the ranges of a gradient all begin with its first number

    // limits
    MUTATION_LIMIT_AFTER_ALLOCATION,  // memory is allocated before its size is checked

    MUTATION_BUG_COUNT
} mutation;

#ifdef GW_MUTATIONS
extern mutation mutation_now;
#define has_mutation(bug) (mutation_now == (bug))
#else
#define has_mutation(bug) false
#endif

#endif
