// The scopes around a call of a collective, from the outermost one on, and then the call itself. Members that run the
// same program call the same collectives in scopes that are nested alike: GRP-6 compares calls by these paths. A call
// that enters several collectives has one path for all of them.
//
// Threads: as their sequence; a path is made on the thread of its scope.
#ifndef COLLECTIVE_GROUP_SCOPE_PATH_H
#define COLLECTIVE_GROUP_SCOPE_PATH_H

#include <gradwire/scope.h>
#include <stdbool.h>
#include <stdint.h>

// Calls in deeper scopes count as called in the last one.
enum { SCOPE_PATH_MAX = 10, SCOPE_PATH_INSIDE = -1 };
// Further levels: the call itself, and the scope of the call, at any depth.
enum { SCOPE_PATH_CALL = SCOPE_PATH_MAX, SCOPE_PATH_SCOPE };

typedef struct scope_path {
    uint64_t ids[SCOPE_PATH_MAX];
    int depth;        // 0: no path
    bool of_several;  // the call may enter several collectives
    bool in_body;     // of a function that is served: the outermost scope ends with it
} scope_path;

scope_path scope_path_of(gw_scope *s);
// A call of several collectives that a thread makes. Zeroed: none.
typedef struct call_of_several {
    const gw_scope *scope;
    uint64_t id;
} call_of_several;

// All collectives that this thread calls in |s| until the end belong to one call. Returns the call around it, for the
// end: a thread that waits in a call may run an inline function.
call_of_several scope_path_begin_call(gw_scope *s);
void scope_path_end_call(call_of_several around);
// |p| becomes the path of another call in the same scope, with the number |number| and no id of its own.
void scope_path_make_call(scope_path *p, uint64_t number);
// The level of the first scope of |from| that a call at |to| is not in; SCOPE_PATH_INSIDE if it is in all of them.
int scope_path_leaves(const scope_path *from, const scope_path *to);
// The scope at |level|; 0: there is none, or it is the outermost one of a program, which is never left.
// SCOPE_PATH_SCOPE returns that one, too.
uint64_t scope_path_at(const scope_path *p, int level);

// The paths of the last calls of a sequence, by number. Zeroed: none.
enum { CALL_PATHS_KEPT = 128 };

typedef struct call_paths {
    struct call_path *kept;  // NULL before the first one
} call_paths;

bool call_paths_add(call_paths *all, uint64_t number,
                    const scope_path *path);                                // false without memory
const scope_path *call_paths_find(const call_paths *all, uint64_t number);  // NULL: it is not kept
void call_paths_fini(call_paths *all);

#endif
