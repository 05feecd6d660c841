/* Membership, as docs/protocol/membership.md specifies it: each worker decides by itself which members exist, and all reach the same view.
 *
 * WORKERS workers have each other in their views from the start. A worker may crash, or stop and resume; a link may be cut and heal;
 * FAULTS such events in all, at any time. Time passes in rounds of about 2 s, in each of which every running worker ticks once,
 * in any order: it receives from the workers it can reach, merges their views, probes silent members through others, declares
 * members dead that were silent for 3 rounds if it may, and fences itself after 4 rounds without a quorum. A coordinator that may do so
 * gives the next rank to a joining worker, once. With -DJOINS only the first is a voter at the start, the founder of an elastic job:
 * the others have just received the view, and may continue without it once they are voters, too.
 *
 * Simpler than the protocol: all send heartbeats to all, and a view is read at its sender instead of sent.
 *
 * Safety: no worker declares another dead from which a quorum could always receive, and such a worker never fences itself (not
 * asserted with -DJOINS: too few may be voters yet); if all faults are crashes, no survivor fences itself; no rank is given twice among
 * the workers that continue.
 * Agreement: REST rounds after the last fault, all workers that continue have the same view, and in it all of them are present.
 *
 * A worker acts on the end of a member that is removed (MEM-24). Of two running workers at most one acts on the other's end.
 *
 * A decision needs replies (MEM-13), which need both directions of a link. With -DONE_WAY each direction is cut by itself. With -DPARTS a
 * fault cuts all links of one worker and no others; the next fault may be another worker's.
 *
 * A rule is removed by -DNO_...; each such variant must fail. `make model` runs them all.
 */
#ifndef WORKERS
#define WORKERS 3
#endif
#ifndef FAULTS
#define FAULTS 2
#endif
#define REST 12

#define SUSPECTED 2   /* rounds of silence */
#define DEAD 3
#define CUT_OFF 4

/* The view that x has of y. */
#define JOINING 0        /* present, and no voter until a quorum has this view */
#define ACTIVE 1         /* present, and a voter */
#define FAILED 2         /* declared dead; a voter until a quorum has this view */
#define REMOVED 3
#define AT(x, y) ((x) * WORKERS + (y))
byte stage[WORKERS * WORKERS];
byte silent[WORKERS * WORKERS];  /* rounds */
bit fresh[WORKERS * WORKERS];    /* y has replied to x, since x last resumed */
byte lonely[WORKERS];            /* rounds without a quorum */
bit fenced[WORKERS];
bit agrees[WORKERS * WORKERS];   /* y has had x's view since x is coordinator */
byte coordinator[WORKERS];
byte rank_of[WORKERS];           /* the worker that has given the next rank away, in the view of x, plus one; 0: none yet */

/* Workers and links. */
#define RUNS 0
#define STOPPED 1
#define CRASHED 2
byte body[WORKERS];
bit stopped_once[WORKERS];
byte link[WORKERS * WORKERS];    /* of x < y, with ONE_WAY from x to y. 0: up, 1: cut, 2: up again */
#ifdef ONE_WAY
#define LINK(x, y) link[AT(x, y)]
#else
#define LINK(x, y) link[((x) < (y) -> AT(x, y) : AT(y, x))]
#endif
#define UP(x, y) (LINK(x, y) != 1)
#define UP_BOTH(x, y) (UP(x, y) && UP(y, x))
#define ALWAYS_UP(x, y) (LINK(x, y) == 0 && LINK(y, x) == 0)
byte faults;
bit only_crashes = 1;
bit ticked[WORKERS];
byte calm;                       /* rounds since the last fault */

#define CONTINUES(x) (body[x] == RUNS && !fenced[x])
#define REACHES(x, y) (UP(y, x) && CONTINUES(y))   /* messages of y arrive at x */
#define EXCHANGES(x, y) (UP_BOTH(x, y) && CONTINUES(y))

/* MEM-24 */
bit acted[WORKERS * WORKERS];    /* x has acted on the end of y */
#ifdef NO_WAITING
#define ACTS_ON(x, y) (stage[AT(x, y)] >= FAILED)
#else
#define ACTS_ON(x, y) (stage[AT(x, y)] == REMOVED)
#endif

