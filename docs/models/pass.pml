/* A backward pass over the graphs of several workers, as docs/protocol/passes.md specifies it.
 *
 * The initiator I makes PASSES passes in one scope, over a diamond: I uses a tensor of P (slot PI) and one of Q (QI);
 * P has made its own from another one of Q (QP), which it uses twice; Q has made both from one tensor of I (IQ;
 * -DLEAVES: from none), and has sent P a third that nothing uses. With -DLATE Q's gradient for IQ arrives later, and
 * Q's part is REDUCING until then. I has the marks upstream of QI, and requests those upstream of PI from P. After a
 * pass that failed the next one uses the same graph, else a new one. Sessions are queues, one for each direction of
 * each pair. Each worker's part may fail, and I may cancel, at any time (FAULTS in all); any worker may crash (CRASHES),
 * and each of the others detects it at a time of its own. With -DMANY marks are sent alone, not with gradients.
 *
 * Safety: when a pass has succeeded at the initiator, it is complete on every live worker, and no worker finalizes a pass
 * that has failed. A call after a pass finds its gradients on each worker if it was successful, and on none if it was
 * not. A marked slot gets one gradient in a pass, the others none. A pass fails only if something has failed in it,
 * or a worker is lost: so a failed pass leaves the graph as it was.
 * Liveness: when no worker can move any more, the initiator has one outcome of each pass, no worker has a part of any,
 * and a graph is deleted on all workers if a pass over it has succeeded, on none if not; only the loss of the
 * initiator leaves less of it.
 *
 * Left out: bounds and memory (PASS-9, and the second abort of PASS-8, for when there is none for the first), times
 * (PASS-10: a deadline is a cancel), several scopes and initiators, folding of passes (PASS-7), walking a graph twice
 * (PASS-5, retain_graph), order of additions (PASS-3), releases of sends (GRAPH-2), live workers declared dead
 * (reference.pml), false messages of peers.
 *
 * A rule is removed by -DNO_...; each such variant must fail. `make model` runs them all.
 */
#ifndef FAULTS
#define FAULTS 1
#endif
#ifndef CRASHES
#define CRASHES 0
#endif
#ifndef PASSES
#define PASSES 2
#endif

#define I 0
#define P 1
#define Q 2
#define WORKERS 3

/* Messages, with the names of that page. */
#define GET_MARKS 1            /* gw.marks */
#define MARKS_REPLY 2           /* the reply, and whether P had one */
#define MARKS 3          /* a gradient message without a gradient */
#define GRADIENT 4
#define DONE 5
#define ABORT 6
#define SCOPE_CLOSED 7
#define READ 8           /* a call that reads the gradients */
#if PASSES == 3
#define ROOM 16
#else
#define ROOM 11          /* all that one worker may send another */
#endif
/* kind, pass, slot or flag, passes below this have ended, bit n: of these n has failed */
chan queue[WORKERS * WORKERS] = [ROOM] of { byte, byte, byte, byte, byte };
#define TO(from, to) queue[(from) * WORKERS + (to)]

#define PI 0
#define QP 1
#define QI 2
#define IQ 3
bit came[4 * (PASSES + 1)];
#define CAME(slot, n) came[(n) * 4 + (slot)]

bit alive[WORKERS];
bit lost[WORKERS * WORKERS];
#define IS_LOST(to, who) lost[(to) * WORKERS + (who)]
byte faults, crashes;
bit failed_in[PASSES + 1];       /* a part of this pass has failed, or it was cancelled */

/* The graph of a pass, and whether a worker still has its part of that graph. */
byte graph[PASSES + 1];
bit has[WORKERS * (PASSES + 1)];
#define HAS(w, g) has[(w) * (PASSES + 1) + (g)]

/* A participant's part, with the names of src/distributed/autograd/states.c. */
#define NONE 0
#define MARKING 1
#define RUNNING 2
#define REDUCING 3       /* Q's answer arrives later (PASS-11) */
#define COMPLETE 4
#define FINALIZED 5
byte part[WORKERS * (PASSES + 1)];
#define PART(w, n) part[(w) * (PASSES + 1) + (n)]
byte ended[WORKERS], has_failed[WORKERS];    /* as the initiator has reported: passes below have ended, and these have failed */
bit aborted[WORKERS * (PASSES + 1)];
#define ABORTED(w, n) aborted[(w) * (PASSES + 1) + (n)]

