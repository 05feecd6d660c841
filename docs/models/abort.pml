/* How the collectives of a group end on all members, with success or by an abort, as GRP-2, GRP-4 to GRP-6 and GRP-21
 * of docs/protocol/groups.md specify.
 *
 * Three members run the same program: SCOPES scopes, one after the other, of CALLS calls each, which block. A member
 * may call another operation than the others (DIFFERS in all), its call may be refused before it is entered (FAILS), and
 * its deadline may pass in any collective, once for each (LATES). After a failed call it may skip the rest of the
 * scope (SKIPS). A member reports to the leader, member 0, which queries all, and sends one abort to all. When nothing
 * else can move, deadlines pass.
 *
 * With -DSENDS a member that calls another operation only sends, as the root of a broadcast: its call succeeds when it
 * is entered. The collective that another member enters with that number does not match, also if it only sends.
 *
 * With -DFINAL the key is a final one: its first abort ends all that is called with it, before and afterwards.
 *
 * Safety: a call succeeds when all members have entered that number with the same operation, and it is the same call of
 * the program on all of them, except for one that only sends; no member enters a number twice; an abort that reports
 * members that differ fails a call on each, or its next one; no abort is about a number that has ended. A final key has one abort.
 * Liveness: when nothing can move any more all programs have ended.
 *
 * Left out: losses, which break the group on all; keys, each of which is a sequence of its own; several collectives of a
 * member under way at once; scopes in scopes; cancelling, which reports like a deadline.
 *
 * A rule is removed by -DNO_...; each such variant must fail.
 */
#ifndef CALLS
#define CALLS 2
#endif
#ifndef SCOPES
#define SCOPES 1
#endif
#ifndef DIFFERS
#define DIFFERS 0
#endif
#ifndef FAILS
#define FAILS 0
#endif
#ifndef LATES
#define LATES 0
#endif
#ifndef SKIPS
#define SKIPS 0
#endif
#ifndef TOTAL                       /* calls in all: the last scope may have fewer */
#define TOTAL (SCOPES * CALLS)
#endif
#define MEMBERS 3
#define ALL 7
#define NUMBERS 10
#define LINK(from, to) link[(from) * MEMBERS + (to)]
#define BIT(i) (1 << (i))
#define AT(me, n) ((me) * NUMBERS + (n))

/* The cause of a report or abort, with the number of the failed call of LEFT. */
#define LATE 0
#define FAILED 16
#define DIFFERENT 32
#define LEFT 48
#define CAUSE(x) ((x) / 16 * 16)
#define FAILED_NUMBER(x) ((x) % 16)

mtype = { ENTER, REPORT, QUERY, ANSWER, ABORT };

chan link[9] = [5] of { mtype, byte, byte, byte };
chan reports = [6] of { byte, byte };   /* those that the leader has received: number, cause */

byte calls[MEMBERS];                /* how many calls of the program have ended or were skipped */
byte next[MEMBERS];                 /* the number of its next call */
byte at[MEMBERS];                   /* the number that it is in; 0: none */
bit waits[MEMBERS];                 /* its program has called, and it has not entered */
bit frozen[MEMBERS];
byte awaited[MEMBERS];              /* the number whose abort it awaits, which it has reported as FAILED; 0: none */
bit leaves[MEMBERS];                /* it awaits the abort of LEFT */
byte hurt[MEMBERS];                 /* its last call has failed: the scope of that, from 1; 0: it has not */
byte hurt_number[MEMBERS];
bit missed[MEMBERS], reported[MEMBERS];
byte left_by[6], left_from[6], left_end[6]; /* by member and scope: the scope of call |left_by| was left */
byte call_of[30];                   /* by member and number: the call of its program, from 1; 0: none yet */
byte end_of[30];                    /* ... the end of the abort that has ended it; 0: none has */
byte met[30];                       /* ... the members that have entered, as bits */
byte others[30];                    /* ... of those, the ones with another operation */
byte did[30];                       /* ... 1 or 2: what it has entered; 3: only sent, and an abort has reported it */
byte differs, fails, lates, skips;
#ifdef FINAL
bit final[MEMBERS];                 /* it has the abort */
#define IS_FINAL(me) final[me]
#else
#define IS_FINAL(me) false
#endif
#ifdef NO_FAILING_AT_ONCE
#define FAILS_AT_ONCE(me) false
#else
#define FAILS_AT_ONCE(me) IS_FINAL(me)
#endif

