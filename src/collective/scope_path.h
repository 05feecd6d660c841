// Where a collective is called: the scopes around the call, from the outermost one on, and behind these the call itself.
// Members that run the same program call the same collectives in scopes that are nested alike: GRP-6 compares calls by
// these. A call that enters several collectives has one path for all of them.
#ifndef COLLECTIVE_SCOPE_PATH_H
#define COLLECTIVE_SCOPE_PATH_H

#include <gradwire/scope.h>
#include <stdbool.h>
#include <stdint.h>

// Calls in scopes that are nested deeper count as called in the last one.
enum { SCOPE_PATH_MAX = 10, SCOPE_PATH_INSIDE = -1 };

typedef struct scope_path {
    uint64_t ids[SCOPE_PATH_MAX];
    int depth;     // 0: no path
    bool in_body;  // of a function that is served: the outermost scope ends with that
} scope_path;

scope_path scope_path_of(gw_scope *s);
// All collectives that are called in |s| until the end are of one call.
void scope_path_begin_call(gw_scope *s);
void scope_path_end_call(gw_scope *s);
// The level of the first scope of |from| that a call at |to| is not in; SCOPE_PATH_INSIDE if it is in all of them.
int scope_path_leaves(const scope_path *from, const scope_path *to);
// The scope at |level|, if a program may leave it; 0. The outermost scope of a program stays for all of its calls.
uint64_t scope_path_at(const scope_path *p, int level);
// Whether both are in the scope that |a| has at |level|.
bool scope_path_shares(const scope_path *a, const scope_path *b, int level);

#endif