inline act(x) {
    y = 0;
    do
    :: y < WORKERS ->
        if
        :: y != x && ACTS_ON(x, y) && !acted[AT(x, y)] ->
            acted[AT(x, y)] = 1;
            assert(!acted[AT(y, x)] || body[y] == CRASHED)
        :: else
        fi;
        y++
    :: else -> break
    od
}

/* Whether a quorum of all workers could always receive from y. */
inline check_steady(y) {
    count = 0; z = 0;
    do
    :: z < WORKERS ->
        if
        :: z == y || (body[z] == RUNS && !stopped_once[z] && ALWAYS_UP(z, y)) -> count++
        :: else
        fi;
        z++
    :: else -> break
    od;
    steady = (count * 2 > WORKERS && body[y] == RUNS && !stopped_once[y])
}

inline fence(x) {
    if
    :: !fenced[x] ->
        check_steady(x);
#ifndef JOINS
        assert(!steady);
#endif
        assert(!only_crashes);
        fenced[x] = 1
    :: else
    fi
}

/* ---- Quorums ---- */
byte unanswered[WORKERS * WORKERS];  /* rounds */
#ifndef NO_ANSWERS
#define ANSWERS(x, z) ((x) == (z) || unanswered[AT(x, z)] < SUSPECTED)
#else
#define ANSWERS(x, z) HEARS(x, z)
#endif
#define HEARS(x, z) ((x) == (z) || silent[AT(x, z)] < SUSPECTED)
#define KNOWS(x, z) ((x) == (z) || (REACHES(x, z) && same[z]))
#define IS_VOTER(x, z) (stage[AT(x, z)] == ACTIVE || stage[AT(x, z)] == FAILED)
#define IS_PRESENT(x, z) (stage[AT(x, z)] <= ACTIVE)

/* "More than half, or half with the lowest": among those |in| the count, how many are present and pass. */
#define FIND_QUORUM(x, in, test) \
    all = 0; count = 0; z = 0; with_lowest = 0; \
    do \
    :: z < WORKERS -> \
        if \
        :: in(x, z) -> \
            if \
            :: IS_PRESENT(x, z) && test(x, z) -> with_lowest = with_lowest || all == 0; count++ \
            :: else \
            fi; \
            all++ \
        :: else \
        fi; \
        z++ \
    :: else -> break \
    od; \
    quorum = (count * 2 > all || (count * 2 == all && with_lowest))

/* ---- One tick ---- */
inline compare(x, y) {
    same[y] = (rank_of[x] == rank_of[y]);
    z = 0;
    do
    :: z < WORKERS -> same[y] = same[y] && stage[AT(x, z)] == stage[AT(y, z)]; z++
    :: else -> break
    od
}

/* Views only grow. */
inline merge(x, y) {
    z = 0;
    do
    :: z < WORKERS ->
        if
        :: (z != x || stage[AT(y, z)] == ACTIVE) && stage[AT(y, z)] > stage[AT(x, z)] -> stage[AT(x, z)] = stage[AT(y, z)]
        :: else
        fi;
        z++
    :: else -> break
    od;
    assert(!(rank_of[x] && rank_of[y] && rank_of[x] != rank_of[y]));
    if
    :: !rank_of[x] -> rank_of[x] = rank_of[y]
    :: else
    fi
}

/* Whether the view of x contains a decision that is not committed. */
inline find_failed(x) {
    pending = 0; z = 0;
    do
    :: z < WORKERS -> pending = pending || stage[AT(x, z)] == FAILED; z++
    :: else -> break
    od
}

/* A worker that a member refuses, because the member has acted on its end, fences itself. A member that certainly ended stops
 * being a voter at once only if x has received a reply from it lately, and while nothing is pending: it may have helped to declare
 * x dead before it ended. */