/* As leader */
bit queries;
byte about, cause, answers, least, most;

byte started;
hidden byte j, k, scope;
hidden mtype kind;
hidden byte n, x, y, first, kept, kept_cause;

#define SCOPE_OF(call) (((call) - 1) / CALLS + 1)   /* both from 1 */
#define NEXT_SCOPE(me) SCOPE_OF(calls[me] + 1)
#define LEFT_AT(me, k) ((me) * 2 + (k))

inline send_to_others(me, message, a, b, c) {
    j = 0;
    do
    :: j < MEMBERS ->
        if
        :: j != me -> LINK(me, j)!message, a, b, c
        :: else
        fi;
        j++
    :: else -> break
    od;
    j = 0
}

inline note_entered(who, sender, number, does) {
    met[AT(who, number)] = met[AT(who, number)] | BIT(sender);
    if
    :: does == 2 -> others[AT(who, number)] = others[AT(who, number)] | BIT(sender)
    :: else
    fi
}

#ifdef SENDS
#define HAS_SENT(me, n) (did[AT(me, n)] == 2)
#else
#define HAS_SENT(me, n) false
#endif
#define DIFFERS_FROM_SENT(me, n) (HAS_SENT(me, n) && met[AT(me, n)] != BIT(me))

/* The call has failed. It has the number |number|, 0: it has none. */
inline fail_call(me, number) {
    calls[me]++;
    if
    :: number != 0 || hurt[me] != SCOPE_OF(calls[me]) ->
        hurt[me] = SCOPE_OF(calls[me]);
        hurt_number[me] = number
    :: else
    fi;
    at[me] = 0;
    reported[me] = 0
}

/* The number of a call that has failed before it was entered. */
inline take_number(me) {
    skip;
#ifndef NO_COUNTING
    call_of[AT(me, next[me])] = calls[me] + 1;
    next[me]++
#endif
}

/* k: the record by which |me| may not call in |in_scope| from its next number on; 2: none */
inline find_left(me, in_scope) {
    k = 0;
    do
    :: k < 2 && (left_by[LEFT_AT(me, k)] == 0 || call_of[AT(me, left_by[LEFT_AT(me, k)])] == 0 ||
                 SCOPE_OF(call_of[AT(me, left_by[LEFT_AT(me, k)])]) != in_scope ||
                 next[me] < left_from[LEFT_AT(me, k)]) -> k++
    :: else -> break
    od
}

inline report(me, number, why) {
    if
    :: me == 0 -> take_report(number, why)
    :: else -> LINK(me, 0)!REPORT, number, why, 0
    fi
}

/* Reports about numbers that have ended are ignored. */
inline take_report(number, why) {
    if
#ifndef NO_IGNORING
    :: IS_FINAL(0) || (CAUSE(why) != LEFT && end_of[AT(0, number)] != 0)
#endif
    :: else -> reports!number, why
    fi
}

/* GRP-5, GRP-6: a call that is not frozen gets its number and is entered, or fails. */
inline enter(me, what) {
    n = next[me];
    assert(n < NUMBERS && did[AT(me, n)] == 0 && end_of[AT(me, n)] == 0);
#ifndef NO_FAILING_AT_ONCE
    assert(!IS_FINAL(me));
#endif
    did[AT(me, n)] = what;
    call_of[AT(me, n)] = calls[me] + 1;
    at[me] = n;
    next[me] = n + 1;
    waits[me] = 0;
    hurt[me] = 0;
    hurt_number[me] = 0;
    note_entered(me, me, n, what);
    send_to_others(me, ENTER, n, what, 0);
#ifdef SENDS
    if
    :: what == 2 -> at[me] = 0; calls[me]++
    :: else
    fi;
#endif
    n = 0
}

/* Whether the program, which has called, has left the scope of its failed call. */
#ifdef NO_LEAVING
#define HAS_LEFT(me) false
#else
#define HAS_LEFT(me) (hurt[me] != 0 && hurt_number[me] != 0 && hurt[me] != NEXT_SCOPE(me))
#endif

/* It takes no numbers that the abort has ended in the scope that it has left. It reports that, unless another one has. */
inline leave(me) {
    n = hurt_number[me];
    if
    :: next[me] < end_of[AT(me, n)] -> next[me] = end_of[AT(me, n)]
    :: else
    fi;
    scope = hurt[me];
    find_left(me, scope);
    if
    :: k < 2 ->
        if
        :: next[me] < left_end[LEFT_AT(me, k)] -> next[me] = left_end[LEFT_AT(me, k)]
        :: else
        fi;
        hurt[me] = 0;
        hurt_number[me] = 0
    :: else ->
        frozen[me] = 1;
        leaves[me] = 1;
        x = next[me];
        y = LEFT + n;
        report(me, x, y);
        x = 0; y = 0
    fi;
    n = 0; k = 0; scope = 0
}

