#include "base/logged_losses.h"

#include "base/log.h"

#include <stdatomic.h>

// Incarnations are random: the lowest bit is whether standard error has the line.
static const uint64_t printed_bit = 1;

static bool is_death(const gw_error *e) {
    return e->lost.how && e->lost.how != GW_LOSS_LEFT;
}

static bool find(env *e, const gw_error *why, bool *out_is_printed) {
    for (int i = 0; i < ENV_LOGGED_LOSSES; i++) {
        uint64_t x = atomic_load_explicit(&e->logged_losses[i], memory_order_relaxed);
        if (!x || ((x ^ why->lost.incarnation) & ~printed_bit)) continue;
        *out_is_printed = x & printed_bit;
        return true;
    }
    return false;
}

static void note(env *e, const gw_error *why, bool is_printed) {
    uint32_t i = atomic_fetch_add_explicit(&e->logged_loss_count, 1, memory_order_relaxed);
    uint64_t x = (why->lost.incarnation & ~printed_bit) | (is_printed ? printed_bit : 0);
    atomic_store_explicit(&e->logged_losses[i % ENV_LOGGED_LOSSES], x, memory_order_relaxed);
}

void logged_losses_log(env *e, const gw_error *why) {
    bool is_printed;
    if (is_death(why) && find(e, why, &is_printed)) return;
    if (!log_is_wanted(GW_LOG_WARNING)) return;
    is_printed = log_line("%s", why->text);
    if (is_death(why)) note(e, why, is_printed);
}

void logged_losses_forget(env *e) {
    for (int i = 0; i < ENV_LOGGED_LOSSES; i++)
        atomic_store_explicit(&e->logged_losses[i], 0, memory_order_relaxed);
}

bool logged_losses_log_root(env *e, const char *worker, const gw_error *error) {
    bool is_printed, is_loss = e && error->status != GW_FENCED && is_death(error);
    if (is_loss && find(e, error, &is_printed)) return is_printed;
    is_printed = log_error("%s: %s", worker, error->text);
    if (is_loss && log_is_wanted(GW_LOG_ERROR)) note(e, error, is_printed);
    return is_printed;
}