inline hear(x) {
    y = 0;
    do
    :: y < WORKERS && !fenced[x] ->
        if
        :: y != x && IS_PRESENT(x, y) && EXCHANGES(x, y) && acted[AT(y, x)] ->
#ifndef NO_FENCING
            fence(x)
#endif
        :: y != x && IS_PRESENT(x, y) && REACHES(x, y) && !acted[AT(y, x)] ->
            if
            :: IS_PRESENT(y, x) -> merge(x, y)
            :: else
            fi;
            silent[AT(x, y)] = 0;
            fresh[AT(x, y)] = fresh[AT(x, y)] || (IS_PRESENT(y, x) && UP(x, y))
#ifndef NO_CERTAINTY
        :: y != x && IS_PRESENT(x, y) && UP_BOTH(x, y) && (body[y] == CRASHED || fenced[y]) ->
#ifdef NO_DOUBT
            stage[AT(x, y)] = REMOVED
#else
            find_failed(x);
            stage[AT(x, y)] = (fresh[AT(x, y)] && unanswered[AT(x, y)] < SUSPECTED && !pending -> REMOVED : FAILED)
#endif
#endif
        :: else
        fi;
        y++
    :: else -> break
    od
}

/* One bad link is no evidence of an end: a yes counts as a message received. */
inline query_others(x) {
    y = 0;
    do
    :: y < WORKERS ->
        if
        :: y != x && IS_PRESENT(x, y) && !(REACHES(x, y) && !acted[AT(y, x)]) ->
            yes = 0;
            z = 0;
            do
            :: z < WORKERS ->
                if
                :: z != x && z != y && IS_PRESENT(x, z) && EXCHANGES(x, z) && IS_PRESENT(z, x) && IS_PRESENT(z, y) && REACHES(z, y) && !acted[AT(y, z)] -> yes = 1
                :: else
                fi;
                z++
            :: else -> break
            od;
#ifdef NO_PROBES
            yes = 0;
#endif
            if
            :: yes -> silent[AT(x, y)] = 0
            :: !yes && silent[AT(x, y)] < CUT_OFF -> silent[AT(x, y)]++
            :: else
            fi
        :: else
        fi;
        y++
    :: else -> break
    od
}

inline note_answers(x) {
    y = 0;
    do
    :: y < WORKERS ->
        if
        :: y != x && EXCHANGES(x, y) && IS_PRESENT(y, x) -> unanswered[AT(x, y)] = 0
        :: else ->
            if
            :: y != x && unanswered[AT(x, y)] < SUSPECTED -> unanswered[AT(x, y)]++
            :: else
            fi
        fi;
        y++
    :: else -> break
    od
}

inline find_coordinator(x) {
    y = 0;
    do
    :: y < x && !IS_PRESENT(x, y) -> y++
    :: else -> break
    od;
    if
    :: y != coordinator[x] ->
        coordinator[x] = y;
        z = 0;
        do
        :: z < WORKERS -> agrees[AT(x, z)] = 0; z++
        :: else -> break
        od
    :: else
    fi
}

/* The coordinator decides, or a worker that receives from no lower rank. */
inline check_candidate(x) {
    candidate = 1;
    z = 0;
    do
    :: z < x -> candidate = candidate && !(IS_PRESENT(x, z) && HEARS(x, z)); z++
    :: else -> break
    od
#ifdef NO_COORDINATOR
    ; candidate = 1
#endif
}

inline decide(x) {
    check_candidate(x);
    FIND_QUORUM(x, IS_VOTER, ANSWERS);
    may = quorum;
    FIND_QUORUM(x, IS_PRESENT, ANSWERS);
    may = may && quorum;
#ifdef NO_QUORUM
    may = 1;
#endif
    y = 0;
    do
    :: y < WORKERS ->
        if
        :: may && candidate && y != x && IS_PRESENT(x, y) && silent[AT(x, y)] >= DEAD ->
            check_steady(y);
#ifndef JOINS
            assert(!steady);
#endif
            stage[AT(x, y)] = FAILED
        :: else
        fi;
        y++
    :: else -> break
    od
}

/* MEM-15: a view is committed once a quorum of the voters, and of the present members, has it. */
inline conclude(x) {
    y = 0;
    do
    :: y < WORKERS -> compare(x, y); y++
    :: else -> break
    od;
    FIND_QUORUM(x, IS_VOTER, KNOWS);
    may = quorum;
    FIND_QUORUM(x, IS_PRESENT, KNOWS);
    y = 0;
    do
    :: y < WORKERS ->
        if
        :: y != x && same[y] && REACHES(x, y) -> agrees[AT(x, y)] = 1
        :: else
        fi;
        if
        :: may && quorum && stage[AT(x, y)] == FAILED -> stage[AT(x, y)] = REMOVED
        :: may && quorum && stage[AT(x, y)] == JOINING && KNOWS(x, y) -> stage[AT(x, y)] = ACTIVE
        :: else
        fi;
        y++
    :: else -> break
    od
}

