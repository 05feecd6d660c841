// The director: actions of the simulation itself, at a time, before a decision, or behind a send.
#include "base/mem.h"
#include "testing/sim_parts.h"

static void give(sim *s, sim_cue *cue) {
    list_remove(&cue->link);
    list_append(&s->given_cues, &cue->link);
    cue->act(s, cue->arg);
}

static void act_on_time(sim_event *ev) {
    sim_cue *cue = list_entry(ev, sim_cue, event);
    give(cue->fault.sim, cue);
}

sim_cue *sim_cue_open(sim *s, void (*act)(sim *s, void *arg), void *arg) {
    sim_cue *cue = mem_calloc(sizeof *cue);
    if (!cue) return NULL;
    sim_event_init(s, &cue->event, NULL, "the director acts", act_on_time);
    cue->act = act;
    cue->arg = arg;
    cue->fault.sim = s;
    list_append(&s->cues, &cue->link);
    return cue;
}

bool sim_at(sim *s, int64_t when_ns, void (*act)(sim *s, void *arg), void *arg) {
    sim_cue *cue = sim_cue_open(s, act, arg);
    if (cue) sim_event_at(s, &cue->event, when_ns);
    return cue;
}

bool sim_at_decision(sim *s, uint64_t decision, void (*act)(sim *s, void *arg), void *arg) {
    sim_cue *cue = sim_cue_open(s, act, arg);
    if (cue) cue->at_decision = decision;
    return cue;
}

bool sim_at_send(sim *s, uint64_t send, void (*act)(sim *s, void *arg), void *arg) {
    sim_cue *cue = sim_cue_open(s, act, arg);
    if (cue) cue->at_send = send;
    return cue;
}

bool sim_when(sim *s, bool (*is_so)(void *arg), void (*act)(sim *s, void *arg), void *arg) {
    sim_cue *cue = sim_cue_open(s, act, arg);
    if (cue) cue->is_so = is_so;
    return cue;
}

void sim_give_cues(sim *s) {
    if (!s->waits_for_mains) return;
    list_each(l, &s->cues) {
        sim_cue *cue = list_entry(l, sim_cue, link);
        bool is_due = (cue->at_decision && cue->at_decision <= s->counts.decisions) ||
                      (cue->at_send && cue->at_send <= s->send_count) ||
                      (cue->is_so && cue->is_so(cue->arg));
        if (!is_due) continue;
        sim_note(s, NULL, cue->event.what, cue->event.id, 0);
        give(s, cue);
    }
}

static void free_all(sim *s, list_node *cues) {
    for (list_node *l; (l = list_take(cues));) {
        sim_cue *cue = list_entry(l, sim_cue, link);
        sim_event_at(s, &cue->event, ENV_NEVER);
        mem_free(cue);
    }
}

void sim_director_free(sim *s) {
    free_all(s, &s->cues);
    free_all(s, &s->given_cues);
}
