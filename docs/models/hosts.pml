/* How host 0 starts ranks on hosts that join, leave and are lost, as LAUN-24 to LAUN-40 of docs/protocol/launcher.md
 * specify.
 *
 * HOSTS hosts, with one rank each, and PLACES places. Ranks fail (FAILS), hosts other than 0 are lost with their ranks
 * (LOSSES) or want to leave (LEAVES), at any time. With ELASTIC=1 a rank that fails starts again alone, a host may be
 * lost or leave while the others continue, and a host that waits gets a free place; with ELASTIC=0 all ranks start
 * again in each of these cases, and a rank may also fail because another one has failed. Reports and decisions are
 * delivered in order (SES-1), so that host 0 receives what a host reports about a round before the host reports that
 * the round has ended. Host 0 asks for no states: which of the two holds is given.
 *
 * Safety: no two ranks run in one place; no attempt of a place starts twice; when a rank of a round starts, no rank of a
 * round before it runs on a host that is not lost; each failure costs at most one restart, and nothing else costs one;
 * no rank starts after the outcome.
 * Liveness: when nothing can move any more, the job has ended on each host that is left, and no rank runs.
 *
 * Left out: times (MIN, backoff, crash loops), signals of the user, the loss of host 0, which ends the job.
 *
 * A rule is removed by -DNO_...; each such variant must fail.
 */
#ifndef HOSTS
#define HOSTS 3
#endif
#ifndef PLACES
#define PLACES 2
#endif
#ifndef ELASTIC
#define ELASTIC 0
#endif
#ifndef FAILS
#define FAILS 1
#endif
#ifndef LOSSES
#define LOSSES 1
#endif
#ifndef LEAVES
#define LEAVES 0
#endif
#ifndef BUDGET
#define BUDGET 1
#endif
#define NONE 255
#define ATTEMPTS 8

/* The rules that variants remove. */
#if defined(NO_WAIT_FOR_LEAVING)
#define NOT_AWAITED(j) leaving[j]
#elif defined(NO_WAIT_FOR_ALL)
#define NOT_AWAITED(j) (j > 0 && !leaving[j])
#else
#define NOT_AWAITED(j) false
#endif

#ifdef NO_END_OF_FAILURES
#define COUNTS_WHILE_ENDING true
#else
#define COUNTS_WHILE_ENDING false
#endif

mtype = { JOIN, RANK_FAILED, ROUND_ENDED, DONE, LEAVE, LEFT, LOST };        /* reports */
mtype = { ADMIT, START, RESTART, RESTART_ALL, LEAVES_NOW, OUTCOME };        /* decisions */

chan up = [12] of { mtype, byte, byte };       /* report, host, attempt or round */
chan down[HOSTS] = [10] of { mtype, byte, byte };

/* What is so: of each host. */
byte running[HOSTS] = NONE;   /* the attempt of its rank; NONE: none runs */
byte round_of[HOSTS];         /* in which its rank was started */
byte place[HOSTS] = NONE;
bool lost[HOSTS], over[HOSTS], gone[HOSTS];
bool started[PLACES * ATTEMPTS];
byte failed_round = NONE;     /* the last one in which a rank has failed by itself */
byte failures, restarts, fails = FAILS, losses = LOSSES, leaves = LEAVES;

/* Host 0's view. */
bool in[HOSTS], waits[HOSTS], leaving[HOSTS], ended[HOSTS], done[HOSTS], used[PLACES];
byte place_of[HOSTS] = NONE;
byte round, attempt, budget = BUDGET;
bool is_ending, is_decided, has_started;

inline start_rank(me, number, r) {
    assert(!over[me]);
    assert(running[me] == NONE);
    assert(!started[place[me] * ATTEMPTS + number]);
    started[place[me] * ATTEMPTS + number] = true;
    k = 0;
    do
    :: k < HOSTS ->
        assert(k == me || lost[k] || running[k] == NONE || (place[k] != place[me] && round_of[k] == r));
        k++
    :: else -> break
    od;
    running[me] = number;
    round_of[me] = r;
}

/* ---- Hosts ---- */

