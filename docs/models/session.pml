/* A session, as docs/protocol/session.md and docs/protocol/connection.md specify it: an ordered stream of messages that
 * outlives connections.
 *
 * A and B have a session. With -DRESTARTS=1 B ends at any time, and C, a new incarnation that listens where B did,
 * has a session of its own with A. Each side has messages for the other, of one frame each, and keeps at most KEPT
 * that are not acknowledged. A connection may be cut at any time (CUTS), in the middle of a frame too; each end
 * detects it at a time of its own, after it has read a part of the frames under way. An attempt to connect may be given
 * up while its handshake is under way, which then arrives late (LATE). Below the connection a frame may be lost (LOSSES)
 * or arrive twice (REPEATS). A side may be notified that the other is dead although it lives (SUSPICIONS).
 *
 * Safety: a message is delivered at most once, in order, to the incarnation that it was for, never from a lost peer,
 * and never after its sender was notified that it was not delivered. No honest peer breaks the protocol (SES-9).
 * Attempts converge: a fault costs at most one connection, and an attempt with the number of a refusal is not stale
 * again.
 * Liveness: when nothing can move any more, all messages between live workers were delivered and acknowledged, and each
 * live worker has lost every peer that has ended.
 *
 * Left out: messages of several frames; close (SES-10), another way to detect an end; a damaged header (FRAME-2),
 * which is a cut; several addresses, versions, and all times (CONN-7, CONN-9: each may try at any moment); a cut that
 * lasts, since then nothing moves; false messages of peers, which src/session/session_fuzz.c tests. Attempts that
 * continue for ever on one number are not detected.
 *
 * A rule is removed by -DNO_...; each such variant must fail. `make model` runs them all.
 */
#ifndef MESSAGES_A
#define MESSAGES_A 3
#endif
#ifndef MESSAGES_B
#define MESSAGES_B 1
#endif
#ifndef KEPT
#define KEPT 2
#endif
#ifndef CUTS
#define CUTS 0
#endif
#ifndef LATE
#define LATE 0
#endif
#ifndef LOSSES
#define LOSSES 0
#endif
#ifndef REPEATS
#define REPEATS 0
#endif
#ifndef SUSPICIONS
#define SUSPICIONS 0
#endif
#ifndef RESTARTS
#define RESTARTS 0
#endif
#ifndef LOWER
#define LOWER 0      /* the side with the lower rank: A's */
#endif

/* Workers, and the ends of sessions: A's and B's of the first, A's and C's of the second. */
#define A 0
#define B 1
#define C 2
#define ENDS (2 + 2 * RESTARTS)
#define SIDE(e) ((e) % 2)
#define OTHER(e) ((e) + 1 - 2 * SIDE(e))
#define WORKER(e) (SIDE(e) == 0 -> A : 1 + (e) / 2)
#define MESSAGES(e) (SIDE(e) == 0 -> MESSAGES_A : MESSAGES_B)
bit gone[3];         /* has ended, or has not begun */
bit restarted;

/* The state of an end, with the names of src/session/peer_state.c. */
#define QUIET 0
#define AWAITING_RETRY 1
#define AWAITING_WELCOME 2
#define CONNECTED 3
#define LOST 4
byte state[ENDS];
byte number[ENDS];       /* the largest connection number that it has sent or received */
byte at[ENDS];           /* its connection plus one; 0: none */
bit stale[ENDS];         /* its last attempt was answered as stale */
/* Frames 1..acked are dropped, ..sent were sent at least once, ..last are kept; next is sent next. */
byte acked[ENDS], sent[ENDS], last[ENDS], next[ENDS];
byte received[ENDS];
bit owes[ENDS];          /* an ack */
bit pinged[ENDS];        /* and has received nothing since */
bit inside[ENDS];        /* a part of a frame has arrived */
byte void_from[ENDS];    /* from this one on its messages were reported as not delivered; 0: none */

/* Connections: a queue for each direction, from the one that connected and to it. */
#define CONNECTIONS 3
#define FROM_OPENER 0
#define TO_OPENER 1
#define HELLO 1          /* number, received */
#define WELCOME 2        /* number, received */
#define REFUSAL 3        /* number, reason */
#define DATA 4           /* number, ack */
#define HALF 5           /* a part of a data frame: the rest was cut off */
#define ACK 6
#define PING 7
chan wire[2 * CONNECTIONS] = [2] of { byte, byte, byte };
byte opener[CONNECTIONS];        /* the end that connected, plus one; 0: no such connection */
byte holder[2 * CONNECTIONS];    /* end plus one at either side, or PENDING; 0: closed */
byte listener[CONNECTIONS];      /* the worker that has accepted */
bit is_cut[CONNECTIONS];
#define PENDING 9

