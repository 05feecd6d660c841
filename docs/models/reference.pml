/* References, as docs/protocol/references.md specifies them: which workers keep a value, and until when.
 *
 * One value on its owner O. M requests it (or gets it from the owner, -DOWNER_MAKES) and passes the reference to C,
 * C to G, G back to M: four forks in a chain, each of which may be used, passed on, sent home and dropped at any time.
 * Sessions are queues, one for each direction of each pair. A worker may crash, or be declared dead although it lives;
 * then it is fenced. Each worker is notified of a declared death at a time of its own.
 *
 * Safety: the owner never frees the value while a worker that was not declared dead has a confirmed fork; no worker
 * gets "reference lost" unless a worker on the way of the reference, or itself, was declared dead.
 * Liveness: when no worker can move any more, the value is freed, no fork is listed, no fork is held for another one,
 * and no worker waits.
 *
 * A rule is removed by -DNO_...; each such variant must fail. `make model` runs them all.
 */
#ifndef CRASHES
#define CRASHES 1    /* workers that may crash */
#endif
#ifndef SUSPICIONS
#define SUSPICIONS 0 /* workers that may be declared dead although they live */
#endif
#ifndef FORKS
#define FORKS 3      /* 3: M, C, G; 4: and back to M */
#endif
#ifndef USES
#define USES 0       /* 1: each holder may also fetch the value once */
#endif

#define O 0
#define M 1
#define C 2
#define G 3
#define WORKERS 4
#define HOLDER(f) ((f) == 0 || (f) == 3 -> M : ((f) == 1 -> C : G))
#define PARENT(f) HOLDER((f) - 1)

/* Messages, with the names of that page. */
#define CREATE 1       /* a request with a result: from M, fork 0 */
#define ACCEPTED 2
#define REF 3          /* a reference inside a message */
#define FORK_REQUEST 4
#define FORK_ACK 5     /* and whether the owner has an entry for the reference */
#define CHILD_ACCEPT 6
#define RELEASE 7
#define HOME 8         /* a reference inside a message to its owner */
#define FETCH 9
#define REPLY 10       /* and whether the owner had a value */

#define TO(x, y) session[(x) * WORKERS + (y)]
#define GONE(x, y) gone[(x) * WORKERS + (y)]   /* x was notified that y is dead */
chan session[16] = [6] of { byte, byte, bit };
bit gone[16];

bit alive[WORKERS] = 1;
bit declared[WORKERS];     /* dead, by a decision that holds for all workers */
byte crashes, suspicions;

/* A fork at its holder. */
#define NONE 0
#define PENDING 1
#define CONFIRMED 2
#define GIVEN_BACK 3
#define LOST 4
byte state[4];
bit dropped[4];            /* the program has dropped it */
bit sent[5];               /* this fork was passed on */
bit pin[5];                /* its parent is held for it */
bit fetched[4], awaits[4]; /* the one fetch through it, and whether its reply is awaited */
bit homed;

/* The entry at the owner. */
#define ABSENT 0
#define AWAITING 1         /* the creating request: a fork request has overtaken it */
#define REQUESTED 2
#define MADE 3
#define FREED 4
byte entry;
bit listed[4], waiting[4]; /* forks; fetches that wait for the making */
bit own;                   /* a handle of the owner's own */
bit seen;                  /* the creating request, or one of the same maker after it */
bit failed;                /* the maker was lost before */

#define HELD(f) ((state[f] == PENDING || state[f] == CONFIRMED) && !dropped[f])
#define FAULT_ON_THE_WAY(f) (declared[O] || declared[M] || ((f) >= 1 && declared[C]) || ((f) >= 2 && declared[G]))

inline send(from, to, kind, f, flag) {
    if
    :: alive[to] && !GONE(from, to) -> TO(from, to)!kind, f, flag
    :: else
    fi
}

/* ---- The owner ---- */

#define LISTED (listed[0] || listed[1] || listed[2] || listed[3])
#define WAITING (waiting[0] || waiting[1] || waiting[2] || waiting[3])

/* REF-8 */
inline free_if_unused() {
    if
    :: (entry == MADE || entry == AWAITING) && !own && !LISTED && !WAITING ->
        i = 0;
        do
        :: i < FORKS ->
            if
            :: state[i] == CONFIRMED && alive[HOLDER(i)] ->
                assert(declared[HOLDER(i)] || declared[O])
            :: state[i] == PENDING && alive[HOLDER(i)] && entry == MADE ->
                assert(FAULT_ON_THE_WAY(i))
            :: else
            fi;
            i++
        :: else -> break
        od;
        entry = FREED
    :: else
    fi;
    i = 0
}

inline make(is_failure) {
    entry = MADE;
    failed = is_failure;
    i = 0;
    do
    :: i < FORKS ->
        if
        :: waiting[i] -> waiting[i] = 0; send(O, HOLDER(i), REPLY, i, !is_failure)
        :: else
        fi;
        i++
    :: else -> break
    od;
    free_if_unused()
}