/* A worker requests to join; the coordinator admits it if it receives from a quorum and all present members have its view. */
inline admit(x) {
    FIND_QUORUM(x, IS_VOTER, HEARS);
    z = 0;
    do
    :: z < WORKERS -> quorum = quorum && (z == x || !IS_PRESENT(x, z) || agrees[AT(x, z)]); z++
    :: else -> break
    od;
#ifdef NO_QUERYING
    FIND_QUORUM(x, IS_VOTER, HEARS);
#endif
    if
    :: quorum && !rank_of[x] -> rank_of[x] = x + 1; calm = 0
    :: else
    fi
}

inline stay(x) {
    FIND_QUORUM(x, IS_VOTER, HEARS);
#ifdef NO_QUORUM
    quorum = 1;
#endif
    if
    :: quorum -> lonely[x] = 0
    :: !quorum && lonely[x] < CUT_OFF -> lonely[x]++
    :: else
    fi;
    if
    :: lonely[x] == CUT_OFF -> fence(x)
    :: else
    fi
}

/* MEM-22: a joining worker without a voter in its view was never admitted. Others may have become voters without its receiving that. */
inline find_active(x) {
    may = 0; z = 0;
    do
    :: z < WORKERS -> may = may || stage[AT(x, z)] == ACTIVE; z++
    :: else -> break
    od
}

inline tick(x) {
    hear(x);
#ifndef NO_VOTERS
    find_active(x);
    if
    :: !may -> fenced[x] = 1
    :: else
    fi;
#endif
    if
    :: !fenced[x] ->
        query_others(x);
        note_answers(x);
        find_coordinator(x); decide(x); find_coordinator(x)
    :: else
    fi;
    if
#ifdef NO_COORDINATOR
    :: !fenced[x]
#else
    :: !fenced[x] && coordinator[x] == x
#endif
        -> conclude(x);
        if
        :: joiner -> admit(x)
        :: else
        fi
    :: else
    fi;
    if
    :: !fenced[x] -> act(x); stay(x)
    :: else
    fi
}

/* Resets the state of a worker that has ended: fewer states. */
inline forget(x) {
    y = 0;
    do
    :: y < WORKERS ->
        unanswered[AT(x, y)] = 0;
        silent[AT(x, y)] = 0; stage[AT(x, y)] = 0; agrees[AT(x, y)] = 0; fresh[AT(x, y)] = 0; y++
    :: else -> break
    od;
    lonely[x] = 0; coordinator[x] = 0; rank_of[x] = 0; ticked[x] = 0
}

inline tidy() {
    y = 0; z = 0; all = 0; count = 0; with_lowest = 0; quorum = 0; may = 0; candidate = 0; steady = 0; yes = 0; joiner = 0; pending = 0;
    do
    :: y < WORKERS -> same[y] = 0; y++
    :: else -> break
    od;
    y = 0
}

/* ---- Events ---- */
proctype worker(byte x) {
    byte y, z, all, count;
    bit with_lowest, quorum, may, candidate, steady, yes, joiner, pending;
    bit same[WORKERS];
    do
    :: d_step {
        CONTINUES(x) && !ticked[x] -> tick(x); ticked[x] = 1;
        if
        :: fenced[x] -> forget(x)
        :: else
        fi;
        tidy()
    }
#if !defined(JOINS) && !defined(PARTS) && !defined(ONE_WAY)
    :: d_step { /* the same, with a worker that wants to join */
        CONTINUES(x) && !ticked[x] && !rank_of[x] -> joiner = 1; tick(x); ticked[x] = 1;
        if
        :: fenced[x] -> forget(x)
        :: else
        fi;
        tidy()
    }
#endif
#ifndef PARTS
    :: d_step {
        body[x] == RUNS && faults < FAULTS ->
        body[x] = CRASHED; faults++; calm = 0; forget(x); tidy()
    }
    :: d_step {
        CONTINUES(x) && faults < FAULTS ->
        body[x] = STOPPED; stopped_once[x] = 1; only_crashes = 0; faults++; calm = 0
    }
    :: d_step { /* it resumes: its silence was its own, so it suspects no member for it */
        body[x] == STOPPED -> body[x] = RUNS; calm = 0;
        do
        :: y < WORKERS -> silent[AT(x, y)] = 0; fresh[AT(x, y)] = 0; unanswered[AT(x, y)] = SUSPECTED; y++
        :: else -> break
        od;
        lonely[x] = 0; tidy()
    }
#endif
    od
}

