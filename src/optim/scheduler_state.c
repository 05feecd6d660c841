// The state of schedulers as a map, and loading one.
#include "optim/scheduler.h"
#include "optim/state.h"

gw_map *gw_scheduler_state_dict(gw_scope *s, gw_scheduler *c) {
    gw_map *map = gw_map_open(s);
    if (!scheduler_check(s, c, "gw_scheduler_state_dict")) return map;
    gw_map_put(s, map, "schedule", c->schedule->name);
    gw_map_put(s, map, "last_epoch", c->now.step);
    if (c->schedule == &schedule_plateau) {
        gw_map_put(s, map, "best", c->now.best);
        gw_map_put(s, map, "num_bad_epochs", c->now.bad_steps);
        gw_map_put(s, map, "cooldown_counter", c->now.cooldown_left);
    }
    return map;
}

void gw_scheduler_load_state_dict(gw_scope *s, gw_scheduler *c, gw_map *map) {
    if (!scheduler_check(s, c, "gw_scheduler_load_state_dict")) return;
    schedule_state loaded = c->now;
    map_reading r;
    if (!map_reading_open(s, &r, "gw_scheduler_load_state_dict", map)) return;
    map_reading_string(s, &r, "schedule", c->schedule->name);
    loaded.step = map_reading_count(s, &r, "last_epoch");
    if (c->schedule == &schedule_plateau) {
        loaded.best = map_reading_number(s, &r, "best");
        loaded.bad_steps = map_reading_count(s, &r, "num_bad_epochs");
        loaded.cooldown_left = map_reading_count(s, &r, "cooldown_counter");
    }
    map_reading_close(s, &r);
    if (gw_ok(s)) c->now = loaded;
}