#define STALE 1          /* reasons of refusals */
#define CROSSED 2
#define ANOTHER 3
#define REFUSED_LOST 4

byte cuts, late, losses, repeats, suspicions;
#define FAULTS (cuts + late + losses + repeats)

#define CONNECTION(e) (at[e] - 1)
#define OUT(e) (2 * CONNECTION(e) + (opener[CONNECTION(e)] == (e) + 1 -> FROM_OPENER : TO_OPENER))
#define IN(e) (OUT(e) - (OUT(e) % 2) + 1 - (OUT(e) % 2))
#define IS_BROKEN(side) (is_cut[(side) / 2] || !holder[(side) - (side) % 2] || !holder[(side) + 1 - 2 * ((side) % 2)])
#define CAN_SEND(e) (state[e] == CONNECTED && nfull(wire[OUT(e)]))

hidden byte c, i, f, n, kind, first, second;    /* within one step */

/* ---- Connections ---- */
inline drain(queue) {
    do
    :: len(wire[queue]) > 0 -> wire[queue]?_, _, _
    :: else -> break
    od
}

inline close_side(side) {
    holder[side] = 0;
    drain(side - side % 2 + 1 - side % 2);
    if
    :: !holder[side - side % 2] && !holder[side - side % 2 + 1] ->
        drain(side);
        opener[side / 2] = 0;
        listener[side / 2] = 0;
        is_cut[side / 2] = 0
    :: else
    fi
}

inline put(side, what, x, y) {
    if
    :: IS_BROKEN(side) -> skip
    :: else -> wire[side]!what, x, y
    fi
}

/* SES-7: the received part of a frame is dropped. */
inline leave_connection(e) {
    if
    :: at[e] ->
        i = OUT(e);
        close_side(i);
        at[e] = 0;
#ifndef NO_DROPPING
        inside[e] = 0;
#endif
        pinged[e] = 0
    :: else
    fi;
    next[e] = 0
}

inline broken(e) {
    leave_connection(e);
    stale[e] = 0;
    state[e] = AWAITING_RETRY
}

/* ---- The end of a peer ---- */

/* Messages that were not sent are reported as not delivered, the rest as perhaps delivered. */
inline lose(e) {
    leave_connection(e);
#ifdef NO_COUNTING
    void_from[e] = acked[e] + 1;
#else
    void_from[e] = sent[e] + 1;
#endif
    assert(received[OTHER(e)] < void_from[e]);
    state[e] = LOST;
    acked[e] = 0; sent[e] = 0; last[e] = 0; owes[e] = 0; number[e] = 0; stale[e] = 0; inside[e] = 0
}

inline end_worker(w) {
    gone[w] = 1;
    f = 0;
    do
    :: f < ENDS ->
        if
        :: WORKER(f) == w ->
            leave_connection(f);
            state[f] = LOST;
            acked[f] = 0; sent[f] = 0; last[f] = 0; owes[f] = 0; number[f] = 0; stale[f] = 0; inside[f] = 0
        :: else
        fi;
        f++
    :: else -> break
    od;
    c = 0;
    do
    :: c < CONNECTIONS ->
        if
        :: holder[2 * c + 1] == PENDING && listener[c] == w -> close_side((2 * c + 1))
        :: else
        fi;
        c++
    :: else -> break
    od;
    c = 0
}

/* ---- Handshakes ---- */

/* SES-9 */
inline take_ack(e, ack) {
    assert(ack >= acked[e] && ack <= sent[e]);
    acked[e] = ack
}

/* SES-7 */
inline resume(e, ack) {
#ifndef NO_REPORTING
    take_ack(e, ack);
#endif
#ifdef NO_RESENDING
    next[e] = sent[e] + 1;
#else
    next[e] = acked[e] + 1;
#endif
    stale[e] = 0;
    state[e] = CONNECTED
}

inline note_number(e, connection_number) {
    number[e] = connection_number;
    assert(connection_number <= 1 + FAULTS)
}

inline find_free() {
    c = 0;
    do
    :: c < CONNECTIONS && opener[c] -> c++
    :: else -> break
    od
}

/* n: the worker that listens at the address of the peer; CONN-8: without one the peer is lost. */
inline attempt(e) {
    n = WORKER(OTHER(e));
    if
    :: n == B && gone[B] -> n = C
    :: else
    fi;
    if
    :: gone[n] -> lose(e)
    :: else ->
        find_free();
        opener[c] = e + 1;
        listener[c] = n;
        holder[2 * c] = e + 1;
        holder[2 * c + 1] = PENDING;
        at[e] = c + 1;
        wire[2 * c]!HELLO, number[e] + 1, received[e];
        state[e] = AWAITING_WELCOME
    fi
}