#ifdef PARTS
/* Every link of one worker is cut, and no other link. */
inline part(x) {
    y = 0;
    do
    :: y < WORKERS ->
        z = y + 1;
        do
        :: z < WORKERS ->
            link[AT(y, z)] = (y == x || z == x -> 1 : (link[AT(y, z)] -> 2 : 0));
            z++
        :: else -> break
        od;
        y++
    :: else -> break
    od;
    only_crashes = 0; calm = 0; y = 0; z = 0
}

proctype net() {
    byte y, z;
    do
    :: d_step { faults < FAULTS -> part(0); faults++ }
    :: d_step { faults < FAULTS -> part(1); faults++ }
    :: d_step { faults < FAULTS -> part(2); faults++ }
    :: d_step { faults > 0 -> part(WORKERS) }
    od
}
#endif

proctype cable(byte x, y) {
    do
    :: atomic { link[AT(x, y)] == 0 && faults < FAULTS -> link[AT(x, y)] = 1; only_crashes = 0; faults++; calm = 0 }
    :: atomic { link[AT(x, y)] == 1 -> link[AT(x, y)] = 2; calm = 0 }
    od
}

#define HAS_TICKED(x) (!CONTINUES(x) || ticked[x])
#if WORKERS == 2
#define ALL_HAVE_TICKED (HAS_TICKED(0) && HAS_TICKED(1))
#elif WORKERS == 3
#define ALL_HAVE_TICKED (HAS_TICKED(0) && HAS_TICKED(1) && HAS_TICKED(2))
#else
#define ALL_HAVE_TICKED (HAS_TICKED(0) && HAS_TICKED(1) && HAS_TICKED(2) && HAS_TICKED(3))
#endif

proctype time() {
    byte x, y, z;
    do
    :: d_step {
        ALL_HAVE_TICKED ->
        do
        :: x < WORKERS -> ticked[x] = 0; x++
        :: else -> break
        od;
        if
        :: calm < REST -> calm++
        :: else
        fi;
        x = 0;
#ifdef ONE_WAY  /* Messages of a worker may arrive nowhere as long as a link is cut. */
        do
        :: x < WORKERS * WORKERS && link[x] != 1 -> x++
        :: x < WORKERS * WORKERS && link[x] == 1 -> calm = 0; x = WORKERS * WORKERS
        :: x == WORKERS * WORKERS -> break
        od;
        x = 0;
#endif
        do
        :: calm == REST && x < WORKERS ->
            y = 0;
            do
            :: y < WORKERS ->
                if
                :: CONTINUES(x) && CONTINUES(y) ->
                    assert(IS_PRESENT(x, y));
                    assert(rank_of[x] == rank_of[y]);
                    z = 0;
                    do
                    :: z < WORKERS -> assert(stage[AT(x, z)] == stage[AT(y, z)]); z++
                    :: else -> break
                    od
                :: else
                fi;
                y++
            :: else -> break
            od;
            x++
        :: else -> break
        od;
        x = 0; y = 0; z = 0
    }
    od
}

init {
    byte x, y;
    atomic {
        do
        :: x < WORKERS ->
            run worker(x);
            y = 0;
            do
            :: y < WORKERS ->
                fresh[AT(x, y)] = 1;
#ifdef JOINS
                stage[AT(x, y)] = (y == 0 -> ACTIVE : JOINING);
#else
                stage[AT(x, y)] = ACTIVE;
#endif
                y++
            :: else -> break
            od;
#ifndef PARTS
#ifdef ONE_WAY
            y = 0;
#else
            y = x + 1;
#endif
            do
            :: y < WORKERS && y != x -> run cable(x, y); y++
            :: y == x -> y++
            :: else -> break
            od;
#endif
            x++
        :: else -> break
        od;
#ifdef PARTS
        run net();
#endif
        run time();
        x = 0; y = 0
    }
}
