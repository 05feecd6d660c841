// Runs one worker's part of a pass, in the same way at the initiator and at participants. Without
// the loop lock, unless a comment states otherwise.
#include "distributed/autograd/passes.h"

#include "base/mem.h"
#include "base/mutation.h"
#include "base/value.h"
#include "tensor/dtype.h"
#include "tensor/pack.h"
#include <gradwire/ops.h>

#include <assert.h>
#include <inttypes.h>
#include <string.h>

// ---- The plan -----------------------------------------------------------------------------------

bool distributed_pass_fail_memory(gw_scope *s) {
    return scope_fail_of(s, "backward", GW_NO_MEMORY, "no memory for a pass across workers");
}

static bool fail_gone(gw_scope *s, const agent *a, int lost) {
    gw_error error;
    sends_gone_error(a, lost, &error);
    error_prefix_function(&error, "backward");
    return scope_fail_with(s, &error);
}

static bool is_own(const distributed_pass *x, mark m) {
    return m.rank == (uint32_t)x->agent->rank;
}

// Finds the sends of this worker whose slots are marked, all while the loop lock is held once.
static bool take_inputs(distributed_pass *x, gw_scope *s) {
    agent *a = x->agent;
    uint32_t count = 0;
    for (uint32_t i = 0; i < x->marks.count; i++) count += is_own(x, x->marks.items[i]);
    x->inputs = count ? mem_calloc(count * sizeof *x->inputs) : NULL;
    if (count && !x->inputs) return distributed_pass_fail_memory(s);
    bool all = true;
    int lost = -1;
    env_enter(a->env);
    for (uint32_t i = 0; i < x->marks.count && all; i++) {
        mark m = x->marks.items[i];
        const send *d = is_own(x, m) ? sends_find_on_loop(a, m.send) : NULL;
        if (!is_own(x, m)) continue;
        all = d && m.slot < d->sent->slot_count;
        if (all)
            x->inputs[x->input_count++] = (distributed_pass_input){ .mark = m,
                                                                    .sent = handle_retain(d->sent),
                                                                    .from = d->to };
        else
            lost = sends_lost_with_on_loop(a, m.send);
    }
    env_leave(a->env);
    x->missing = x->input_count;
    return all || fail_gone(s, a, lost);
}

// PyTorch's rule, FAST mode: every tensor that was sent in calls of the scope must get a gradient.
static bool check_fast(distributed_pass *x, gw_scope *s) {
    agent *a = x->agent;
    int unused_by = -1;
    if (!x->fast) return true;
    env_enter(a->env);
    for (map_cursor e = { 0 }; unused_by < 0 && map_next(&graphs_of(a)->sends, &e);) {
        const send *d = e.value;
        bool used = d->sent->scope != x->scope;
        for (uint32_t k = 0; k < d->sent->slot_count && !used; k++)
            used = marks_has(&x->marks, (mark){ (uint32_t)a->rank, k, d->id });
        if (!used) unused_by = d->to;
    }
    env_leave(a->env);
    if (unused_by < 0) return true;
    return scope_fail_of(s, "backward", GW_INVALID,
                         "FAST mode expects a gradient of every sent tensor, but the loss does not "
                         "use a tensor that %s sent to %s; without .fast this is no error",
                         a->name, agent_member(a, unused_by)->name);
}

bool distributed_pass_plan(distributed_pass *x, gw_scope *s, gw_backward_options options) {
    pass *p = &x->own;
    pass_open(p, s, options);
    p->keeps = true;
    scope_set_slot(p->work, SCOPE_PASS, x, NULL);
    x->pass = p;
    if (!take_inputs(x, s) || !check_fast(x, s)) return false;
    for (uint32_t i = 0; i < x->input_count; i++) {
        distributed_pass_input *in = &x->inputs[i];
        in->part = pass_expect(p, in->sent->slots[in->mark.slot].edge);
    }
    return gw_ok(s);
}

// ---- Receiving gradients ------------------------------------------------------------------------

