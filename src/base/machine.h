// State machines as tables: a rule has a state, an event, the next state, an action, and why. One function of the machine's
// file applies rules, and the state is assigned nowhere else.
//
//     typedef MACHINE_RULE(tcp_state, tcp_event, tcp_stream *t) rule;
//     static const rule rules[] = {
//         { TCP_OPEN, TCP_ENDED, TCP_CLOSED, report_end, "the peer has closed, or the network failed" },
//     };
//     ...
//     const rule *r = machine_find(rules, sizeof rules, sizeof *rules, t->state, event);
//
// Ownership, threads: tables are constant.
#ifndef BASE_MACHINE_H
#define BASE_MACHINE_H

#include <stddef.h>

// |...|: the parameters of actions.
#define MACHINE_RULE(state_type, event_type, ...)                                                  \
    struct {                                                                                       \
        state_type from;                                                                           \
        event_type event;                                                                          \
        state_type to;                                                                             \
        void (*action)(__VA_ARGS__);                                                               \
        const char *why;                                                                           \
    }

// The rule for |event| in |state|; NULL if there is none.
const void *machine_find(const void *rules, size_t size, size_t rule_size, unsigned state,
                         unsigned event);

#endif
