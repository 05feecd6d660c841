// What this room asks of the room of references, which provides it. All with the loop lock held unless said otherwise.
#ifndef AGENT_UPWARD_H
#define AGENT_UPWARD_H

#include "future/future.h"
#include "call/object.h"
#include "future/result.h"

// The owner's side of a reference: what is kept, or the error in making it, or who waits for it. Counted.
typedef struct entry entry;

// At the agent's opening, at its end, and with its memory. Objects end in references_close, which is called without the
// role; handles may stay.
gw_status references_open(agent *a, gw_error *error);
void references_close(agent *a);
void references_free(agent *a);

// A line in the log for each value that other workers refer to, where none should be left.
void references_report_on_loop(agent *a);

// Whoever waits for a value to be made waits no more.
void references_stop_on_loop(agent *a, const gw_error *why);

// Messages of the kinds from KIND_ACCEPTED on; takes |m|. PROTOCOL for bytes that mean nothing.
gw_status references_received_on_loop(agent *a, int from, message *m, gw_error *error);
void references_lost_on_loop(agent *a, int rank);

// After each message to oneself: lets go of what was kept for it.
void references_sweep_on_loop(agent *a);

// At shutdown: gives back all references to other workers; using one afterwards is WRONG_STATE.
void references_give_back_on_loop(agent *a);
// Those that still have to be confirmed, accepted or given back.
size_t references_pending(const agent *a);

// A reference in a message to |to|: writes its bytes into the table of attachments. On failure nothing has changed.
bool reference_write_on_loop(gw_rref *r, int to, bytes *table, gw_error *error);
// The message was not sent after all.
void reference_unwrite_on_loop(gw_rref *r, int to, const uint8_t *written);
// A reference in a message from |from|. One count.
gw_status reference_read_on_loop(agent *a, int from, reader *table, gw_rref **out, gw_error *error);

// The caller's side of a call through |r|: who owns it, and under which numbers.
int reference_owner(const gw_rref *r);
const agent *reference_agent(const gw_rref *r);
// To a parameter of this worker: the turn in which it is changed, and fetched.
turn *reference_turn_on_loop(const gw_rref *r);
gw_status reference_check_on_loop(const gw_rref *r, uint64_t *out_id, uint64_t *out_fork,
                                  gw_error *error);

// A future of the value behind a reference, f->by_value: fetched once somebody here waits for it.
void by_value_fetch_on_loop(gw_future *f);  // starts that; nothing if it has been started
// A promise of it is kept by the value's owner: its rank, or -1 if this worker sends the value like any other.
int by_value_producer_on_loop(const gw_future *f);
// Asks the owner to keep it; false without memory for that.
bool by_value_forward_on_loop(gw_future *f, int consumer, uint64_t promise);
void by_value_free(struct by_value *b);  // without the loop lock
// Such a future, for a reference that is an argument of an operator: one count, NULL without memory. Without the loop lock.
gw_future *by_value_open(gw_rref *r);

// The callee's side. A creating request came: the entry of its result, one count. A request through a reference came: the
// entry of its target, one count; REF_LOST if |from| may not use it.
gw_status entry_accept_on_loop(agent *a, int from, uint64_t id, uint64_t fork, entry **out,
                               gw_error *error);
// Where it was asked for: |size| bytes, whatever they are.
void entry_say_origin_on_loop(entry *e, const char *origin, size_t size);
// Its value is what an object gives out in the turn |t|; NULL: no object's.
void entry_say_turn_on_loop(entry *e, turn *t);
gw_status entry_find_on_loop(agent *a, int from, uint64_t id, uint64_t fork, entry **out,
                             gw_error *error);
void entry_release_on_loop(entry *e);
void entry_make_on_loop(entry *e, result *value,
                        object *o);  // takes a count on |value|, or the object
// Runs |c| when the entry is made; false if it is already.
bool entry_await_on_loop(entry *e, continuation *c);
// The object, counted by |e|; or the error of making it, or INVALID because it is a value.
object *entry_object(const entry *e, gw_error *error);

// ---- Graphs across workers: asked of the room of distributed autograd ----

// At the agent's opening, at its end, and with its memory.
gw_status graphs_open(agent *a, gw_error *error);
void graphs_close(agent *a);  // without the loop lock
void graphs_free(agent *a);
void graphs_stop_on_loop(agent *a, const gw_error *why);
void graphs_lost_on_loop(agent *a, int rank);
gw_status graphs_received_on_loop(agent *a, int from, message *m, gw_error *error);  // takes |m|
size_t graphs_pending(const agent *a);  // passes under way

// The tracked tensors of one message, whoever receives it: a handle, NULL without memory. Without the loop lock.
gw_handle *graph_open(agent *a, uint64_t scope);
gw_status graph_add(gw_handle *graph, gw_tensor *x, uint32_t *out_slot, gw_error *error);
// As reference_write_on_loop: |graph| in a message to |to|.
bool graph_write_on_loop(gw_handle *graph, int to, bytes *table, gw_error *error);
void graph_unwrite_on_loop(gw_handle *graph, const uint8_t *written);
// The graph in a message from |from|, one count; and |x|, decoded from it, as its |slot|. |x| may be NULL.
gw_status graph_read_on_loop(agent *a, int from, reader *table, gw_handle **out, gw_error *error);
gw_status graph_link(gw_handle *received, uint32_t slot, gw_tensor *x, gw_error *error);

// Whether the graph that |table| goes on with, or a gradient, names a worker that this one has not heard of: early_is_unheard.
// Reads to the graph's end. Bytes that mean nothing name nobody.
bool graph_names_unheard(const agent *a, reader *table);
bool gradient_names_unheard(const agent *a, const message *m);

// ---- What every worker serves by itself ----

// The library's own function or class of this name, "gw.optimizer", which is in no registry; NULL if there is none.
const function *library_find(const char *name);

#endif