inline refuse(connection, reason, known) {
    put((2 * connection + 1), REFUSAL, known, reason);
    close_side((2 * connection + 1))
}

/* CONN-4: the larger number wins, and at equal numbers the lower rank's. */
#ifdef NO_ORDER
#define OURS_WINS(e, theirs) false
#else
#define OURS_WINS(e, theirs) \
    (state[e] == AWAITING_WELCOME && (number[e] + 1 > theirs || (number[e] + 1 == theirs && SIDE(e) == LOWER)))
#endif

inline accept(e, connection, theirs, has) {
    if
#ifndef NO_FENCING
    :: state[e] == LOST -> refuse(connection, REFUSED_LOST, 0)
#endif
#ifndef NO_STALE
    :: state[e] != LOST && theirs <= number[e] -> refuse(connection, STALE, number[e])      /* CONN-5, CONN-6 */
#endif
#ifdef NO_REPLACING
    :: state[e] == CONNECTED && theirs > number[e] -> refuse(connection, STALE, number[e])
#endif
    :: else ->
        if
        :: OURS_WINS(e, theirs) -> refuse(connection, CROSSED, number[e])
        :: else ->
            leave_connection(e);
            at[e] = connection + 1;
            holder[2 * connection + 1] = e + 1;
            put((2 * connection + 1), WELCOME, theirs, received[e]);
            resume(e, has);
            note_number(e, theirs)
        fi
    fi
}

/* "I am not the worker or incarnation that you look for." */
inline at_listener(connection) {
    wire[2 * connection]?kind, first, second;
    f = OTHER(opener[connection] - 1);
    n = listener[connection];
#ifdef NO_INCARNATIONS
    if
    :: n == C -> f = 3
    :: else
    fi;
#endif
    if
    :: WORKER(f) != n -> refuse(connection, ANOTHER, 0)
    :: else -> accept(f, connection, first, second)
    fi
}

inline at_refused(e, reason, known) {
    if
    :: known > number[e] -> number[e] = known
    :: else
    fi;
    if
    :: reason == STALE -> assert(!stale[e]); broken(e); stale[e] = 1
    :: reason == CROSSED -> broken(e)
    :: reason == ANOTHER -> lose(e)
    :: reason == REFUSED_LOST -> lose(e); n = WORKER(e); end_worker(n)    /* CONN-11: it is fenced */
    fi
}

/* ---- Frames ---- */
inline deliver(e, which) {
    assert(which == received[e] + 1);
    assert(opener[CONNECTION(e)] == e + 1 || opener[CONNECTION(e)] == OTHER(e) + 1);
    assert(state[e] != LOST && (void_from[OTHER(e)] == 0 || which < void_from[OTHER(e)]));
    received[e] = which;
    owes[e] = 1
}

/* SES-8 */
#ifdef NO_GAPS
#define HAS_GAP(e) false
#else
#define HAS_GAP(e) (first > received[e] + (kind == DATA))
#endif
#ifdef NO_SKIPPING
#define IS_OLD(e) false
#else
#define IS_OLD(e) (first <= received[e])
#endif

inline at_frame(e) {
    pinged[e] = 0;
    assert(!inside[e]);
    if
    :: kind == HALF -> inside[e] = 1
    :: else ->
        take_ack(e, second);
        if
        :: HAS_GAP(e) -> broken(e)
        :: else ->
            if
            :: kind == DATA && !IS_OLD(e) -> deliver(e, first)
            :: kind == PING -> owes[e] = 1
            :: else
            fi
        fi
    fi
}

inline take_in(e) {
    n = IN(e);
    wire[n]?kind, first, second;
    if
    :: kind == WELCOME ->
        assert(state[e] == AWAITING_WELCOME && first == number[e] + 1);
        resume(e, second);
        note_number(e, first)
    :: kind == REFUSAL -> at_refused(e, second, first)
    :: else -> at_frame(e)
    fi
}

/* ---- Events, each at any time ---- */
#define EXISTS(e) ((e) < 2 || restarted)
#define IS_FREE (!opener[0] || !opener[1] || !opener[2])
#define SILENT(e) (empty(wire[OUT(e)]) && empty(wire[IN(e)]))

inline send_data(e) {
    if
    :: next[e] > sent[e] -> sent[e] = next[e]
    :: else
    fi;
    owes[e] = 0
}

