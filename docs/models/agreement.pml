/* How the members of a group agree while members are lost, as GRP-11 to GRP-15 of docs/protocol/groups.md specify it.
 *
 * Three members propose to the leader: the lowest live member in each one's own view. The leader decides when it has
 * received the proposals of all live members, sends the decision to all, which store it, and then releases it. The
 * decision is the set of members that have proposed. A member may crash at any time (CRASHES in all). Each other member
 * detects that at a time of its own, and drops the messages of the crashed member that have not arrived: so a decision
 * may have reached some members and not others. One agreement follows the other (ROUNDS).
 *
 * Safety: all members that return a decision return the same, also those that crash later, and each of them is in it.
 * Liveness: when no member can move any more all live members have returned from all rounds.
 *
 * Left out: errors and deadlines, which are one more thing to propose; joining members, which store like members and
 * never lead; absent members, which end like those that crash.
 *
 * A rule is removed by -DNO_...; each such variant must fail.
 */
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef ROUNDS
#define ROUNDS 1
#endif
#define MEMBERS 3
#define ALL 7
#define LINK(from, to) link[(from) * MEMBERS + (to)]
#define BIT(i) (1 << (i))

mtype = { PROPOSE, DECIDED, STORED, RELEASED };

chan link[9] = [4] of { mtype, byte, byte };  /* kind, round, decision */

bit dead[MEMBERS];
byte lost[MEMBERS];                 /* by member: the members that it has detected as lost, as bits */
byte round[MEMBERS];                /* in which the member is, from 1 */
byte stored[MEMBERS];               /* its decision of that round; 0: none */
byte crashes, started;

/* As leader: the members that have proposed to this round and to the next, and those that have stored its decision */
byte heard[MEMBERS], ahead[MEMBERS], has_stored[MEMBERS];
bit leads[MEMBERS];

byte returned[ROUNDS + 2];          /* by round: the decision that was returned first */

hidden byte j;
hidden mtype kind;
hidden byte r, what;

#define IS_LOWEST(me) ((lost[me] & (BIT(me) - 1)) == BIT(me) - 1)
#ifdef NO_WAITING_FOR_ALL
#define MAY_DECIDE(me) IS_LOWEST(me)
#else
#define MAY_DECIDE(me) (IS_LOWEST(me) && (stored[me] || (heard[me] | lost[me] | BIT(me)) == ALL))
#endif
#ifdef NO_STORED_BY_ALL
#define MAY_RELEASE(me) leads[me]
#else
#define MAY_RELEASE(me) (leads[me] && (has_stored[me] | lost[me] | BIT(me)) == ALL)
#endif

/* Messages to a dead member are lost, and so are those to a member that |me| has detected as lost. */
inline send(me, to, k, n, d) {
    if
    :: to != me && !dead[to] && !(lost[me] & BIT(to)) -> LINK(me, to)!k, n, d
    :: else
    fi
}

inline notify_others(me, k) {
    j = 0;
    do
    :: j < MEMBERS -> send(me, j, k, round[me], stored[me]); j++
    :: else -> break
    od;
    j = 0
}

/* GRP-11 */
inline propose(me) {
    j = 0;
    do
    :: j < MEMBERS && (lost[me] & BIT(j)) -> j++
    :: else -> break
    od;
    if
    :: round[me] <= ROUNDS && j < me -> send(me, j, PROPOSE, round[me], 0)
    :: else
    fi;
    j = 0
}

inline return_it(me) {
    assert(stored[me] & BIT(me));
    if
    :: returned[round[me]] == 0 -> returned[round[me]] = stored[me]
    :: else -> assert(returned[round[me]] == stored[me])
    fi;
#ifndef NO_ANSWERING_THOSE_BEFORE
    j = 0;                          /* GRP-15: to members that have proposed to this one as leader before it was released */
    do
    :: j < MEMBERS ->
        if
        :: !leads[me] && (heard[me] & BIT(j)) -> send(me, j, RELEASED, round[me], 0)
        :: else
        fi;
        j++
    :: else -> break
    od;
    j = 0;
#endif
    round[me] = round[me] + 1;
    stored[me] = 0;
    leads[me] = 0;
    has_stored[me] = 0;
    heard[me] = ahead[me];
    ahead[me] = 0;
    propose(me)
}

inline receive(me, from) {
    LINK(from, me)?kind, r, what;
    if
    :: kind == PROPOSE ->
        if
        :: r == round[me] -> heard[me] = heard[me] | BIT(from)
        :: r > round[me] -> ahead[me] = ahead[me] | BIT(from)
        :: else ->
#ifndef NO_ANSWERING
            send(me, from, RELEASED, r, 0)  /* GRP-15 */
#else
            skip
#endif
        fi
    :: kind == DECIDED ->
        assert(r <= round[me]);
        if
        :: r == round[me] -> stored[me] = what
        :: else
        fi;
        send(me, from, STORED, r, 0)
    :: kind == STORED ->
        if
        :: leads[me] && r == round[me] -> has_stored[me] = has_stored[me] | BIT(from)
        :: else
        fi
    :: kind == RELEASED ->
        if
        :: r == round[me] -> return_it(me)
        :: else
        fi
    fi;
    kind = 0; r = 0; what = 0
}

inline lose(me, from) {
    do
    :: nempty(LINK(from, me)) -> LINK(from, me)?_, _, _
    :: else -> break
    od;
    heard[me] = heard[me] & ~BIT(from);
    ahead[me] = ahead[me] & ~BIT(from);
    if
    :: (lost[me] & (BIT(from) - 1)) == BIT(from) - 1 ->     /* it was the leader */
        lost[me] = lost[me] | BIT(from);
#ifdef NO_KEEPING
        stored[me] = 0;
#endif
#ifndef NO_PROPOSING_AGAIN
        propose(me)
#endif
    :: else -> lost[me] = lost[me] | BIT(from)
    fi
}

proctype member(byte me) {
    atomic { round[me] = 1; started++; started == MEMBERS; propose(me) }
end:
    do
    :: d_step { !dead[me] && nempty(LINK(0, me)) -> receive(me, 0) }
    :: d_step { !dead[me] && nempty(LINK(1, me)) -> receive(me, 1) }
    :: d_step { !dead[me] && nempty(LINK(2, me)) -> receive(me, 2) }
    :: d_step { !dead[me] && dead[0] && !(lost[me] & 1) -> lose(me, 0) }
    :: d_step { !dead[me] && dead[1] && !(lost[me] & 2) -> lose(me, 1) }
    :: d_step { !dead[me] && dead[2] && !(lost[me] & 4) -> lose(me, 2) }
    /* GRP-12, GRP-14 */
    :: d_step {
        !dead[me] && round[me] <= ROUNDS && !leads[me] && MAY_DECIDE(me) ->
            if
            :: stored[me] == 0 -> stored[me] = heard[me] | BIT(me)
            :: else
            fi;
            leads[me] = 1;
            has_stored[me] = 0;
            notify_others(me, DECIDED)
    }
    /* GRP-13 */
    :: d_step {
        !dead[me] && MAY_RELEASE(me) ->
            notify_others(me, RELEASED);
            return_it(me)
    }
    :: d_step { !dead[me] && crashes < CRASHES -> crashes++; dead[me] = 1 }
    od
}

/* Rest: no member can move any more. */
init {
    atomic { run member(0); run member(1); run member(2) }
    timeout;
    assert(dead[0] || round[0] == ROUNDS + 1);
    assert(dead[1] || round[1] == ROUNDS + 1);
    assert(dead[2] || round[2] == ROUNDS + 1)
}
