/* Messages with bulk in a session, as docs/protocol/session.md and CALL-17 specify them.
 *
 * A sends MESSAGES requests to B. Message m has BULK(m) bulk frames; the others are stream alone. Frames are numbered
 * when they are put on the connection, in any order that the rules allow: bulk of any announced message, or the next
 * stream. A connection may be cut at any time (CUTS): frames under way are lost, and both sides resume after the frames
 * that B has received. A body may be damaged on its way (DAMAGE). B acknowledges at any time.
 * Messages of one scope (SCOPE(m)) are started in their order, and each only when it is complete.
 *
 * Safety: messages are announced in their order, bytes of bulk arrive in theirs, each once; acknowledged frames have
 * arrived; no damaged frame is used; a scope's calls start in their order, and complete.
 * Liveness: when nothing can move any more every message was started and acknowledged.
 * OVERTAKES asserts what must not hold: that no message starts before one of another scope that was announced earlier.
 *
 * Left out: the parts of session.pml (handshakes, ends, gaps, repeats); messages whose stream is several frames;
 * fairness, which depends on bytes.
 *
 * A rule is removed by -DNO_...; each such variant must fail.
 */
#ifndef CUTS
#define CUTS 0
#endif
#ifndef DAMAGE
#define DAMAGE 0
#endif

#define MESSAGES 4
#define BULK(m) (m == 0 -> 2 : (m == 2 -> 1 : 0))
#define SCOPE(m) (m == 3)           /* 0, 1, 2 of one scope, 3 of another */
#define FRAMES 7

/* The sender: the frames of each message that were put, and those that are acknowledged. */
byte put_bulk[MESSAGES], acked_bulk[MESSAGES];
byte put_streams, acked_streams;    /* how many messages, from the first on */
byte filled, acked;                 /* numbers of frames */
byte message_of[FRAMES + 1];        /* SES-5: the contents of each unacknowledged frame */
bit is_bulk_of[FRAMES + 1];

/* The receiver */
byte received, announced;
byte bulk_arrived[MESSAGES];
bit started[MESSAGES];

#define WHOLE(m) (announced > m && bulk_arrived[m] == BULK(m))

/* Frames on their way: message, which piece of its bulk (0: its stream), damaged. Numbers count up by themselves. */
chan wire = [2] of { byte, byte, bit };
byte arriving;                      /* the number of the last frame that has arrived on this connection */
chan acks = [1] of { byte };
byte cuts, damaged;

hidden byte m, piece, n;
hidden byte bad;

inline put_frame(which, part) {
    filled = filled + 1;
    message_of[filled] = which;
    is_bulk_of[filled] = (part > 0);
    wire!which, part, 0
}

inline take_ack(number) {
    do
    :: acked < number ->
        acked = acked + 1;
#ifdef NO_LOG
        /* as if frames were those of one message after the other */
        if
        :: acked_streams > 0 && acked_bulk[acked_streams - 1] < BULK((acked_streams - 1)) ->
            acked_bulk[acked_streams - 1] = acked_bulk[acked_streams - 1] + 1
        :: else -> acked_streams = acked_streams + 1
        fi
#else
        if
        :: is_bulk_of[acked] -> acked_bulk[message_of[acked]] = acked_bulk[message_of[acked]] + 1
        :: else -> acked_streams = acked_streams + 1
        fi
#endif
    :: else -> break
    od;
    /* Acknowledged frames have arrived: their memory may change. */
    assert(acked_streams <= announced);
    n = 0;
    do
    :: n < MESSAGES -> assert(acked_bulk[n] <= bulk_arrived[n]); n++
    :: else -> break
    od;
    n = 0
}

/* SES-7 */
inline resume() {
#ifndef NO_REPORTING
    take_ack(received);
#endif
    filled = acked;
    arriving = acked;
    put_streams = acked_streams;
#ifndef NO_REWINDING
    n = 0;
    do
    :: n < MESSAGES -> put_bulk[n] = acked_bulk[n]; n++
    :: else -> break
    od;
    n = 0
#endif
}

inline cut() {
    do
    :: len(wire) > 0 -> wire?_, _, _
    :: else -> break
    od;
    do
    :: len(acks) > 0 -> acks?_
    :: else -> break
    od;
    resume()
}

proctype sender() {
end:
    do
    /* SES-11: streams one after the other */
    :: d_step { put_streams < MESSAGES && nfull(wire) -> put_frame(put_streams, 0); put_streams = put_streams + 1 }
    /* SES-12: bulk of any message that is announced */
    :: d_step { put_bulk[0] < BULK(0) && put_streams > 0 && nfull(wire) ->
        put_bulk[0] = put_bulk[0] + 1; put_frame(0, put_bulk[0]) }
    :: d_step { put_bulk[2] < BULK(2) &&
#ifndef NO_ANNOUNCING
        put_streams > 2 &&
#endif
        nfull(wire) ->
        put_bulk[2] = put_bulk[2] + 1; put_frame(2, put_bulk[2]) }
    :: d_step { nempty(acks) -> acks?piece; take_ack(piece) }
    od
}

inline take_frame() {
    wire?m, piece, bad;
    arriving = arriving + 1;
    if
#ifndef NO_CHECK
    :: bad -> cut()                 /* FRAME-3: then both resume */
#endif
    :: else ->
        assert(!bad);
        if
        :: arriving <= received -> skip            /* SES-8 */
        :: else ->
            received = arriving;
            if
            :: piece == 0 -> assert(m == announced); announced = announced + 1
            :: else -> assert(announced > m && piece == bulk_arrived[m] + 1); bulk_arrived[m] = piece
            fi
        fi
    fi
}

/* CALL-17: "It has its place in the order of CALL-6, and is not started before it is whole." */
#ifdef NO_WAITING
#define MAY_START(x) (announced > x && !started[x])
#else
#define MAY_START(x) (WHOLE(x) && !started[x])
#endif
#ifdef NO_PLACE
#define BEFORE(x) true
#else
#define BEFORE(x) (x == 0 || SCOPE(x) != SCOPE((x - 1)) || started[x - 1])
#endif

inline start(x) {
    started[x] = 1;
    assert(WHOLE(x));
    assert(x == 0 || SCOPE(x) != SCOPE((x - 1)) || started[x - 1]);
#ifdef OVERTAKES
    assert(x != 3 || started[0])
#endif
}

proctype receiver() {
end:
    do
    :: d_step { nempty(wire) -> take_frame() }
    :: d_step { acked < received && empty(acks) && nfull(acks) -> acks!received }
    :: d_step { MAY_START(0) && BEFORE(0) -> start(0) }
    :: d_step { MAY_START(1) && BEFORE(1) -> start(1) }
    :: d_step { MAY_START(2) && BEFORE(2) -> start(2) }
    :: d_step { MAY_START(3) && BEFORE(3) -> start(3) }
    od
}

proctype network() {
end:
    do
    :: d_step { cuts < CUTS -> cuts++; cut() }
    :: d_step { damaged < DAMAGE && nempty(wire) -> damaged++; wire?m, piece, bad; wire!m, piece, 1;
        if                          /* to the front again */
        :: len(wire) == 2 -> wire?m, piece, bad; wire!m, piece, bad
        :: else
        fi }
    od
}

proctype rest() {
    timeout ->
    d_step {
        n = 0;
        do
        :: n < MESSAGES -> assert(started[n] && acked_bulk[n] == BULK(n)); n++
        :: else -> break
        od;
        n = 0;
        assert(acked_streams == MESSAGES && acked == FRAMES)
    }
}

init {
    atomic {
        run sender();
        run receiver();
        run network();
        run rest()
    }
}