/* REF-6 */
inline list_fork(f) {
    if
#ifdef NO_WATERMARK
    :: (entry == ABSENT || entry == FREED) && !GONE(O, M) -> entry = AWAITING
#elif !defined(NO_OVERTAKING)
    :: (entry == ABSENT || entry == FREED) && !seen && !GONE(O, M) -> entry = AWAITING
#endif
    :: else
    fi;
    if
    :: entry == ABSENT || entry == FREED -> send(O, HOLDER(f), FORK_ACK, f, 0)
    :: else -> listed[f] = 1; send(O, HOLDER(f), FORK_ACK, f, 1)
    fi
}

inline at_owner(kind, f) {
    if
    :: kind == CREATE ->     /* REF-1 */
        seen = 1;
        entry = REQUESTED;
#ifndef NO_LISTING_AT_RECEIPT
        listed[0] = 1;
#endif
        send(O, M, ACCEPTED, 0, 1)
    :: kind == FORK_REQUEST -> list_fork(f)
    :: kind == RELEASE -> listed[f] = 0; free_if_unused()
    :: kind == HOME ->       /* REF-3 */
        if
        :: entry == ABSENT || entry == FREED -> assert(FAULT_ON_THE_WAY(f))
        :: else -> own = 1
        fi
    :: kind == FETCH ->      /* REF-7 */
        if
        :: !listed[f] -> send(O, HOLDER(f), REPLY, f, 0)
        :: listed[f] && entry == MADE -> send(O, HOLDER(f), REPLY, f, !failed)
        :: else -> waiting[f] = 1
        fi
    fi
}

/* REF-9 */
inline owner_loses(x) {
    i = 0;
    do
    :: i < FORKS ->
        if
        :: HOLDER(i) == x ->
#ifndef NO_REMOVING
            listed[i] = 0;
#endif
            waiting[i] = 0
        :: else
        fi;
        i++
    :: else -> break
    od;
    if
    :: x == M && entry == AWAITING -> make(1)
    :: else -> free_if_unused()
    fi
}

/* ---- Holders ---- */

/* REF-4: a dropped fork stays while a child relies on it, or the owner has not replied. */
#ifdef NO_HOLDING
#define PINNED(f) false
#else
#define PINNED(f) pin[(f) + 1]
#endif
#ifdef NO_WAITING_TO_RELEASE
#define UNANSWERED(f) false
#else
#define UNANSWERED(f) (state[f] == PENDING && (f) > 0)
#endif
#define KEPT(f) (PINNED(f) || UNANSWERED(f))

/* REF-5 */
inline give_back(f) {
    if
    :: dropped[f] && (state[f] == PENDING || state[f] == CONFIRMED) && !KEPT(f) -> state[f] = GIVEN_BACK; send(HOLDER(f), O, RELEASE, f, 0)
    :: else
    fi
}

inline accept(f) {
    if
    :: f > 0 -> send(HOLDER(f), PARENT(f), CHILD_ACCEPT, f, 0)
    :: else
    fi
}

inline at_holder(y, kind, f, flag) {
    if
    :: kind == REF && flag -> state[f] = CONFIRMED    /* REF-2 */
    :: kind == REF && !flag ->
        if
        :: GONE(y, O) -> state[f] = LOST; accept(f)
        :: else ->
            state[f] = PENDING;
            send(y, O, FORK_REQUEST, f, 0);
#ifdef NO_WAITING_TO_ACCEPT
            accept(f)
#endif
        fi
    :: kind == ACCEPTED || kind == FORK_ACK ->
        if
        :: state[f] == PENDING ->
            if
            :: flag -> state[f] = CONFIRMED
            :: else -> state[f] = LOST; assert(FAULT_ON_THE_WAY(f))
            fi;
#ifndef NO_WAITING_TO_ACCEPT
            accept(f);
#endif
            give_back(f)
        :: else
        fi
    :: kind == CHILD_ACCEPT ->
        pin[f] = 0;
        give_back(f - 1)
    :: kind == REPLY ->
        assert(flag || FAULT_ON_THE_WAY(f));
        awaits[f] = 0
    fi
}

inline holder_loses(y, x) {
    i = 0;
    do
    :: i < FORKS ->
        if
        :: x == O && HOLDER(i) == y ->
#ifndef NO_LOSING_WITH_THE_OWNER
            if
            :: state[i] == PENDING -> state[i] = LOST; accept(i)
            :: state[i] == CONFIRMED -> state[i] = LOST
            :: else
            fi;
            awaits[i] = 0;
            pin[i + 1] = 0
#endif
        :: i > 0 && HOLDER(i) == x && PARENT(i) == y && pin[i] ->
#ifndef NO_RELEASING
            pin[i] = 0;
            give_back(i - 1)
#endif
        :: else
        fi;
        i++
    :: else -> break
    od
}

/* ---- Events, each at any time ---- */

inline drain(source, sink) {
    do
    :: nempty(TO(source, sink)) -> TO(source, sink)?_, _, _
    :: else -> break
    od
}