proctype host(byte me) {
    byte a, b, k, next, my_round;
    bool wants_to_leave, has_place;
    up!JOIN(me, 0);
end:
    do
    :: atomic { down[me]?ADMIT(a, b) -> place[me] = a; next = b; has_place = true }
    :: atomic { down[me]?START(a, b) ->
        if
        :: has_place -> has_place = false; my_round = a; start_rank(me, next, a)
        :: else
        fi }
    :: atomic { down[me]?RESTART(a, b) -> start_rank(me, b, my_round) }
    :: atomic { down[me]?RESTART_ALL(a, b) ->
        my_round = a }
        atomic { running[me] = NONE;                  /* it has been asked to end */
        if
        :: wants_to_leave -> gone[me] = true; up!LEFT(me, 0); goto end
        :: else -> up!ROUND_ENDED(me, a)
        fi }
    :: atomic { down[me]?LEAVES_NOW(a, b) -> skip }
        atomic { running[me] = NONE; gone[me] = true; up!LEFT(me, 0); goto end }
    :: atomic { down[me]?OUTCOME(a, b) -> over[me] = true; running[me] = NONE; break }
    :: atomic { running[me] != NONE && fails && !lost[me] && !gone[me] ->
        fails--; failures++; failed_round = my_round;
        a = running[me]; running[me] = NONE; up!RANK_FAILED(me, a) }
    :: atomic { !ELASTIC && running[me] != NONE && failed_round == my_round && !gone[me] ->
        a = running[me]; running[me] = NONE; up!RANK_FAILED(me, a) }
    :: atomic { running[me] != NONE && !lost[me] && !gone[me] ->
        running[me] = NONE; up!DONE(me, my_round) }
    :: atomic { me && leaves && !wants_to_leave && running[me] != NONE && !lost[me] ->
        leaves--; wants_to_leave = true; up!LEAVE(me, 0) }
    :: atomic { me && losses && !lost[me] && !gone[me] && place[me] != NONE ->
        losses--; lost[me] = true; running[me] = NONE; up!LOST(me, 0); break }
    :: gone[me] -> break
    od
}

/* ---- Host 0 ---- */

inline send_all(kind, x, y) {
    i = 0;
    do
    :: i < HOSTS ->
        if
        :: in[i] -> down[i]!kind(x, y)
        :: else
        fi;
        i++
    :: else -> break
    od
}

inline decide_outcome() {
    is_decided = true;
    i = 0;
    do
    :: i < HOSTS ->
        if
        :: in[i] || waits[i] -> down[i]!OUTCOME(0, 0)
        :: else
        fi;
        i++
    :: else -> break
    od
}

inline count_hosts() {
    i = 0;
    count = 0;
    do
    :: i < HOSTS -> count = count + (in[i] && !leaving[i]); i++
    :: else -> break
    od
}

/* The host |x| gets the lowest place that is free. */
inline admit(x) {
    p = 0;
    do
    :: p < PLACES ->
        i = 0;
        do
        :: i < HOSTS && !(in[i] && place_of[i] == p) -> i++
        :: else -> break
        od;
        if
        :: i == HOSTS -> break
        :: else -> p++
        fi
    :: else -> break
    od;
    assert(p < PLACES);
    in[x] = true;
    waits[x] = false;
    place_of[x] = p;
    b = round;
    if
    :: used[p] ->
#ifdef NO_NEW_ATTEMPT
        skip
#else
        attempt++; b = attempt
#endif
    :: else
    fi;
    used[p] = true;
    down[x]!ADMIT(p, b)
}

inline start_all() {
    round = attempt + 1;
    attempt = round;
    is_ending = true;
    j = 0;
    do
    :: j < HOSTS -> ended[j] = false; done[j] = false; j++
    :: else -> break
    od;
    send_all(RESTART_ALL, round, 0)
}