/* The initiator. */
#define STARTING 0
#define AWAITING_MARKS 1
#define PLANNING 2
#define EXECUTING 3
#define DECIDED 4
#define OVER 5
byte phase;
byte pass = 1;
bit sent_pi, sent_qi, undone_p, undone_q, error;
byte failures;           /* bit n: pass n has failed */
#define OPEN 0
#define SUCCEEDED 1
#define FAILED 2
byte outcome[PASSES + 1];

hidden byte m, kind, n, slot, below, which;    /* within one step */

inline send(from, to, what, number, flag, end, mask) {
    if
    :: alive[to] && !IS_LOST(from, to) -> TO(from, to)!what, number, flag, end, mask
    :: else
    fi
}

/* ---- Participants ---- */

/* The worker deletes its part of the graph. */
inline finalize(w, number) {
    assert(outcome[number] == SUCCEEDED);
    HAS(w, graph[number]) = 0
}

inline drop(w, number) {
    PART(w, number) = NONE
}

/* PASS-6 */
inline fail_part(w, number) {
    ABORTED(w, number) = 1;
    drop(w, number);
#ifndef NO_NOTIFYING
    send(w, I, ABORT, number, 0, 0, 0)
#endif
}

/* The initiator reports that passes have ended. */
inline note_ended(w, end, mask) {
    if
    :: end > ended[w] -> ended[w] = end; has_failed[w] = mask
    :: else
    fi;
    m = 1;
    do
    :: m <= PASSES ->
        if
        :: m < end && PART(w, m) != NONE && (mask >> m) & 1 -> assert(PART(w, m) != FINALIZED); drop(w, m)
        :: m < end && PART(w, m) == COMPLETE && !((mask >> m) & 1) -> finalize(w, m); PART(w, m) = FINALIZED
        :: m < end && (PART(w, m) == MARKING || PART(w, m) == RUNNING || PART(w, m) == REDUCING) && !((mask >> m) & 1) ->
            assert(outcome[m] == FAILED);
            drop(w, m)
        :: else
        fi;
        m++
    :: else -> break
    od;
    m = 0
}

/* PASS-5: messages of others may be faster than the initiator's abort. */
inline note_heard(w, end, mask) {
    m = 1;
    do
    :: m <= PASSES ->
        if
#ifdef NO_DOUBT
        :: m < end && PART(w, m) == COMPLETE -> finalize(w, m); PART(w, m) = FINALIZED
#else
        :: m < end && PART(w, m) == COMPLETE && !((mask >> m) & 1) -> finalize(w, m); PART(w, m) = FINALIZED
#endif
        :: else
        fi;
        m++
    :: else -> break
    od;
    m = 0
}

#ifdef MANY
#define HAS_MARKS(kind) (kind == MARKS)
#else
#define HAS_MARKS(kind) true
#endif
/* PASS-6, PASS-8 */
#ifdef NO_REMEMBERING
#define MAY_OPEN(w, n) true
#else
#define MAY_OPEN(w, n) (n >= ended[w] && !ABORTED(w, n) && !IS_LOST(w, I))
#endif

inline forget_gradients(w, number) {
    if
    :: w == P -> CAME(PI, number) = 0
    :: else -> CAME(QP, number) = 0; CAME(QI, number) = 0
    fi
}

inline gradient_received(w, from) {
    if
    :: from == I -> note_ended(w, below, which)
    :: else -> note_heard(w, below, which)
    fi;
    if
    :: PART(w, n) == NONE && MAY_OPEN(w, n) -> PART(w, n) = MARKING; forget_gradients(w, n)
    :: PART(w, n) == NONE && !MAY_OPEN(w, n) && n >= ended[w] -> send(w, I, ABORT, n, 0, 0, 0)
    :: else
    fi;
    if
    :: PART(w, n) == MARKING && HAS_MARKS(kind) -> PART(w, n) = RUNNING
    :: else
    fi;
    if
#ifdef NO_WAITING
    :: kind == GRADIENT && PART(w, n) == RUNNING ->
#else
    :: kind == GRADIENT && (PART(w, n) == MARKING || PART(w, n) == RUNNING) ->
#endif
        assert(!CAME(slot, n));
        CAME(slot, n) = 1
    :: kind == GRADIENT && PART(w, n) >= REDUCING -> assert(false)
    :: else
    fi
}

