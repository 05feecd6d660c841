// An elastic training job between the files of this room. docs/protocol/elastic.md is the specification.
//
//     launched.c       how the launcher started this worker
//     enter.c          joins the job and the group, opens the replicas
//     join.c           jobs without replicas
//     meeting.c        members agree between two steps: who is lost, joins, leaves
//     state.c          the member that is furthest ahead gives its state
//     checkpoints.c    states in files
//     jobs.c           the open jobs of the process
//     elastic.c        the functions of the header
//
// Ownership: a job is a handle of the scope that it was opened in; |own| holds all that has the same lifetime.
// Threads: as its scope, but for |leaves| and |asks|.
#ifndef ELASTIC_ELASTIC_H
#define ELASTIC_ELASTIC_H

#include "agent/state/agent.h"
#include "collective/opening/join.h"
#include "elastic/launched.h"
#include <gradwire/elastic.h>

struct gw_elastic {
    gw_handle handle;

    // Arguments: texts are of |own|.
    gw_scope *root, *own;
    gw_module *model;   // NULL: of gw_elastic_join
    gw_optimizer *opt;  // the same
    gw_elastic_options options;

    // Set when it opens.
    agent *agent;  // one count; NULL: the job was over before
    gw_ddp *ddp;
    bool has_joined;   // by gw_rpc_init of this room
    bool lacks_state;  // for the launcher, until this member has reported *elastic*

    gw_future *asked;      // completes with a request to leave; one count; NULL without an agent
    gw_elastic *next_job;  // of the open jobs of the process (jobs.c)

    join_stop stop;  // of joining the group, when another member has finished; with the loop lock

    // State.
    gw_group *group;  // NULL: this member is in none any more
    _Atomic gw_elastic_reason reason;
    _Atomic bool is_paused;
    int64_t paused_ns;  // since when; with is_paused
    bool has_state;     // that of the job: from another member, or as one that founds it
    bool is_lost;  // a member, or this one has missed what the others did: they re-form the group
    int64_t met_at_step;  // -1: not yet
    gw_scope *step;       // the scope of the step under way; NULL
    int64_t step_number;  // of it, or after gw_elastic_close
    gw_error loss;        // that has ended the last step; GW_OK: none has
    int repeats;          // of a step that has failed so, with all members present
    _Atomic bool leaves, asks;
    _Atomic bool takes_term;  // SIGTERM sets |leaves|

    // Checkpoints.
    int64_t
        saved_step;  // for which one was begun last, on all members; -1: since the list of members has changed, none
    int64_t saved_ns;   // when it was, or when the job was opened
    bool saves;         // the members have agreed on one
    gw_future *saving;  // of |own|: the one that is under way; NULL
    int64_t saving_step;
};

// Closes |t|, a scope inside root. False: it had an error, which is root's now, unless a member was lost: then *out_lost.
bool elastic_close_part(gw_scope *root, gw_scope *t, bool *out_lost);

// A job inside root, without anything. NULL with |root| failed.
gw_elastic *elastic_make(gw_scope *root, const char *what);
gw_elastic *elastic_poisoned(void);  // which fails each scope that it is used with
// Requests to leave reach the job from now on. False with |root| failed: a second group of one name would fail late, and on all
// members.
bool elastic_open_for_requests(gw_scope *root, gw_elastic *j, const char *what);
// SIGTERM is one of them, if .on_term is GW_LEAVE.
void elastic_take_term(gw_elastic *j);
// The launcher may start members again alone from now on.
void elastic_report_state(gw_elastic *j);

// The name that a member which has finished the job of group |name| gives to a value of its own.
const char *elastic_finished_name(gw_scope *s, const char *name);

// ---- Open jobs (jobs.c) ---------------------------------------------------------------------------

// False if this worker has another open job of the same name.
bool jobs_add(gw_elastic *j);
void jobs_remove(gw_elastic *j);  // of no effect if it is not one
void jobs_term_arrived(void);
// A future of gw_elastic_asked; of no effect if it is complete.
void asked_complete(agent *a, gw_future *f);

// ---- Joining (enter.c) ----------------------------------------------------------------------------

// Creates or joins the job as a worker that a launcher has started.
void enter_launched(gw_scope *root, const launched *at, const char *name, int64_t timeout_ms);
// After a worker that the launcher has started has joined the job under |name|, or has failed to. False with |root| failed, or
// with j->reason GW_FINISHED: the job is over.
bool enter_joined(gw_scope *root, gw_elastic *j, const char *what, bool creates, const char *name);

// Joins the job. False with |root| failed, or with j->reason GW_FINISHED.
bool enter_job(gw_scope *root, gw_elastic *j, const launched *at);
// Founds or joins the group, opens the replicas. False as enter_job.
bool enter_group(gw_scope *root, gw_elastic *j);

// ---- Meeting (meeting.c) --------------------------------------------------------------------------

// Whether this member is asked to leave.
bool meeting_leaves(const gw_elastic *j);
// Whether this member wants one.
bool meeting_is_wanted(const gw_elastic *j);
// All members meet. False with |root| failed. This member may be GW_LEAVING then.
bool meeting_hold(gw_scope *root, gw_elastic *j);

// ---- State (state.c) ------------------------------------------------------------------------------

// The newest checkpoint becomes the state of a member that was too late to join. False with |root| failed.
bool state_load_newest(gw_scope *root, gw_elastic *j);
// All members of j->group get the state of the one that is furthest ahead. False with |root| failed. If a member was
// lost meanwhile, j->is_lost: each member has its old state or the new one.
bool state_exchange(gw_scope *root, gw_elastic *j);

// ---- Checkpoints (checkpoints.c) ------------------------------------------------------------------
// ELAS-15, ELAS-16. An error of a checkpoint is only logged: the older ones stay. If a member was lost, j->is_lost.

// Whether |folder| can be written in: else |s| has failed.
bool checkpoints_check(gw_scope *s, const char *folder);
// The newest checkpoint; NULL: there is none.
gw_map *checkpoints_find(gw_scope *s, const char *folder);
// Whether rank 0 wants one, by its clock.
bool checkpoints_are_due_by_time(const gw_elastic *j);
// All members begin one, if the members have agreed on it or it is due by steps. False with |root| failed.
bool checkpoints_begin_if_due(gw_scope *root, gw_elastic *j);
// All members write one now.
bool checkpoints_write(gw_scope *root, gw_elastic *j);
// Waits for the one that is under way.
void checkpoints_await(gw_scope *root, gw_elastic *j);

// ---- SIGTERM (term.c) -----------------------------------------------------------------------------

// Takes SIGTERM, if the program does not. Returns whether it has. |on_arrival| is then called on a thread of this room,
// once for each signal; the same one in all calls.
bool term_take(void (*on_arrival)(void));
void term_give_back(void);
bool term_has_arrived(void);

#endif