proctype deliver(byte x, y) {
    byte kind, f, i;
    bit flag;
end:
    do
    :: atomic {
        alive[y] && nempty(TO(x, y)) ->
        TO(x, y)?kind, f, flag;
        if
#ifndef NO_FENCING
        :: GONE(y, x)
#endif
        :: else ->
            if
            :: y == O -> at_owner(kind, f)
            :: else -> at_holder(y, kind, f, flag)
            fi
        fi;
        kind = 0; f = 0; i = 0; flag = 0
    }
    od
}

/* Actions of the holder's program with fork f. */
proctype program(byte f) {
end:
    do
    :: atomic { alive[HOLDER(f)] && HELD(f) -> dropped[f] = 1; give_back(f) }
    :: atomic {
        f + 1 < FORKS && alive[HOLDER(f)] && HELD(f) && !sent[f + 1] && !GONE(HOLDER(f), HOLDER(f + 1)) ->
        sent[f + 1] = 1;
        pin[f + 1] = 1;
        send(HOLDER(f), HOLDER(f + 1), REF, f + 1, 0);
    }
    :: atomic {
        USES && alive[HOLDER(f)] && HELD(f) && !fetched[f] && !GONE(HOLDER(f), O) ->
        fetched[f] = 1;
        awaits[f] = 1;
        send(HOLDER(f), O, FETCH, f, 0)
    }
    :: atomic {
        f == 1 && alive[HOLDER(f)] && HELD(f) && !homed && !GONE(HOLDER(f), O) ->
        homed = 1;
        send(HOLDER(f), O, HOME, f, 0)
    }
    od
}

proctype making() {
    byte i;
end:
    do
    :: atomic {
        alive[O] && entry == REQUESTED ->
#ifdef NO_LISTING_AT_RECEIPT
        listed[0] = 1;
#endif
        make(0); i = 0
    }
    :: atomic { alive[O] && own -> own = 0; free_if_unused(); i = 0 }
    od
}

/* A worker that has ended or is fenced: its state is reset. */
inline end_worker(x) {
    alive[x] = 0;
    i = 0;
    do
    :: i < WORKERS -> drain(i, x); i++
    :: else -> break
    od;
    i = 0;
    do
    :: i < FORKS ->
        if
        :: HOLDER(i) == x -> state[i] = NONE; dropped[i] = 0; awaits[i] = 0; pin[i + 1] = 0
        :: else
        fi;
        if
        :: x == O -> listed[i] = 0; waiting[i] = 0
        :: else
        fi;
        i++
    :: else -> break
    od;
    if
    :: x == O -> entry = ABSENT; own = 0
    :: else
    fi;
    i = 0
}

proctype fate(byte x) {
    byte i;
end:
    do
    :: atomic { alive[x] && !declared[x] && crashes < CRASHES -> crashes++; end_worker(x) }
    :: atomic { alive[x] && !declared[x] && suspicions < SUSPICIONS -> suspicions++; declared[x] = 1 }
    :: atomic { !alive[x] && !declared[x] -> declared[x] = 1 }
    :: atomic { alive[x] && declared[x] -> end_worker(x) }   /* it detects that it is fenced */
    od
}

/* y is notified of the end of x. */
proctype learn(byte y, x) {
    byte i;
end:
    do
    :: atomic {
        alive[y] && !declared[y] && declared[x] && !GONE(y, x) ->
        GONE(y, x) = 1;
#ifndef NO_FENCING
        drain(x, y);
#endif
        if
        :: y == O -> owner_loses(x)
        :: else -> holder_loses(y, x)
        fi;
        i = 0
    }
    od
}

proctype rest() {
    byte f;
    timeout ->
    d_step {
        if
        :: alive[O] ->
            assert(entry == ABSENT || entry == FREED);
            assert(!own && !LISTED)
        :: else
        fi;
        f = 0;
        do
        :: f < FORKS ->
            if
            :: alive[HOLDER(f)] ->
                assert(state[f] == NONE || state[f] == GIVEN_BACK || state[f] == LOST);
                assert(!awaits[f] && !pin[f + 1])
            :: else
            fi;
            f++
        :: else -> break
        od
    }
}

init {
    byte x, y;
    atomic {
#ifdef OWNER_MAKES
        seen = 1; entry = MADE; own = 1; listed[0] = 1;
        TO(O, M)!REF, 0, 1;
#else
        state[0] = PENDING;
        TO(M, O)!CREATE, 0, 0;
#endif
        x = 0;
        do
        :: x < WORKERS ->
            run fate(x);
            y = 0;
            do
            :: y < WORKERS ->
                if
                :: x != y -> run deliver(x, y); run learn(x, y)
                :: else
                fi;
                y++
            :: else -> break
            od;
            x++
        :: else -> break
        od;
        x = 0;
        do
        :: x < FORKS -> run program(x); x++
        :: else -> break
        od;
        run making();
        run rest();
        x = 0; y = 0
    }
}