inline read(w) {
    m = 1;
    do
    :: m <= PASSES ->
        if
        :: m > n
#ifdef NO_SHOWING
        :: m <= n && outcome[m] == SUCCEEDED -> assert(PART(w, m) == FINALIZED)
#else
        :: m <= n && outcome[m] == SUCCEEDED -> assert(PART(w, m) == COMPLETE || PART(w, m) == FINALIZED)
#endif
        :: else -> assert(PART(w, m) != COMPLETE && PART(w, m) != FINALIZED)
        fi;
        m++
    :: else -> break
    od;
    m = 0
}

/* PASS-7 */
inline close_scope(w) {
    m = 1;
    do
    :: m <= PASSES ->
        if
        :: PART(w, m) == COMPLETE -> finalize(w, m); drop(w, m)
        :: PART(w, m) == FINALIZED -> drop(w, m)
        :: else
        fi;
        m++
    :: else -> break
    od;
    m = 0
}

inline at_participant(w, from) {
    if
    :: kind == GET_MARKS -> send(w, I, MARKS_REPLY, n, HAS(w, graph[n]), 0, 0)
    :: kind == MARKS || kind == GRADIENT -> gradient_received(w, from)
    :: kind == ABORT ->
        if
        :: n >= ended[w] -> ABORTED(w, n) = 1
        :: else
        fi;
        assert(PART(w, n) != FINALIZED);
        drop(w, n)
    :: kind == READ -> read(w)
    :: kind == SCOPE_CLOSED ->
#ifndef NO_CLOSING
        note_ended(w, below, which);
        close_scope(w)
#endif
    fi
}

/* PASS-2, PASS-4: the gradients that follow are sent, and then done. */
#ifdef NO_MARKS
#define HAS_ALL(w, number) (w == P && CAME(PI, number))      /* Q awaits one for the unused tensor */
#else
#define HAS_ALL(w, number) (w == P && CAME(PI, number) || w == Q && CAME(QP, number) && CAME(QI, number))
#endif

inline complete(w, number) {
    PART(w, number) = COMPLETE;
    send(w, I, DONE, number, 0, 0, 0)
}

inline run_part(w, number) {
    if
    :: !HAS(w, graph[number]) -> fail_part(w, number)
    :: HAS(w, graph[number]) && w == P && IS_LOST(P, Q) -> fail_part(w, number)
    :: else ->
        if
        :: w == P ->
            send(P, Q, GRADIENT, number, QP, ended[P], has_failed[P]);
#ifdef NO_ADDING
            send(P, Q, GRADIENT, number, QP, ended[P], has_failed[P]);
#endif
#if !defined(LEAVES) && !defined(LATE)
        :: w == Q -> send(Q, I, GRADIENT, number, IQ, 0, 0)
#endif
        :: else
        fi;
#ifdef NO_KEEPING
        HAS(w, graph[number]) = 0;
#endif
#ifdef LATE
        if
        :: w == Q -> PART(w, number) = REDUCING
        :: else -> complete(w, number)
        fi
#else
        complete(w, number)
#endif
    fi
}

inline answer_late(w, number) {
#ifndef LEAVES
    send(w, I, GRADIENT, number, IQ, 0, 0);
#endif
    complete(w, number)
}

/* ---- The initiator ---- */
#define IS_THIS(number) (phase == EXECUTING && number == pass)

inline at_initiator(from) {
    if
    :: kind == MARKS_REPLY && phase == AWAITING_MARKS && n == pass -> phase = PLANNING; error = error || !slot
    :: kind == GRADIENT && IS_THIS(n) -> assert(!CAME(IQ, n)); CAME(IQ, n) = 1
    :: kind == DONE && IS_THIS(n) && from == P -> undone_p = 0
    :: kind == DONE && IS_THIS(n) && from == Q -> undone_q = 0
    :: kind == ABORT && IS_THIS(n) -> error = 1
    :: else
    fi
}

