// The memories of this user's worker processes on this host.
//
// A process is not asked: its memory is found among the descriptors of all processes of this user, in /proc. The memory
// of a process that has ended is found while its launcher has it open.
#ifndef GRADWIRE_FIND_H
#define GRADWIRE_FIND_H

#include "observe/image.h"

enum { FIND_KEY_SIZE = 256, FIND_WHY_SIZE = 1024 };

typedef struct found {
    image *images;  // by job, then by rank
    int count;
    int refused_count;            // of memories that could not be read
    char refused[FIND_WHY_SIZE];  // the first of them, and why
} found;

// |wanted|: the number of a worker process or of a launcher, the id of a job, or the beginning of its mark; NULL: all.
// Returns false, with a sentence in |why|, without /proc or memory, or if nothing is what is wanted.
bool find_images(const char *wanted, found *out, char *why, size_t why_size);

// The same without records and strings, which is a small part of the work.
bool find_tables(const char *wanted, found *out, char *why, size_t why_size);

// The same for the whole of one job: with the number of a process, its job. If there are several, |why| lists them.
bool find_job(const char *wanted, found *out, char *why, size_t why_size);

// The same without records and strings.
bool find_job_tables(const char *wanted, found *out, char *why, size_t why_size);

void find_free(found *f);

// Opens the memory of the process of |x|, which runs, with |flags| of open(); -1: it is gone, or cannot be opened.
int find_open(const image *x, int flags);

// Looks up whether the process of an image runs, and where its threads sleep: fills |life|, |wchan|, and |in| of bodies.
void find_life(image *x);

// The name of its job: its id, else its mark, else "parent-77" with the number of the parent process.
void find_key(const image *x, char out[FIND_KEY_SIZE]);

#endif