static distributed_pass_input *find_input(distributed_pass *x, uint64_t send, uint32_t slot) {
    uint32_t low = 0, high = x->input_count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        mark m = x->inputs[middle].mark;
        if (m.send == send && m.slot == slot) return &x->inputs[middle];
        if (m.send < send || (m.send == send && m.slot < slot))
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

static bool fail_unawaited(gw_scope *s) {
    return scope_fail_of(s, "backward", GW_PROTOCOL,
                         "a gradient has arrived that this worker does not await");
}

static bool fits(const sent_slot *at, const gw_tensor *x) {
    return at->dtype == x->dtype && tensor_has_sizes(x, at->dims, at->sizes);
}

static bool deliver(distributed_pass *x, distributed_pass_input *in, gw_value v) {
    const sent_slot *at = &in->sent->slots[in->mark.slot];
    gw_tensor *gradient = NULL;
    if (v.kind == GW_BOOL) {
        gradient =
            gw_zeros_with(x->pass->work, (gw_dtype)at->dtype, (gw_shape){ at->dims, at->sizes });
    } else if (v.kind == GW_TENSOR) {
        gradient = v.as.tensor;
    }
    if (in->arrived || (v.kind != GW_NONE && !gradient) || (gradient && !fits(at, gradient))) {
        return fail_unawaited(x->pass->scope);
    }
    if (has_mutation(MUTATION_GRADIENT_TWICE) && gradient && in->mark.slot)
        gradient = gw_add(x->pass->work, gradient, gradient);
    in->arrived = true;
    x->missing--;
    // A message carries it to the CPU.
    if (gradient) gradient = tensor_to_device(x->pass->work, gradient, (gw_device)at->device);
    return pass_deliver(x->pass, in->part, gradient);
}

static bool deliver_all(distributed_pass *x, const distributed_pass_mail *mail) {
    gw_scope *work = x->pass->work;
    const bytes *head = &mail->message->head;
    gw_error error;
    decoder d = { .message = mail->message,
                  .in = reader_of(head->data + mail->values_at, head->size - mail->values_at),
                  .scope = work };
    uint32_t count = reader_u32(&d.in);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t slot = reader_u32(&d.in);
        gw_value v;
        if (decode_value(&d, &v, &error)) {
            error_prefix_function(&error, "backward");
            return scope_fail_with(x->pass->scope, &error);
        }
        distributed_pass_input *in = find_input(x, mail->send, slot);
        if (!in || in->from != mail->peer) return fail_unawaited(x->pass->scope);
        if (!deliver(x, in, v)) return false;
    }
    return true;
}

void distributed_pass_mail_free(list_node *mails) {
    for (list_node *l; (l = list_take(mails));) {
        distributed_pass_mail *mail = list_entry(l, distributed_pass_mail, link);
        message_release(mail->message);
        mem_give(mail, sizeof *mail);
    }
}

bool distributed_pass_run(distributed_pass *x, list_node *arrived) {
    bool ok = gw_ok(x->pass->scope);
    list_each(l, arrived) ok = ok && deliver_all(x, list_entry(l, distributed_pass_mail, link));
    distributed_pass_mail_free(arrived);
    return ok && pass_run(x->pass);
}

// ---- Sending gradients --------------------------------------------------------------------------

static distributed_pass_mail *open_mail(int to) {
    distributed_pass_mail *mail = mem_take(sizeof *mail);
    if (!mail) return NULL;
    *mail = (distributed_pass_mail){ .message = message_open(KIND_GRADIENT), .peer = to };
    if (mail->message) return mail;
    mem_give(mail, sizeof *mail);
    return NULL;
}

static void write_own_marks(const distributed_pass *x, int to, bytes *b) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < x->marks.count; i++) count += x->marks.items[i].rank == (uint32_t)to;
    bytes_put_u32(b, count);
    for (uint32_t i = 0; i < x->marks.count; i++)
        if (x->marks.items[i].rank == (uint32_t)to) bytes_put(b, &x->marks.items[i], sizeof(mark));
}

uint8_t distributed_pass_flags(const distributed_pass *x) {
    return (uint8_t)((x->retains ? DISTRIBUTED_PASS_RETAINS : 0) |
                     (x->fast ? DISTRIBUTED_PASS_FAST : 0) |
                     (x->leafless ? DISTRIBUTED_PASS_LEAFLESS : 0) |
                     (x->not_synchronised ? DISTRIBUTED_PASS_NOT_SYNCHRONISED : 0));
}

static void write_head(distributed_pass *x, int to, bool alone, bytes *b) {
    bool small = !x->partial && x->marks.count <= LIMIT_MARKS;
    bool includes_marks = alone || (small && !worker_set_has(&x->marks_sent_to, to));
    bytes_put_u32(b, (uint32_t)x->initiator);
    bytes_put_u64(b, x->number);
    bytes_put_u64(b, x->scope);
    bytes_put_u64(b, 0);  // settled and failed, which are filled in when the message is sent
    bytes_put_u64(b, 0);
    bytes_put_u8(
        b, (uint8_t)(distributed_pass_flags(x) | (includes_marks ? DISTRIBUTED_PASS_MARKS : 0)));
    if (alone) {
        write_own_marks(x, to, b);
    } else if (includes_marks) {
        marks_write(&x->marks, b);
    }
    if (includes_marks) worker_set_add(&x->marks_sent_to, to);
}

bool distributed_pass_send_marks(distributed_pass *x, int to) {
    distributed_pass_mail *mail = open_mail(to);
    if (!mail) return distributed_pass_fail_memory(x->pass->scope);
    write_head(x, to, true, &mail->message->head);
    bytes_put_u64(&mail->message->head, 0);
    list_append(&x->outbox, &mail->link);
    return true;
}

