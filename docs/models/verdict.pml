/* How the collectives of a group end for all, well or by a verdict, as GRP-2, GRP-4 to GRP-6 and
 * GRP-21 of docs/protocol/groups.md have it.
 *
 * The programs of three members make the same number of calls (CALLS), one after the other, each of which all have to
 * enter. A member may do something else than the others (DIFFERS in all), find its scope failed before it calls
 * (FAILS), and run out of patience with any collective, once for each (LATES). It reports that to the leader, member
 * 0, which asks all where they are, and sends one verdict to all. When nothing else can move, deadlines pass.
 *
 * With -DSENDS who does something else only sends, as the root of a broadcast: it has succeeded as soon as it has
 * entered, and goes on. What another one enters of that number is not the same, also if it only sends.
 *
 * With -DFINAL the key is a final one: a verdict is the last word about it.
 *
 * Safety: who succeeds in a number has been met in it by all, who have done the same; nobody enters a number twice, nor
 * one below those that are over; a verdict ends something that was not over, and nothing behind it. If deadlines pass only when nothing else
 * moves, and nobody only sends, what is met in a number is the same call of all programs. When members do not do the
 * same, the programs of all hear of it, by what it ends or by their next calls. Of a final key there is one verdict, and
 * nobody enters anything behind it.
 * Liveness: when nothing can move any more all programs have made their calls, and all members are at the same number, or
 * all have the last word.
 *
 * Left out: losses, which break the group for all; keys, which are sequences of their own; several collectives of a
 * member under way at once; cancelling, which reports like a deadline.
 *
 * A rule is removed by -DNO_...; each such variant must fail.
 */
#ifndef CALLS
#define CALLS 2
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
#define MEMBERS 3
#define ALL 7
#define NUMBERS 10
#define LINK(from, to) link[(from) * MEMBERS + (to)]
#define BIT(i) (1 << (i))
#define DIFFERENCE 16               /* beside the number of a report: members do not do the same */
#define AT(me, n) ((me) * NUMBERS + (n))

mtype = { ENTER, REPORT, QUERY, ANSWER, VERDICT };

chan link[9] = [5] of { mtype, byte, byte };
chan reports = [6] of { byte };     /* that the leader has */

byte calls[MEMBERS];                /* that the program has made, and that have ended */
byte next[MEMBERS];                 /* the next number that it enters */
byte at[MEMBERS];                   /* the number that it is in; 0: none */
bit waits[MEMBERS];                 /* its program has called, and it has not entered */
bit frozen[MEMBERS], knows[MEMBERS], missed[MEMBERS], reported[MEMBERS];
byte ended[MEMBERS], over[MEMBERS]; /* the last verdict: from, up to */
byte met[30];                       /* by member and number: who has entered, as bits */
byte others[30];                    /* of those, who does something else than the first that came */
byte differs, fails, lates;
#ifdef FINAL
bit final[MEMBERS];                 /* it has the last word */
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
bit asks, unlike;
byte about, answers, least, most;

/* What has been entered: 1 or 2, what it did; 3: it has only sent, and nothing more is to be said of it */
byte did[30];
#if LATES == 0 && !defined SENDS
byte call_of[NUMBERS];              /* which call of its program the first one has entered, from 1 */
#endif

byte started;
hidden byte j;
hidden mtype kind;
hidden byte n, x, first, until, behind, kept;

