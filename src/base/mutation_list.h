// The mutations. This file is included with MUTATION(name) defined, and undefines it.

// clang-format off
// membership and sessions
MUTATION(NO_FENCING)        // messages of a member are accepted after it was declared dead
MUTATION(WALL_CLOCK)        // liveness is measured by the wall clock, which may step
MUTATION(NO_MAJORITY)       // a worker without a quorum declares the others dead
MUTATION(NO_PROBES)         // a member that is silent to one other is dead, without probes
MUTATION(RECEIVED_ONLY)     // a worker that receives from the others decides, though they do not answer
MUTATION(ACTS_ALONE)        // a worker applies its decision before a quorum has it
MUTATION(RESEND_LOST)       // frames in transit on a broken connection are not sent again
MUTATION(DUPLICATE_FRAME)   // an old frame is received once more
MUTATION(BULK_NOT_REWOUND)  // after a break bulk continues where it had been sent to
MUTATION(BULK_OVERTAKEN)    // a call starts before an earlier one of its order whose bulk is missing
MUTATION(BODY_UNCHECKED)    // a damaged body is accepted

// joining
MUTATION(GIVES_UP_UNREPORTED)  // a worker that stops waiting for a rank does not write it to the store

// calls
MUTATION(REPLY_NOT_DEDUPLICATED)  // a second reply completes a call again
MUTATION(CANCEL_IGNORED)          // calls made by a cancelled call continue
MUTATION(LOST_WAKE_UP)            // a thread that begins to wait misses a message

// checkpoints
MUTATION(SNAPSHOT_NOT_PINNED)    // a step that follows writes to the blocks of a checkpoint
MUTATION(CHECKSUM_NOT_COMPARED)  // numbers of another checksum are accepted

// references
MUTATION(NO_TOMBSTONE)          // a deleted value leaves no tombstone
MUTATION(INSERT_IF_ABSENT)      // a late fork request adds a holder that has released
MUTATION(RELEASE_BEFORE_CHILD)  // the parent releases before its child is accepted
MUTATION(ACCEPT_BEFORE_ACK)     // the child accepts before the owner has listed it
MUTATION(GIVE_UP)               // a message whose sending failed five times is dropped
MUTATION(KEEP_DEAD_FORKS)       // the forks of a lost worker stay listed

// rings
MUTATION(RING_INDEX_BELIEVED)  // the peer's index is not checked
MUTATION(RING_TAIL_FIRST)      // bytes are announced before they are written
MUTATION(RING_WAKE_LOST)       // an end that is about to sleep checks before it announces it
MUTATION(RING_NOT_CHECKED)     // an end that is about to sleep announces it, and does not check

// passes
MUTATION(GRADIENT_TWICE)       // later gradients of a slot are added twice
MUTATION(PASS_BEGINS_AGAIN)    // at a late gradient, after its end
MUTATION(FINAL_BEFORE_DONE)    // a pass succeeds when its initiator has all that it waits for
MUTATION(FAILED_OMITTED)       // a worker that forwards the ends of passes omits which have failed
MUTATION(ABORT_FORGOTTEN)      // late gradients of an aborted pass begin it again
MUTATION(DONE_WHILE_REDUCING)  // a part is done before late gradients of its worker have arrived

// waits
MUTATION(CALLER_NOT_QUERIED)  // a wait for an idle member does not query which workers may still call it

// collectives
MUTATION(PART_TWICE)     // a large value is added twice, as if it had been received again after a break
MUTATION(ENTER_AHEAD)    // a member enters more collectives than may be in progress
MUTATION(KEYS_AT_LIMIT)  // the limit applies to a key of which no collective is under way
MUTATION(BLOCK_WRITTEN)  // the input of a member is not preserved

// replicas
MUTATION(BUCKET_OUT_OF_ORDER)  // buckets start as their gradients arrive, without a key
MUTATION(FLAGS_NOT_COMBINED)   // a member without a gradient assumes that no member has one

// joins
MUTATION(JOINED_COUNTED_LATE)  // a member that has closed counts as active once more

// optimizer steps
MUTATION(STEP_NOT_QUERIED)  // a step whose trainer is lost is aborted without a query to other owners
MUTATION(LATE_COMMIT)       // an owner commits after reporting to another that it has not
MUTATION(DOUBT_DROPPED)     // values that others may have stepped with are not kept
MUTATION(GIVEN_DROPPED)     // state that was given to a new owner is dropped at once

// lent memory
MUTATION(LEASE_KEPT)           // the block of a returned lease stays pinned
MUTATION(LENT_REUSED)          // the block of a lease is not pinned
MUTATION(READ_UNCHECKED)       // remotely read bytes are used without checking the process tag
MUTATION(WRITTEN_BLOCK_MOVES)  // a block that may be written to is moved too
MUTATION(WRITE_LOST)           // the same, and its pages can be written to meanwhile