static bool write_gradients(distributed_pass *x, receive *to, gw_tensor **gradients, message *m,
                            gw_error *error) {
    pass *p = x->pass;
    uint32_t target = index_find(&p->numbers, &to->node), count = 0;
    encoder e = { .message = m };
    for (uint32_t i = 0; i < to->slot_count; i++) count += pass_reaches(p, target, i);
    bytes_put_u64(&m->head, to->send);
    bytes_put_u32(&m->head, count);
    for (uint32_t i = 0; i < to->slot_count; i++) {
        if (!pass_reaches(p, target, i)) continue;
        gw_value v = gradients[i] ? gw_value_of_tensor(gradients[i])
                     : x->fast    ? gw_value_of_bool(true)
                                  : gw_none();
        bytes_put_u32(&m->head, i);
        if (encode_value(&e, v, error)) return false;
    }
    return true;
}

void distributed_pass_send_gradients(gw_scope *work, receive *to, gw_tensor **gradients) {
    distributed_pass *x = work->slots[SCOPE_PASS].data;
    gw_error error;
    assert(x);
    distributed_pass_mail *mail = open_mail(to->from);
    if (!mail) {
        scope_fail(work, GW_NO_MEMORY, "no memory for a gradient to another worker");
        return;
    }
    write_head(x, to->from, false, &mail->message->head);
    list_append(&x->outbox, &mail->link);
    if (!write_gradients(x, to, gradients, mail->message, &error)) scope_fail_with(work, &error);
}

enum { ENDED_AT = 20 };  // in the head of a gradient

bool distributed_pass_send_outbox_on_loop(distributed_pass *x, list_node *mails, gw_error *error) {
    agent *a = x->agent;
    passes_ended ended = passes_ended_on_loop(a, x->initiator);
    if (x->relayed.settled > ended.settled) ended = x->relayed;
    error->status = GW_OK;
    while (!list_is_empty(mails) && !error->status && x->state != DISTRIBUTED_PASS_DROPPED) {
        distributed_pass_mail *mail = list_entry(list_take(mails), distributed_pass_mail, link);
        bool more = !list_is_empty(mails) &&
                    list_entry(mails->next, distributed_pass_mail, link)->peer == mail->peer;
        if (!mail->message->head.failed)
            memcpy(mail->message->head.data + ENDED_AT, &ended, sizeof ended);
        agent_send_on_loop(a, mail->peer, mail->message, !more, error);
        mem_give(mail, sizeof *mail);
    }
    return !error->status;
}

// ---- The end ------------------------------------------------------------------------------------

bool distributed_pass_finish(distributed_pass *x) {
    gw_tensor_grad *grads;
    int count, replaces;
    if (!pass_take(x->pass, &grads, &count, &replaces)) return false;
    for (int i = 0; i < count; i++) handle_retain(grads[i].leaf);
    x->grads = grads;
    x->grad_count = count;
    x->grad_replaces = replaces;
    return true;
}

// The senders of the receives that the pass ran delete their sends themselves, so that no release
// is sent for them.
static void settle_receives(const pass *p) {
    for (uint32_t i = 0; i < p->target_count; i++) {
        const node *n = pass_remote_node(p, i);
        if (n && p->targets[i].runs) receive_of(n)->settled = true;
    }
}

void distributed_pass_give_up_graph(distributed_pass *x) {
    agent *a = x->agent;
    if (!x->pass || x->retains) return;
    env_enter(a->env);
    if (!x->unsure) settle_receives(x->pass);
    for (uint32_t i = 0; i < x->input_count; i++) {
        uint64_t id = x->inputs[i].mark.send;
        x->unsure ? sends_give_up_on_loop(a, id, x->initiator) : sends_forget_on_loop(a, id);
    }
    env_leave(a->env);
    if (!x->unsure) pass_forget(x->pass);
}

// The initiator's pass may outlive |x|.
static void ignore_answers(const distributed_pass *x) {
    env_enter(x->agent->env);
    x->pass->on_answer = NULL;
    env_leave(x->agent->env);
}

void distributed_pass_fini(distributed_pass *x) {
    if (x->pass) ignore_answers(x);
    distributed_pass_mail_free(&x->inbox);
    distributed_pass_mail_free(&x->outbox);
    if (x->pass == &x->own) {
        if (x->root && x->error.status)
            scope_fail_with(x->root, &x->error);  // the error that gates get
        pass_close(&x->own);
    }
    x->pass = NULL;
    for (uint32_t i = 0; i < x->input_count; i++) handle_release(x->inputs[i].sent);
    mem_free(x->inputs);
    x->inputs = NULL;
    x->input_count = 0;
    marks_fini(&x->marks);
    if (!x->root) return;
    scope_close_unread(x->root);
    x->root = NULL;
}
