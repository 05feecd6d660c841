#include "timeline/flows.h"

#include <stdlib.h>

#include "base/mutation.h"
#include "trace/kinds.h"

// One for a call on its way to the body, one for its reply. The id of a call is used again by the next attempt of the
// caller, after the end of this flow.
static uint64_t flow_of_call(uint64_t id, bool is_reply) {
    uint64_t x = id * 2 + is_reply + 1;
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return (x ^ x >> 31) >> 1;
}

static uint64_t flow_of_link(uint32_t link) {
    return UINT64_C(1) << 63 | link;
}

static void add_flow(timeline *t, visit_event *e, visit_flow flow) {
    if (e->flow_count == t->flow_capacity) {
        int capacity = t->flow_capacity ? 2 * t->flow_capacity : 16;
        void *larger = realloc(t->flows, (size_t)capacity * sizeof *t->flows);
        if (!larger) {
            t->failed = true;
            return;
        }
        t->flows = larger;
        t->flow_capacity = capacity;
    }
    t->flows[e->flow_count++] = flow;
    e->flows = t->flows;
}

static void add_call_flows(timeline *t, visit_event *e, bool is_body) {
    if (e->has_begin && !clocks_leads_back(t->clocks, TRACE_CALL_MADE, e->id))
        add_flow(t, e, (visit_flow){ .id = flow_of_call(e->id, false), .is_target = is_body });
    uint64_t replied = e->id;
    if (has_mutation(MUTATION_TRACE_OTHER_CALL) && !is_body) replied++;
    if (e->has_end && !clocks_leads_back(t->clocks, TRACE_BODY_ENDED, e->id))
        add_flow(t, e,
                 (visit_flow){
                     .id = flow_of_call(replied, true), .is_at_end = true, .is_target = !is_body });
}

static void add_target(timeline *t, visit_event *e, uint32_t number, bool is_at_end) {
    uint32_t link = pairs_link_to(&t->pairs, number);
    if (link != PAIRS_NONE)
        add_flow(
            t, e,
            (visit_flow){ .id = flow_of_link(link), .is_at_end = is_at_end, .is_target = true });
}

void flows_add(timeline *t, visit_event *e, uint32_t begin, uint32_t end) {
    if (e->kind == TRACE_CALL_MADE || e->kind == TRACE_BODY_BEGUN)
        add_call_flows(t, e, e->kind == TRACE_BODY_BEGUN);
    if (e->kind != TRACE_COLLECTIVE_ENTERED && e->kind != TRACE_PASS_BEGUN &&
        e->kind != TRACE_PART_BEGUN)
        return;
    const pairs *p = &t->pairs;
    if (begin != PAIRS_NONE) {
        for (uint32_t i = pairs_first_link(p, begin);
             i < p->link_count && p->links[i].source == begin; i++)
            add_flow(t, e, (visit_flow){ .id = flow_of_link(i) });
        add_target(t, e, begin, false);
    }
    if (end != PAIRS_NONE) add_target(t, e, end, true);
}
