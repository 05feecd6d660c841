// The messages between a launcher and its link, and between links (docs/protocol/launcher.md).
#ifndef GRADWIRE_MESSAGE_H
#define GRADWIRE_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "options/budget.h"

enum { LINK_TEXT_SIZE = 768, LINK_JOB_ID_SIZE = 48, NO_RANK = -1, NO_NODE = -1 };

typedef enum link_kind {
    LINK_READY,  // to the launcher: all hosts have met; |number| is the port of rank 0, |text| the job's id
    LINK_WAITS,  // to the launcher: the links have met, and this host waits for its place; |number|: 1 if ranks run
    LINK_CANNOT,  // to the launcher: the hosts do not meet; |text| is the reason
    LINK_FAILED,  // the part of a host has failed, with exit code |number|; |text| is the reason
    LINK_SIGNAL,  // a user's signal |number| ends the job
    LINK_DONE,  // all ranks of a host have ended, the exit code is |number|; to the launcher: of all hosts
    LINK_DEAD,  // a member of any host was declared dead: its incarnation, and why
    LINK_ABSENT,  // a rank of a host has ended without having joined: |text| is the line for joining workers
    LINK_LOST,   // |node| is lost, which ends the job; if it is this host, this host is cut off
    LINK_JOINS,  // a link, peer |number|, wants to take part in a dynamic job
    LINK_LEAVES,  // |node| wants to leave it, by signal |number|; as a decision: it may, and its ranks end
    LINK_LEFT,  // the link of |node|, peer |number|, has left; as a decision: the job continues without it
    LINK_FINISHED,  // a worker of a host has reported that the work of its elastic job is done
    // reports to host 0, of hosts whose ranks may start again
    LINK_RANK_FAILED,  // an attempt of |rank| has failed
    LINK_STATE,        // of the ranks of a host: the reply to the question |number|
    LINK_ROUND_ENDED,  // no process of the ranks of a host is left, so that |attempt| can start
    // decisions of host 0
    LINK_ASK,          // each host replies to the question |number| with its state
    LINK_RESTART,      // |rank| starts again, as |attempt|
    LINK_RESTART_ALL,  // all ranks of all hosts end, and start again as |attempt|
    LINK_ADMIT,  // the host of peer |number| is |node| of |count|, and its ranks start as |attempt|
    LINK_START_ROUND,  // all hosts are ready for round |attempt|: ranks that do not run start
    LINK_GONE,         // |node| is lost, and the job continues without it
} link_kind;

// What a host reports in |flags|.
enum {
    LINK_HAS_BEGUN = 1,     // a worker of any attempt has begun to join
    LINK_HAS_JOINED = 2,    // a worker has joined: of any attempt; LINK_RANK_FAILED: of this one
    LINK_IS_ELASTIC = 4,    // all that run are workers of an elastic job; LINK_RANK_FAILED: it is
    LINK_HAS_STATE = 8,     // a rank that runs has the state of an elastic job
    LINK_IS_FINISHED = 16,  // a worker has reported that the work of an elastic job is done
};

typedef struct link_message {
    link_kind kind;
    int node;  // the host that the message is about
    int number;
    int rank;     // of the job; NO_RANK: none, or all
    int attempt;  // of the rank, or of all
    int count;  // decisions: restarts that are left, or hosts; LINK_DONE: ranks that have exited with 0
    int flags;
    budget_decision refusal;  // LINK_FAILED: why nothing starts again; BUDGET_RESTART: no reason
    int64_t ms;               // how long the attempt has run; or until the next one starts
    uint64_t incarnation;     // of a member that the failed rank was; 0: none
    char text[LINK_TEXT_SIZE];
} link_message;

link_message message_of(link_kind kind, int number, const char *text);

#endif