#ifdef NO_DONE
#define ALL_DONE true
#else
#define ALL_DONE (!undone_p && !undone_q)
#endif
#ifdef LEAVES
#define IS_COMPLETE(n) (sent_pi && sent_qi && ALL_DONE)
#else
#define IS_COMPLETE(n) (sent_pi && sent_qi && CAME(IQ, n) && ALL_DONE)
#endif

inline fail_pass() {
    assert(outcome[pass] == OPEN);
    outcome[pass] = FAILED;
    failures = failures | (1 << pass);
    phase = DECIDED
}

inline abort_all() {
    fail_pass();
#ifndef NO_ABORTING
    send(I, P, ABORT, pass, 0, 0, 0);
    send(I, Q, ABORT, pass, 0, 0, 0)
#endif
}

#define IS_COMPLETE_AT(w) (!alive[w] || PART(w, pass) == COMPLETE)

inline succeed() {
    assert(outcome[pass] == OPEN);
    assert(IS_COMPLETE_AT(P) && IS_COMPLETE_AT(Q));
    outcome[pass] = SUCCEEDED;
    HAS(I, graph[pass]) = 0;
    phase = DECIDED
}

inline begin() {
    if
    :: error || IS_LOST(I, P) || IS_LOST(I, Q) || !HAS(I, graph[pass]) -> fail_pass()
    :: else ->
        phase = EXECUTING; undone_p = 1; undone_q = 1;
#ifdef MANY
        send(I, P, MARKS, pass, 0, pass, failures);
        send(I, Q, MARKS, pass, 0, pass, failures)
#endif
    fi
}

inline go_on() {
    send(I, P, READ, pass, 0, 0, 0);
    send(I, Q, READ, pass, 0, 0, 0);
    sent_pi = 0; sent_qi = 0; undone_p = 0; undone_q = 0; error = 0;
    if
    :: pass < PASSES ->
        graph[pass + 1] = (outcome[pass] == SUCCEEDED -> graph[pass] + 1 : graph[pass]);
        pass++;
        phase = STARTING
    :: else ->
        phase = OVER;
        send(I, P, SCOPE_CLOSED, 0, 0, pass + 1, failures);
        send(I, Q, SCOPE_CLOSED, 0, 0, pass + 1, failures)
    fi
}

proctype initiator() {
end:
    do
    :: d_step {
        alive[I] && phase == STARTING ->
        if
        :: IS_LOST(I, P) -> fail_pass()
        :: else -> send(I, P, GET_MARKS, pass, 0, 0, 0); phase = AWAITING_MARKS
        fi
    }
    :: d_step { alive[I] && phase == PLANNING -> begin() }
    :: d_step {
        alive[I] && phase == EXECUTING && !error && !sent_pi ->
        sent_pi = 1; send(I, P, GRADIENT, pass, PI, pass, failures)
    }
    :: d_step {
        alive[I] && phase == EXECUTING && !error && !sent_qi ->
        sent_qi = 1; send(I, Q, GRADIENT, pass, QI, pass, failures)
    }
    :: d_step { alive[I] && phase == EXECUTING && error -> abort_all() }
    :: d_step { alive[I] && phase == EXECUTING && !error && IS_COMPLETE(pass) -> succeed() }
    :: d_step { alive[I] && phase == AWAITING_MARKS && error -> fail_pass() }
    :: d_step {
        alive[I] && phase >= AWAITING_MARKS && phase <= EXECUTING && !error && faults < FAULTS ->
        faults++; failed_in[pass] = 1; error = 1
    }
    :: d_step { alive[I] && phase == DECIDED -> go_on() }
    od
}

/* ---- Events, each at any time ---- */
proctype deliver(byte x, y) {
end:
    do
    :: d_step {
        alive[y] && nempty(TO(x, y)) ->
        TO(x, y)?kind, n, slot, below, which;
        if
        :: y == I -> at_initiator(x)
        :: else -> at_participant(y, x)
        fi
    }
    od
}