/* Numbers that were called in a scope which was left are no member's next ones. */
inline skip_left(me) {
    k = 0;
    do
    :: k < 2 ->
        if
        :: left_by[LEFT_AT(me, k)] != 0 && next[me] >= left_from[LEFT_AT(me, k)] && next[me] < left_end[LEFT_AT(me, k)] ->
            next[me] = left_end[LEFT_AT(me, k)];
            k = 0
        :: else -> k++
        fi
    :: else -> break
    od;
    k = 0
}

inline keep_left(me, number, begin, end_at) {
    k = 0;
    do
    :: left_by[LEFT_AT(me, k)] != 0 && left_by[LEFT_AT(me, k)] != number -> k++
    :: else -> break
    od;
    assert(k < 2);
    if
    :: left_by[LEFT_AT(me, k)] == 0 ->
        left_by[LEFT_AT(me, k)] = number;
        left_from[LEFT_AT(me, k)] = begin
    :: else
    fi;
    left_end[LEFT_AT(me, k)] = (end_at > left_end[LEFT_AT(me, k)] -> end_at : left_end[LEFT_AT(me, k)]);
    k = 0
}

/* GRP-21 */
#ifdef FINAL
inline apply(me, begin, end_at, why) {
    assert(!final[me]);
    final[me] = 1;
    if
#ifdef NO_ENDING_ALL
    :: at[me] != 0 && at[me] >= begin -> fail_call(me, at[me])
#else
    :: at[me] != 0 -> fail_call(me, at[me])
#endif
    :: else
    fi;
    if
    :: waits[me] -> waits[me] = 0; fail_call(me, 0)
    :: else
    fi;
    frozen[me] = 0;
    awaited[me] = 0;
    leaves[me] = 0
}
#else

/* GRP-6 */
inline apply(me, begin, end_at, why) {
    y = (call_of[AT(me, begin)] == 0 || end_of[AT(me, begin)] != 0);   /* its call fails at once, or has failed */
    j = begin;
    do
    :: j < end_at ->
        end_of[AT(me, j)] = (end_at > end_of[AT(me, j)] -> end_at : end_of[AT(me, j)]);
        j++
    :: else -> break
    od;
    j = 0;
    if
    :: CAUSE(why) == LEFT -> keep_left(me, FAILED_NUMBER(why), begin, end_at)
    :: else
    fi;
    x = 0;
    if
    :: at[me] != 0 && end_of[AT(me, at[me])] != 0 -> x = 1; fail_call(me, at[me])
    :: else
    fi;
    if
    :: awaited[me] != 0 && end_of[AT(me, awaited[me])] != 0 -> x = 1; awaited[me] = 0
    :: else
    fi;
#ifndef NO_MISSING
    /* Its call of the reported number has succeeded: its next call fails with the difference. */
    if
    :: CAUSE(why) == DIFFERENT && !x && call_of[AT(me, begin)] != 0 && did[AT(me, begin)] >= 2 -> missed[me] = 1
    :: else
    fi;
#endif
    assert(CAUSE(why) != DIFFERENT || x || y || missed[me]);
    y = 0;
#ifdef SENDS
    j = begin;
    do
    :: j < end_at && j < NUMBERS ->
        if
        :: did[AT(me, j)] == 2 -> did[AT(me, j)] = 3
        :: else
        fi;
        j++
    :: else -> break
    od;
    j = 0;
#endif
    if
    :: leaves[me] ->
        scope = hurt[me];
        find_left(me, scope);
        leaves[me] = (k == 2);
        k = 0; scope = 0
    :: else
    fi;
    frozen[me] = (awaited[me] != 0 || leaves[me]);
    x = 0
}
#endif

