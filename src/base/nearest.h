// "Did you mean": finds the name that is most similar to a name that does not exist, among names that are offered one
// by one.
//
//     nearest n = nearest_to("worker01");
//     for each worker: nearest_offer(&n, name);
//     error_set(error, GW_NOT_FOUND, "no worker \"%s\"%s", wanted, nearest_words(&n));
#ifndef BASE_NEAREST_H
#define BASE_NEAREST_H

#include <gradwire/status.h>

typedef struct nearest {
    const char *wanted;
    int distance;  // of |name|: characters to add, leave out, change, or exchange with a neighbour
    char name[GW_NAME_MAX + 1];
    char words[GW_NAME_MAX + 32];
} nearest;

nearest nearest_to(const char *wanted);
void nearest_offer(nearest *n, const char *name);

// "; did you mean "worker1"?", or "" if no name is near: more than a third of the characters differ. Of equally near
// ones the first in the alphabet is chosen, in whatever order they were offered. Lives in |n|.
const char *nearest_words(nearest *n);

#endif