proctype participant(byte w, number) {
end:
    do
    :: d_step { alive[w] && PART(w, number) == RUNNING && HAS_ALL(w, number) -> run_part(w, number) }
#ifdef LATE
#ifdef NO_REDUCING
    :: d_step { alive[w] && w == Q && PART(w, number) == REDUCING -> complete(w, number) }
#endif
    :: d_step { alive[w] && PART(w, number) == REDUCING -> answer_late(w, number) }
#endif
    :: d_step {
        alive[w] && (PART(w, number) == MARKING || PART(w, number) == RUNNING || PART(w, number) == REDUCING) && faults < FAULTS ->
        faults++; failed_in[number] = 1; fail_part(w, number)
    }
    od
}

inline drain(from, to) {
    do
    :: len(TO(from, to)) > 0 -> TO(from, to)?_, _, _, _, _
    :: else -> break
    od
}

inline lose(y, x) {
    IS_LOST(y, x) = 1;
    drain(x, y);
    if
#ifndef NO_LOSING
    :: y == I && phase >= AWAITING_MARKS && phase <= EXECUTING && (x == P || phase == EXECUTING) -> error = 1    /* PASS-6 */
#endif
#ifndef NO_RELEASING
    :: y != I && x == I ->       /* PASS-5: others may have received that it succeeded; PASS-7 */
        m = 1;
        do
        :: m <= PASSES ->
#ifndef NO_GIVING_UP
            if
            :: PART(y, m) == COMPLETE -> HAS(y, graph[m]) = 0
            :: else
            fi;
#endif
            drop(y, m);
            m++
        :: else -> break
        od;
        m = 0
#endif
    :: else
    fi
}

proctype fate(byte x) {
end:
    do
    :: d_step {
        alive[x] && crashes < CRASHES ->
        crashes++; alive[x] = 0;
        m = 0;
        do
        :: m < WORKERS -> drain(m, x); m++
        :: else -> break
        od;
        m = 1;
        do
        :: m <= PASSES -> drop(x, m); m++
        :: else -> break
        od;
        m = 0
    }
    :: d_step { !alive[x] && alive[(x + 1) % 3] && !IS_LOST((x + 1) % 3, x) -> n = (x + 1) % 3; lose(n, x); n = 0 }
    :: d_step { !alive[x] && alive[(x + 2) % 3] && !IS_LOST((x + 2) % 3, x) -> n = (x + 2) % 3; lose(n, x); n = 0 }
    od
}

proctype rest() {
    byte w, number;
    timeout ->
    d_step {
        assert(!alive[I] || phase == OVER);
        number = 1;
        do
        :: number <= PASSES ->
            assert(!alive[I] || outcome[number] != OPEN);
            assert(outcome[number] != FAILED || failed_in[number] || crashes);
            w = P;
            do
            :: w <= Q ->
                assert(!alive[w] || PART(w, number) == NONE);
                assert(!alive[w] || outcome[number] != SUCCEEDED || !HAS(w, graph[number]));
                assert(!alive[w] || !alive[I] || HAS(w, graph[number]) == HAS(I, graph[number]));
                w++
            :: else -> break
            od;
            assert(!alive[I] || outcome[number] != SUCCEEDED || !HAS(I, graph[number]));
            assert(!alive[I] || number < PASSES || outcome[number] != FAILED || HAS(I, graph[number]));
            number++
        :: else -> break
        od;
        w = 0; number = 0
    }
}

init {
    byte x, y;
    atomic {
        graph[1] = 1;
        do
        :: x < WORKERS ->
            alive[x] = 1;
            y = 1;
            do
            :: y <= PASSES -> HAS(x, y) = 1; y++
            :: else -> break
            od;
            x++
        :: else -> break
        od;
        x = 0;
        do
        :: x < WORKERS ->
            run fate(x);
            y = 0;
            do
            :: y < WORKERS ->
                if
                :: x != y -> run deliver(x, y)
                :: else
                fi;
                y++
            :: else -> break
            od;
            y = 1;
            do
            :: x != I && y <= PASSES -> run participant(x, y); y++
            :: else -> break
            od;
            x++
        :: else -> break
        od;
        run initiator();
        run rest();
        x = 0; y = 0
    }
}
