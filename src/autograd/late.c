#include "autograd/late.h"

#include "autograd/pass.h"
#include "base/mem.h"

late *late_open(pass *p, uint32_t tensor_count) {
    env *e = p->scope->env;
    if (!e) {
        scope_fail_of(p->scope, "backward", GW_WRONG_STATE,
                      "this graph leads to other workers, but the scope has no agent");
        return NULL;
    }
    late *l = mem_calloc(sizeof *l + tensor_count * sizeof *l->tensors);
    if (!l) {
        scope_fail_of(p->scope, "backward", GW_NO_MEMORY, "no memory for a late answer");
        return NULL;
    }
    atomic_init(&l->count, 2);
    l->env = e;
    l->pass = p;
    l->tensor_count = tensor_count;
    env_enter(e);
    list_append(&p->lates, &l->sibling);
    env_leave(e);
    p->late_count++;
    return l;
}

void late_release(late *l) {
    if (!l || atomic_fetch_sub_explicit(&l->count, 1, memory_order_acq_rel) != 1) return;
    for (uint32_t i = 0; i < l->tensor_count; i++) handle_release(l->tensors[i]);
    mem_free(l);
}

static void arrive(late *l) {
    env_enter(l->env);
    pass *p = l->pass;
    if (p) {
        list_append(&p->arrived, &l->link);
        if (p->on_answer) p->on_answer(p);
    }
    env_leave(l->env);
    late_release(l);
}

void late_answer(late *l, gw_tensor *const *tensors) {
    for (uint32_t i = 0; i < l->tensor_count; i++) l->tensors[i] = handle_retain(tensors[i]);
    arrive(l);
}

void late_fail(late *l, const gw_error *error) {
    l->error = *error;
    arrive(l);
}