inline send_to_others(me, k, a, b) {
    j = 0;
    do
    :: j < MEMBERS ->
        if
        :: j != me -> LINK(me, j)!k, a, b
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

inline enter(me, what) {
    n = next[me];
    assert(n < NUMBERS && did[AT(me, n)] == 0 && n >= over[me]);
#ifndef NO_FAILING_AT_ONCE
    assert(!IS_FINAL(me));
#endif
    did[AT(me, n)] = what;
#if LATES == 0 && !defined SENDS
    if
    :: call_of[n] == 0 -> call_of[n] = calls[me] + 1
    :: else -> assert(call_of[n] == calls[me] + 1)
    fi;
#endif
    at[me] = n;
    next[me] = n + 1;
    waits[me] = 0;
    note_entered(me, me, n, what);
    send_to_others(me, ENTER, n, what);
#ifdef SENDS
    if
    :: what == 2 -> at[me] = 0; calls[me]++
    :: else
    fi;
#endif
    n = 0
}

/* GRP-4, GRP-6: what is about numbers that a verdict has ended means nothing any more. */
inline report(me, number, difference) {
    if
    :: me == 0 -> take_report(number, difference)
    :: else -> LINK(me, 0)!REPORT, number, difference
    fi
}

inline take_report(number, difference) {
    if
#ifndef NO_IGNORING
    :: IS_FINAL(0) || (number >= ended[0] && number < over[0])
#endif
    :: else -> reports!(number + difference)
    fi
}

/* GRP-21 */
#ifdef FINAL
inline apply(me, begin, end_at, of_difference) {
    assert(!final[me]);
    final[me] = 1;
    if
#ifdef NO_ENDING_ALL
    :: at[me] != 0 && at[me] >= begin -> at[me] = 0; calls[me]++
#else
    :: at[me] != 0 -> at[me] = 0; calls[me]++
#endif
    :: else
    fi;
    if
    :: waits[me] -> waits[me] = 0; calls[me]++
    :: else
    fi;
    frozen[me] = 0;
    knows[me] = 0;
    if
    :: at[me] == 0 -> reported[me] = 0
    :: else
    fi
}
#else

/* GRP-6 */
inline apply(me, begin, end_at, of_difference) {
    behind = (next[me] < end_at);
    x = 0;
    if
    :: at[me] != 0 && at[me] >= begin ->
        assert(at[me] < end_at);
        x = 1;
        at[me] = 0;
        calls[me]++
    :: else
    fi;
#ifndef NO_ADVANCING
    if
    :: behind -> next[me] = end_at
    :: else
    fi;
#endif
    if
    :: waits[me] && !knows[me] && (x || behind) -> x = 1; waits[me] = 0; calls[me]++
    :: else
    fi;
#ifndef NO_MISSING
    if
    :: !knows[me] && !x && behind -> missed[me] = 1
    :: else -> missed[me] = 0
    fi;
    assert(!of_difference || knows[me] || x || missed[me]);
#endif
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
    frozen[me] = 0;
    knows[me] = 0;
    if
    :: at[me] == 0 -> reported[me] = 0
    :: else
    fi;
    ended[me] = begin;
    over[me] = end_at;
    behind = 0; x = 0
}
#endif

inline conclude() {
    first = (least < about -> least : about);
    n = (most > about + 1 -> most : about + 1);
    assert(about >= over[0] || about < ended[0]);
    behind = unlike;
#ifndef NO_SKIPPING
    n = n + unlike;
#endif
    asks = 0; unlike = 0; about = 0; answers = 0; least = 0; most = 0;
    /* Those that wait in line and are about what ends now. */
    x = len(reports);
    do
    :: x > 0 ->
        reports?kept;
        if
#ifndef NO_IGNORING
#ifdef FINAL
        :: true
#else
        :: kept % DIFFERENCE >= first
#endif
#endif
        :: else -> reports!kept
        fi;
        x--
    :: else -> break
    od;
    kept = behind;
    behind = 0;
    send_to_others(0, VERDICT, first + kept * DIFFERENCE, n);
    apply(0, first, n, kept);
    kept = 0; first = 0; n = 0
}

inline take_answer(number) {
    answers++;
    least = (number < least -> number : least);
    most = (number > most -> number : most)
}

inline receive(me, from) {
    LINK(from, me)?kind, n, x;
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
        LINK(me, 0)!ANSWER, next[me], 0
    :: kind == ANSWER -> take_answer(n)
    :: kind == VERDICT ->
        first = n % DIFFERENCE;
        until = x;
        kept = n / DIFFERENCE;
        apply(me, first, until, kept);
        first = 0; until = 0; kept = 0
    fi;
    kind = 0; n = 0; x = 0
}

#define MET(me) (at[me] != 0 && met[AT(me, at[me])] == ALL)
#define MATCHES(me) (others[AT(me, at[me])] == 0 || others[AT(me, at[me])] == ALL)

#define PATIENT(me) (at[me] != 0 && !reported[me])

proctype member(byte me) {
    atomic { next[me] = 1; started++; started == MEMBERS }
end:
    do
    :: d_step { nempty(LINK(0, me)) -> receive(me, 0) }
    :: d_step { nempty(LINK(1, me)) -> receive(me, 1) }
    :: d_step { nempty(LINK(2, me)) -> receive(me, 2) }

    /* The program calls. GRP-5, GRP-6, GRP-21 */
    :: d_step { calls[me] < CALLS && at[me] == 0 && !waits[me] && FAILS_AT_ONCE(me) -> calls[me]++ }
    :: d_step { calls[me] < CALLS && at[me] == 0 && !waits[me] && missed[me] -> missed[me] = 0; calls[me]++ }
    :: d_step { calls[me] < CALLS && at[me] == 0 && !waits[me] && !missed[me] && !FAILS_AT_ONCE(me) -> waits[me] = 1 }
    :: d_step { waits[me] && !frozen[me] -> enter(me, 1) }
    :: d_step { waits[me] && !frozen[me] && differs < DIFFERS -> differs++; enter(me, 2) }
    :: d_step {
        calls[me] < CALLS && at[me] == 0 && !waits[me] && !missed[me] && !frozen[me] && !IS_FINAL(me) &&
            fails < FAILS ->
            fails++;
            calls[me]++;
            frozen[me] = 1;
            knows[me] = 1;
            n = next[me];
            report(me, n, 0);
            n = 0
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
            report(me, n, DIFFERENCE);
            n = 0
    }
#endif

    /* All have come. GRP-2 */
    :: d_step {
        MET(me) && MATCHES(me) ->
            assert(did[AT(0, at[me])] == did[AT(1, at[me])] && did[AT(1, at[me])] == did[AT(2, at[me])]);
            at[me] = 0;
            reported[me] = 0;
            calls[me]++
    }
#ifdef NO_COMPARING
    :: d_step { MET(me) && !MATCHES(me) ->
            assert(did[AT(0, at[me])] == did[AT(1, at[me])] && did[AT(1, at[me])] == did[AT(2, at[me])]);
            at[me] = 0; calls[me]++ }
#else
    :: d_step { MET(me) && !MATCHES(me) && PATIENT(me) -> reported[me] = 1; report(me, at[me], DIFFERENCE) }
#endif
    /* A deadline, while others may come, or since nothing else moves. */
    :: d_step { PATIENT(me) && lates < LATES -> lates++; reported[me] = 1; report(me, at[me], 0) }
    :: d_step { timeout && PATIENT(me) -> reported[me] = 1; report(me, at[me], 0) }

    /* The leader. GRP-4 */
    :: d_step {
        me == 0 && !asks && nempty(reports) ->
            reports?about;
            unlike = about / DIFFERENCE;
            about = about % DIFFERENCE;
            asks = 1;
            answers = 1;
            least = next[0];
            most = next[0];
            frozen[0] = 1;
#ifdef NO_ASKING
            answers = MEMBERS
#else
            send_to_others(0, QUERY, about, 0)
#endif
    }
    :: d_step { me == 0 && asks && answers == MEMBERS -> conclude() }
    od
}

/* Rest: nothing can move any more, and no deadline can pass. */
init {
    atomic { run member(0); run member(1); run member(2) }
    timeout && !PATIENT(0) && !PATIENT(1) && !PATIENT(2);
    assert(calls[0] == CALLS && calls[1] == CALLS && calls[2] == CALLS);
#ifdef FINAL
    assert(final[0] == final[1] && final[1] == final[2])
#else
    assert(next[0] == next[1] && next[1] == next[2])
#endif
}
