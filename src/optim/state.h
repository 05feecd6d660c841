// The state of an optimizer as a map, and loading such a map.
#ifndef OPTIM_STATE_H
#define OPTIM_STATE_H

#include "optim/optimizer.h"

// A map that has been checked, ready to be taken over.
typedef struct loaded {
    optimizer_group *groups;  // as many as the optimizer has
    parameter *parameters;    // their step counts and states
    int parameter_count;
    int64_t step_count;
    int64_t after_count;  // of functions behind steps
} loaded;

// False with |s| failed, and nothing to forget, if |map|, which was given to the function |what|, does not fit |o|.
bool state_read(gw_scope *s, const gw_optimizer *o, const char *what, const gw_map *map,
                loaded *out);
// The same of a map that state_write_groups has written: |out| has no states.
bool state_read_groups(gw_scope *s, const gw_optimizer *o, const char *what, const gw_map *map,
                       loaded *out);
void state_take_over(gw_optimizer *o, loaded *l);  // cannot fail
void state_forget(loaded *l);

void state_write_groups(gw_scope *s, const gw_optimizer *o, gw_map *map);
void state_write_parameters(gw_scope *s, const gw_optimizer *o, gw_map *map);

// Reads a map and notes which names were read, so that map_reading_close can refuse others.
typedef struct map_reading {
    const char *what;  // for errors
    const gw_map *map;
    bool *seen;  // by index
} map_reading;

bool map_reading_open(gw_scope *s, map_reading *r, const char *what, const gw_map *map);
gw_value map_reading_get(gw_scope *s, map_reading *r, const char *key);  // fails |s| if absent
gw_value map_reading_find(map_reading *r, const char *key);              // none if absent
double map_reading_number(gw_scope *s, map_reading *r, const char *key);
int64_t map_reading_count(gw_scope *s, map_reading *r, const char *key);  // not negative
void map_reading_string(gw_scope *s, map_reading *r, const char *key, const char *expected);
void map_reading_close(gw_scope *s, map_reading *r);  // fails |s| if a name was not read

#endif
