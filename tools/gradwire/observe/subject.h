// What a command is to look at: workers that run, or a file that gradwire dump has written.
#ifndef GRADWIRE_SUBJECT_H
#define GRADWIRE_SUBJECT_H

#include "observe/find.h"

bool subject_is_file(const char *wanted);

// |wanted|: as in find.h, or the path of a file: it ends in ".gwt" or has a '/'. |of_one_job|: find_job instead of
// find_images. Prints what is wrong, as gradwire |command|. The result is for find_free.
bool subject_open(const char *command, const char *wanted, bool of_one_job, found *out);

#endif