/* A round of all hosts that are in the job, numbered anew, and of hosts that wait. */
inline start_round() {
    is_ending = false;
    p = 0;
    do
    :: p < PLACES -> used[p] = false; p++
    :: else -> break
    od;
    j = 0;
    do
    :: j < HOSTS -> place_of[j] = NONE; j++
    :: else -> break
    od;
    j = 0;
    do
    :: j < HOSTS ->
        if
        :: in[j] && !leaving[j] -> in[j] = false; admit(j)
        :: else
        fi;
        j++
    :: else -> break
    od;
    fill();
    has_started = true;
    send_all(START, round, 0)
}

inline fill() {
    j = 0;
    do
    :: j < HOSTS ->
        count_all();
        if
        :: waits[j] && count < PLACES -> admit(j)
        :: else
        fi;
        j++
    :: else -> break
    od
}

inline count_all() {
    i = 0;
    count = 0;
    do
    :: i < HOSTS -> count = count + in[i]; i++
    :: else -> break
    od
}

inline take_loss(x) {
    waits[x] = false;
    if
    :: in[x] ->
        in[x] = false;
        if
        :: is_ending || ELASTIC -> skip
        :: else -> start_all()
        fi
    :: else
    fi
}

inline take_failure(x, n) {
    if
    :: is_ending && !COUNTS_WHILE_ENDING -> skip
    :: else ->
        if
        :: leaving[x] -> skip
        :: !leaving[x] && !budget -> decide_outcome()
        :: !leaving[x] && budget ->
            budget--;
            restarts++;
            assert(restarts <= failures);
            if
            :: ELASTIC -> n = n + 1; attempt = (n > attempt -> n : attempt); down[x]!RESTART(0, n)
            :: else -> start_all()
            fi
        fi
    fi
}

/* What follows from all that has been reported. */
inline advance() {
    count_hosts();
    if
    :: is_decided -> skip
    :: !is_decided && (is_ending || !has_started) ->
        j = 0;
        do
        :: j < HOSTS && (!in[j] || ended[j] || NOT_AWAITED(j)) -> j++
        :: else -> break
        od;
        if
        :: j == HOSTS && (has_started || waits[0]) -> start_round()
        :: else
        fi
    :: else ->
        j = 0;
        do
        :: j < HOSTS && (!in[j] || done[j]) -> j++
        :: else -> break
        od;
        if
        :: j == HOSTS -> decide_outcome()
        :: j < HOSTS && ELASTIC ->
            j = 0;
            do
            :: j < HOSTS && !(in[j] && done[j]) -> j++
            :: else -> break
            od;
            if
            :: j == HOSTS -> fill(); send_all(START, round, 0)
            :: else
            fi
        :: else
        fi
    fi
}

active proctype coordinator() {
    mtype kind;
    byte x, n, i, j, p, b, count;
    atomic {
        x = 0;
        do
        :: x < HOSTS -> run host(x); x++
        :: else -> break
        od
    }
end:
    do
    :: atomic { up?kind(x, n) ->
        if
        :: is_decided && kind == JOIN -> down[x]!OUTCOME(0, 0)
        :: is_decided && kind != JOIN -> skip
        :: !is_decided && kind == JOIN -> waits[x] = true
        :: !is_decided && kind == RANK_FAILED -> take_failure(x, n)
        :: !is_decided && kind == ROUND_ENDED -> ended[x] = (n == round)
        :: !is_decided && kind == DONE ->
            if
            :: !is_ending -> done[x] = true
            :: else
            fi
        :: !is_decided && kind == LEAVE && in[x] ->
            leaving[x] = true;
            if
            :: is_ending || ELASTIC -> down[x]!LEAVES_NOW(0, 0)
            :: else -> start_all()
            fi
        :: !is_decided && kind == LEAVE && !in[x] -> skip
        :: !is_decided && (kind == LOST || kind == LEFT) ->
            if
            :: kind == LEFT && leaving[x] -> in[x] = false
            :: else -> take_loss(x)
            fi
        fi;
        if
        :: !is_decided -> advance()
        :: else
        fi;
        x = 0; n = 0; i = 0; j = 0; p = 0; b = 0; count = 0 }
    :: timeout ->
        x = 0;
        do
        :: x < HOSTS ->
            assert(running[x] == NONE);
            assert(lost[x] || gone[x] || over[x]);
            x++
        :: else -> break
        od;
        break
    od
}