/* y: the last number that |me| has called in the scope of |number|, or for LEFT in the scope that was left. */
inline find_last(me, number, why) {
    scope = 0;
    y = number - 1;
    if
    :: CAUSE(why) == LEFT && call_of[AT(me, FAILED_NUMBER(why))] != 0 ->
        scope = SCOPE_OF(call_of[AT(me, FAILED_NUMBER(why))])
    :: CAUSE(why) != LEFT && call_of[AT(me, number)] != 0 -> scope = SCOPE_OF(call_of[AT(me, number)])
    :: else
    fi;
    do
    :: scope != 0 && call_of[AT(me, y + 1)] != 0 && SCOPE_OF(call_of[AT(me, y + 1)]) == scope -> y++
    :: else -> break
    od;
    if
    :: scope != 0 && waits[me] && y + 1 == next[me] && NEXT_SCOPE(me) == scope -> y++
    :: else
    fi;
    scope = 0
}

inline take_answer(number, last) {
    answers++;
    least = (number < least -> number : least);
    most = (last > most -> last : most)
}

inline conclude() {
    assert(CAUSE(cause) == LEFT || end_of[AT(0, about)] == 0);
    first = about;
    n = most + 1;
    if
    :: CAUSE(cause) != LEFT && n <= about -> n = about + 1
    :: else
    fi;
    if
    :: CAUSE(cause) == DIFFERENT && least < about -> first = least
    :: else
    fi;
    kept_cause = cause;
    queries = 0; about = 0; cause = 0; answers = 0; least = 0; most = 0;
    /* Queued reports about numbers that end now. */
    x = len(reports);
    do
    :: x > 0 ->
        reports?kept, y;
        if
#ifndef NO_IGNORING
#ifdef FINAL
        :: true
#else
        :: CAUSE(y) != LEFT && kept >= first && kept < n
#endif
#endif
        :: else -> reports!kept, y
        fi;
        x--
    :: else -> break
    od;
    kept = 0; y = 0;
    send_to_others(0, ABORT, first, n, kept_cause);
    apply(0, first, n, kept_cause);
    first = 0; n = 0; kept_cause = 0
}

inline receive(me, from) {
    LINK(from, me)?kind, n, x, y;
    if
    :: kind == ENTER ->
        if
        :: IS_FINAL(me) || (n < next[me] && at[me] != n && !HAS_SENT(me, n))   /* it is over */
        :: else -> note_entered(me, from, n, x)
        fi
    :: kind == REPORT -> take_report(n, x)
    :: kind == QUERY ->
#ifndef NO_FREEZING
        frozen[me] = 1;
#endif
        find_last(me, n, x);
        LINK(me, 0)!ANSWER, next[me], y, 0
    :: kind == ANSWER -> take_answer(n, x)
    :: kind == ABORT ->
        first = n; n = x; kept_cause = y;
        apply(me, first, n, kept_cause);
        first = 0; kept_cause = 0
    fi;
    kind = 0; n = 0; x = 0; y = 0
}

/* k < 2: the next call is in a scope that was left; 2: it has the number next[me]. */
inline place(me) {
    scope = NEXT_SCOPE(me);
    find_left(me, scope);
    scope = 0;
    if
    :: k == 2 -> skip_left(me); k = 2
    :: else
    fi
}

/* The refused call has its number, and the next calls wait for the abort. */
inline refuse(me) {
    waits[me] = 0;
    frozen[me] = 1;
    n = next[me];
    awaited[me] = n;
    take_number(me);
    fail_call(me, n);
    report(me, n, FAILED)
}

#define MET(me) (at[me] != 0 && met[AT(me, at[me])] == ALL)
#define MATCHES(me) (others[AT(me, at[me])] == 0 || others[AT(me, at[me])] == ALL)
#define PATIENT(me) (at[me] != 0 && !reported[me])
#define CALLS_NOW(me) (calls[me] < TOTAL && at[me] == 0 && !waits[me])
#define MAY_ENTER(me) (waits[me] && !frozen[me])

inline succeed(me) {
    n = at[me];
    assert(did[AT(0, n)] == did[AT(1, n)] && did[AT(1, n)] == did[AT(2, n)]);
    assert(call_of[AT(0, n)] == call_of[AT(1, n)] && call_of[AT(1, n)] == call_of[AT(2, n)]);
    at[me] = 0;
    reported[me] = 0;
    calls[me]++;
    n = 0
}