// encryption
MUTATION(KEY_WITHOUT_ROLE)    // the key of a pair is the same in both directions
MUTATION(IDENTITY_UNCHECKED)  // a client with the key may connect, whichever server it expects
MUTATION(OLD_KEY_ACCEPTED)    // a removed key is still accepted
MUTATION(HELLO_OUTSIDE_TLS)   // a hello in plain text is accepted
MUTATION(HELLO_UNBOUND)       // the hello inside TLS may name others than its identity
MUTATION(ANY_CA)              // a certificate of any CA is accepted
MUTATION(CLIENT_UNNAMED)      // a client's certificate may name another worker
MUTATION(SERVER_UNNAMED)      // a server with any certificate is accepted as the expected one
MUTATION(MEMBER_UNNAMED)      // a certificate of any name is accepted for the hello of a member

// plans of collectives
MUTATION(WRONG_FOLD)         // members beyond the power of two have others' partners
MUTATION(SLICES_BY_ARRIVAL)  // the parts of a sum are added in the order of arrival

// groups
MUTATION(SIGNATURE_NOT_COMPARED)  // members may call different operations in one collective
MUTATION(SCOPE_LEFT_UNREPORTED)   // a member that leaves the scope of a failed call continues to count at once
MUTATION(REFUSED_ALONE)           // a member that refuses a call of a collective does not notify the others
MUTATION(PAST_NOT_COMPARED)       // the earlier calls of members may differ
MUTATION(DONE_NOT_FINAL)          // a finished collective does not wait for earlier ones to be final
MUTATION(ABORT_NOT_REPORTED)      // only the leader has the outcome of a collective
MUTATION(NUMBER_NOT_ADVANCED)     // a member that has missed a collective counts on as before
MUTATION(DECISION_NOT_STORED)     // a decision is lost with its leader
MUTATION(CIRCLE_NOT_PROVEN)       // a member of a circle may have entered the collective that others await
MUTATION(OLD_VIEW_IN_REFORM)      // the next generation of a group contains lost members
MUTATION(GENERATION_FORGOTTEN)    // an ended generation is taken for a group that is still to be opened

// backends
MUTATION(CHANNEL_THAT_IS_FREE)  // a collective takes the channel that is free on this member
MUTATION(CHANNEL_OVERTAKEN)     // a collective that all have entered begins before earlier ones
MUTATION(NOT_DRAINED)           // a member does not begin a collective that was aborted before it entered
MUTATION(DRAINED_UNMET)         // an aborted collective continues even if some members never enter it

// unexpected messages: those that arrive before a member has entered, or has opened the group
MUTATION(UNEXPECTED_REVERSED)         // are delivered in another order
MUTATION(UNEXPECTED_BREAK_FORGOTTEN)  // a break among them is not delivered

// sharded optimizers
MUTATION(PREPARED_STEP_KEPT)  // a prepared step stays, though the gradient was changed since
MUTATION(RANGE_FROM_ZERO)     // the ranges of a gradient all begin with its first number

// elastic training
MUTATION(STEP_NOT_MARKED)      // the mark of a pass does not contain its step
MUTATION(PAUSE_WITHOUT_END)    // a pause does not end after the timeout
MUTATION(PAUSE_LEFT_OUT)       // members continue although they are too few
MUTATION(STEP_SCOPE_CLOSES)    // the program can close the scope of a step
MUTATION(JOB_OPENED_TWICE)     // a worker opens two jobs of one name
MUTATION(IDLE_BEFORE_REPLY)    // a worker that acts, such as one that has not replied yet, counts as idle

// decisions of host 0
MUTATION(NUMBER_IN_USE)        // a host that joins gets the number of another one
MUTATION(SPARE_OVERTAKEN)      // hosts that wait get a place in another order
MUTATION(ATTEMPT_AGAIN)        // the ranks of a host that joins have the number of an earlier attempt
MUTATION(ROUND_TOO_EARLY)      // a round starts while ranks of the last one are left
MUTATION(BUDGET_NOT_CHARGED)   // a restart costs nothing

// records and traces
MUTATION(TRACE_HEAD_FIRST)    // the count of records is published before the record
MUTATION(TRACE_END_LEFT_OUT)  // the end of what has begun is not recorded
MUTATION(TRACE_OTHER_CALL)    // the arrow of a reply has the id of another call
MUTATION(TRACE_OFFSET_SIGN)   // bounds of the offset of two clocks have the wrong sign

// limits
MUTATION(LIMIT_AFTER_ALLOCATION)  // memory is allocated before its size is checked
// clang-format on

#undef MUTATION
