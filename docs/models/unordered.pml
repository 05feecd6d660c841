/* References on a network that loses, repeats and reorders messages: the reason for sessions below references.
 *
 * Owner, a holder A (the parent) and a child B. Messages are in a bag and arrive in any order; the network may lose
 * LOSSES copies in all; a sender repeats a message without reply, at times although a copy is still on its way (EAGER
 * times). The child may crash (-DCRASH).
 *
 * There references need tombstones for every fork that was ever given back, retrying until the end of the peer, and
 * fencing. Over sessions (reference.pml) no message arrives twice or late, and neither tombstones nor retries are needed.
 *
 * -DNO_HOLDING: A may give back at once. -DNO_TOMBSTONES: a fork request is listed unless it is listed already.
 * -DRETRIES=5: give up after that many. -DNO_REMOVING: forks of the dead stay listed.
 */
#ifndef LOSSES
#define LOSSES 0
#endif
#ifndef EAGER
#define EAGER 0
#endif
#ifndef RETRIES
#define RETRIES 9     /* more than can be lost */
#endif

/* Copies on their way. */
byte fork, fork_request, fork_ack, child_accept, release_a, released_a, release_b, released_b;
byte losses, eager, again_fork, again_request, again_accept, again_a, again_b;
/* The owner. */
bit lists_a = 1, lists_b, tombstone_b, is_removed, freed;
/* The parent. */
bit a_holds = 1, a_has_sent, a_may_go, a_gives_back, a_is_done;
/* The child. */
bit b_has_arrived, b_is_confirmed, b_holds, b_gives_back, b_is_done, b_is_dead;

inline free_if_unused() {
    if
    :: !lists_a && !lists_b && !freed -> freed = 1; assert(!a_holds && !(b_holds && !b_is_dead))
    :: else
    fi
}

inline lose(what) {
    losses < LOSSES && what > 0 -> losses++; what--
}

active proctype network() {
    do
    :: atomic { lose(fork) }
    :: atomic { lose(fork_request) }
    :: atomic { lose(fork_ack) }
    :: atomic { lose(child_accept) }
    :: atomic { lose(release_a) }
    :: atomic { lose(release_b) }

    /* Actions of the programs. */
    :: atomic { !a_has_sent && a_holds -> a_has_sent = 1; fork++ }
#ifdef NO_HOLDING
    :: atomic { a_holds && a_has_sent -> a_holds = 0; a_gives_back = 1; release_a++ }
#else
    :: atomic { a_holds && a_has_sent && a_may_go -> a_holds = 0; a_gives_back = 1; release_a++ }
#endif
    :: atomic { b_holds && b_is_confirmed && !b_is_dead -> b_holds = 0; b_gives_back = 1; release_b++ }

    /* Arriving messages. */
    :: atomic {
        fork > 0 -> fork--;
        if
        :: !b_has_arrived && !b_is_dead -> b_has_arrived = 1; b_holds = 1; fork_request++
        :: else
        fi
    }
    :: atomic {
        fork_request > 0 -> fork_request--; fork_ack++;
        if
#ifndef NO_TOMBSTONES
        :: tombstone_b
#endif
#ifndef NO_REMOVING
        :: is_removed
#endif
        :: else -> lists_b = 1
        fi
    }
    :: atomic {
        fork_ack > 0 -> fork_ack--;
        if
        :: !b_is_dead && !b_is_confirmed -> b_is_confirmed = 1; child_accept++
        :: else
        fi
    }
    :: atomic { child_accept > 0 -> child_accept--; a_may_go = 1 }
    :: atomic { release_a > 0 -> release_a--; released_a++; lists_a = 0; free_if_unused() }
    :: atomic { release_b > 0 -> release_b--; released_b++; lists_b = 0; tombstone_b = 1; free_if_unused() }
    :: atomic { released_a > 0 -> released_a--; a_is_done = 1 }
    :: atomic { released_b > 0 -> released_b--; b_is_done = 1 }

    /* Again after a loss. */
    :: atomic { a_has_sent && !b_has_arrived && !b_is_dead && fork == 0 && again_fork < RETRIES -> again_fork++; fork++ }
    :: atomic { b_has_arrived && !b_is_dead && !b_is_confirmed && fork_request + fork_ack == 0 && again_request < RETRIES -> again_request++; fork_request++ }
    :: atomic { b_is_confirmed && !b_is_dead && !a_may_go && child_accept == 0 && again_accept < RETRIES -> again_accept++; child_accept++ }
    :: atomic { a_gives_back && !a_is_done && release_a + released_a == 0 && again_a < RETRIES -> again_a++; release_a++ }
    :: atomic { b_gives_back && !b_is_dead && !b_is_done && release_b + released_b == 0 && again_b < RETRIES -> again_b++; release_b++ }
    /* Again although nothing was lost. */
    :: atomic { eager < EAGER && b_has_arrived && !b_is_dead && !b_is_confirmed && fork_request + fork_ack > 0 -> eager++; fork_request++ }
    :: atomic { eager < EAGER && b_gives_back && !b_is_dead && !b_is_done && release_b + released_b > 0 -> eager++; release_b++ }

#ifdef CRASH
    :: atomic { a_has_sent && !b_is_dead && !b_is_done -> b_is_dead = 1 }
    :: atomic { b_is_dead && a_has_sent && !a_may_go -> a_may_go = 1 }
#ifndef NO_REMOVING
    :: atomic { b_is_dead && !is_removed -> is_removed = 1; lists_b = 0; free_if_unused() }
#endif
#endif
    :: atomic { timeout -> assert(freed); break }
    od
}