proctype member(byte me) {
    atomic { next[me] = 1; started++; started == MEMBERS }
end:
    do
    :: d_step { nempty(LINK(0, me)) -> receive(me, 0) }
    :: d_step { nempty(LINK(1, me)) -> receive(me, 1) }
    :: d_step { nempty(LINK(2, me)) -> receive(me, 2) }

    /* The program calls, or skips the rest of a scope in which a call has failed. GRP-5, GRP-6, GRP-21 */
    :: d_step { CALLS_NOW(me) -> waits[me] = 1 }
    :: d_step {
        CALLS_NOW(me) && hurt[me] != 0 && hurt[me] == NEXT_SCOPE(me) && skips < SKIPS ->
            skips++;
            calls[me] = hurt[me] * CALLS
    }
    :: d_step { MAY_ENTER(me) && FAILS_AT_ONCE(me) -> waits[me] = 0; fail_call(me, 0) }
    :: d_step { MAY_ENTER(me) && !FAILS_AT_ONCE(me) && HAS_LEFT(me) -> leave(me) }
    :: d_step {
        MAY_ENTER(me) && !FAILS_AT_ONCE(me) && !HAS_LEFT(me) ->
            place(me);
            if
            :: k < 2 -> waits[me] = 0; fail_call(me, 0)
            :: k == 2 && end_of[AT(me, next[me])] != 0 ->
                waits[me] = 0; n = next[me]; take_number(me); fail_call(me, n)
            :: k == 2 && end_of[AT(me, next[me])] == 0 && missed[me] -> missed[me] = 0; refuse(me)
            :: else -> enter(me, 1)
            fi;
            k = 0; n = 0
    }
    /* Its call differs from the others, or is refused before it is entered. */
    :: d_step {
        MAY_ENTER(me) && !FAILS_AT_ONCE(me) && !HAS_LEFT(me) && !missed[me] && differs < DIFFERS ->
            place(me);
            if
            :: k == 2 && end_of[AT(me, next[me])] == 0 -> differs++; enter(me, 2)
            :: else
            fi;
            k = 0
    }
    :: d_step {
        MAY_ENTER(me) && !FAILS_AT_ONCE(me) && !HAS_LEFT(me) && fails < FAILS ->
            place(me);
            if
            :: k == 2 && end_of[AT(me, next[me])] == 0 -> fails++; refuse(me)
            :: else
            fi;
            k = 0; n = 0
    }
#ifdef SENDS
    :: d_step {
        DIFFERS_FROM_SENT(me, 1) || DIFFERS_FROM_SENT(me, 2) || DIFFERS_FROM_SENT(me, 3) ||
        DIFFERS_FROM_SENT(me, 4) || DIFFERS_FROM_SENT(me, 5) || DIFFERS_FROM_SENT(me, 6) ||
        DIFFERS_FROM_SENT(me, 7) || DIFFERS_FROM_SENT(me, 8) || DIFFERS_FROM_SENT(me, 9) ->
            n = 1;
            do
            :: DIFFERS_FROM_SENT(me, n) -> break
            :: else -> n++
            od;
            did[AT(me, n)] = 3;
            report(me, n, DIFFERENT);
            n = 0
    }
#endif

    /* All have entered. GRP-2 */
    :: d_step { MET(me) && MATCHES(me) -> succeed(me) }
#ifdef NO_COMPARING
    :: d_step { MET(me) && !MATCHES(me) -> succeed(me) }
#else
    :: d_step { MET(me) && !MATCHES(me) && PATIENT(me) -> reported[me] = 1; report(me, at[me], DIFFERENT) }
#endif
    /* A deadline, while others may still enter, or when nothing else can move. */
    :: d_step { PATIENT(me) && lates < LATES -> lates++; reported[me] = 1; report(me, at[me], LATE) }
    :: d_step { timeout && PATIENT(me) -> reported[me] = 1; report(me, at[me], LATE) }

    /* The leader. GRP-4 */
    :: d_step {
        me == 0 && !queries && nempty(reports) ->
            reports?about, cause;
            queries = 1;
            answers = 1;
            find_last(0, about, cause);
            least = next[0];
            most = y;
            y = 0;
            frozen[0] = 1;
#ifdef NO_QUERYING
            answers = MEMBERS
#else
            send_to_others(0, QUERY, about, cause, 0)
#endif
    }
    :: d_step { me == 0 && queries && answers == MEMBERS -> conclude() }
    od
}

/* Rest: no member can move any more, and no deadline can pass. */
init {
    atomic { run member(0); run member(1); run member(2) }
    timeout && !PATIENT(0) && !PATIENT(1) && !PATIENT(2);
    assert(calls[0] == TOTAL && calls[1] == TOTAL && calls[2] == TOTAL);
#ifdef FINAL
    assert(final[0] == final[1] && final[1] == final[2])
#endif
}
