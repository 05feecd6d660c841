// Where the standard output and error of ranks go: the values of -r (--redirects) and -t (--tee), as of torchrun.
//
//     3               of all ranks: 0 neither stream, 1 standard output, 2 standard error, 3 both
//     0:1,4:3         of ranks 0 and 4; 0 of the others
#ifndef GRADWIRE_STREAMS_H
#define GRADWIRE_STREAMS_H

#include <stdbool.h>

enum { STREAM_OUT = 1, STREAM_ERR = 2, STREAMS_ALL = 3 };

// False, after a printed line, unless |text| is one of these forms for ranks below |rank_count|.
bool streams_check(const char *option, const char *text, int rank_count);

// False, after a printed line, unless |text| is a list of ranks below |rank_count|: "0,2".
bool ranks_check(const char *option, const char *text, int rank_count);

// Whether |rank| is in |text|, which was checked; NULL: all are.
bool ranks_have(const char *text, int rank);

// The streams of |rank| in |text|, which was checked; NULL: none.
int streams_of(const char *text, int rank);

#endif