proctype end_of_session(byte e) {
end:
    do
    :: d_step {
        EXISTS(e) && state[e] != LOST && last[e] < MESSAGES(e) && last[e] - acked[e] < KEPT ->
        last[e] = last[e] + 1;
        if
        :: state[e] == QUIET -> state[e] = AWAITING_RETRY
        :: else
        fi
    }
    :: d_step { state[e] == AWAITING_RETRY && IS_FREE -> attempt(e) }
    :: d_step { state[e] == AWAITING_WELCOME && late < LATE -> late++; broken(e) }
    :: d_step { at[e] && nempty(wire[IN(e)]) -> take_in(e) }
    :: d_step { at[e] && IS_BROKEN(OUT(e)) -> broken(e) }
    :: d_step {
        CAN_SEND(e) && next[e] <= last[e] ->
        n = OUT(e);
        put(n, DATA, next[e], received[e]);
        send_data(e);
        next[e] = next[e] + 1
    }
    :: d_step { CAN_SEND(e) && next[e] <= last[e] && losses < LOSSES -> losses++; send_data(e); next[e] = next[e] + 1 }
    :: d_step {
        CAN_SEND(e) && next[e] <= last[e] && repeats < REPEATS ->
        repeats++;
        n = OUT(e);
        put(n, DATA, next[e], received[e]);
        send_data(e)
    }
#ifndef NO_ACKS
    /* SES-6 */
    :: d_step { CAN_SEND(e) && owes[e] -> n = OUT(e); put(n, ACK, next[e] - 1, received[e]); owes[e] = 0 }
    :: d_step { CAN_SEND(e) && owes[e] && losses < LOSSES -> losses++; pinged[OTHER(e)] = 0; owes[e] = 0 }
#endif
#ifndef NO_PINGS
    /* SES-8: unacknowledged frames, and nothing received for half a second */
    :: d_step {
        CAN_SEND(e) && acked[e] < sent[e] && next[e] > last[e] && !pinged[e] && SILENT(e) ->
        n = OUT(e);
        put(n, PING, next[e] - 1, received[e]);
        pinged[e] = 1; owes[e] = 0
    }
#endif
    :: d_step { EXISTS(e) && suspicions < SUSPICIONS && state[e] != LOST -> suspicions++; lose(e) }
    :: d_step { EXISTS(e) && gone[WORKER(OTHER(e))] && state[e] != LOST -> lose(e) }
    od
}

proctype network(byte x) {
end:
    do
    :: d_step { holder[2 * x + 1] == PENDING && nempty(wire[2 * x]) -> at_listener(x) }
    :: d_step { holder[2 * x + 1] == PENDING && empty(wire[2 * x]) -> close_side((2 * x + 1)) }
    :: d_step { opener[x] && !is_cut[x] && cuts < CUTS -> cuts++; is_cut[x] = 1 }
    /* in the middle of a frame to the end that connected, or from it */
    :: d_step {
        opener[x] && !is_cut[x] && cuts < CUTS && holder[2 * x] && state[holder[2 * x] - 1] == CONNECTED &&
        next[holder[2 * x] - 1] <= last[holder[2 * x] - 1] && nfull(wire[2 * x]) ->
        wire[2 * x]!HALF, 0, 0; cuts++; is_cut[x] = 1
    }
    :: d_step {
        opener[x] && !is_cut[x] && cuts < CUTS && holder[2 * x + 1] && holder[2 * x + 1] != PENDING &&
        next[holder[2 * x + 1] - 1] <= last[holder[2 * x + 1] - 1] && nfull(wire[2 * x + 1]) ->
        wire[2 * x + 1]!HALF, 0, 0; cuts++; is_cut[x] = 1
    }
    od
}

proctype restarter() {
end:
    do
    :: d_step { RESTARTS && !gone[B] -> end_worker(B) }
    :: d_step { RESTARTS && gone[B] && gone[C] && !restarted -> gone[C] = 0; restarted = 1 }
    od
}

proctype rest() {
    byte e;
    timeout ->
    d_step {
        do
        :: e < ENDS ->
            if
            :: gone[WORKER(e)] || !EXISTS(e) -> skip
            :: gone[WORKER(OTHER(e))] -> assert(state[e] == LOST)
            :: state[e] == LOST -> assert(state[OTHER(e)] == QUIET)    /* it had nothing to send to the worker that lost it */
            :: else ->
                assert(state[OTHER(e)] == LOST || last[e] == MESSAGES(e));
                assert(state[OTHER(e)] == LOST || (acked[e] == last[e] && received[OTHER(e)] == last[e]))
            fi;
            e++
        :: else -> break
        od;
        e = 0
    }
}

init {
    atomic {
        gone[C] = 1;
        byte x;
        do
        :: x < ENDS -> run end_of_session(x); x++
        :: else -> break
        od;
        x = 0;
        do
        :: x < CONNECTIONS -> run network(x); x++
        :: else -> break
        od;
        run restarter();
        run rest();
        x = 0
    }
}
