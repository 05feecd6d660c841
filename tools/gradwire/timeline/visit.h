// What a timeline consists of, as its formats and its report receive it: tracks, slices, instants and numbers, each
// slice and instant in the order in which it begins, after the notices about the records themselves.
//
// A name and a track are given once, before they are used.
#ifndef GRADWIRE_VISIT_H
#define GRADWIRE_VISIT_H

#include <stdbool.h>
#include <stdint.h>

typedef enum visit_track_kind {
    VISIT_PROCESS,
    VISIT_THREAD,
    VISIT_ROW,  // of slices that overlap: none of one row does
    VISIT_COUNTER,
} visit_track_kind;

typedef struct visit_track {
    visit_track_kind kind;
    uint32_t number;  // from 1
    uint32_t parent;  // the process; 0 for processes
    int pid, tid;     // no two tracks have the same ones; |tid| of a thread
    int row;          // from 0, of those of one name
    const char *name;
} visit_track;

typedef enum visit_argument_name {
    VISIT_BYTES,
    VISIT_NUMBER,  // of a collective in its group
    VISIT_GROUP,
    VISIT_STATUS,  // unless it is OK
    VISIT_RANK,
    VISIT_MEMBERS,
    VISIT_STEP,
    VISIT_DURATION,  // nanoseconds
    VISIT_COUNT,
    VISIT_DEVICE,  // of an operator, unless it is the CPU
    VISIT_BEGIN,   // marks of what is missing
    VISIT_END,
    VISIT_NOTE,
    VISIT_METHOD,       // by which clocks are aligned
    VISIT_OFFSET,       // nanoseconds, as text, since it may be negative
    VISIT_UNCERTAINTY,  // nanoseconds
    VISIT_ARGUMENT_NAMES
} visit_argument_name;

// "bytes"
const char *visit_argument_text(visit_argument_name name);

typedef struct visit_argument {
    visit_argument_name name;
    const char *text;  // NULL: a number
    uint64_t number;
} visit_argument;

// An end of an arrow. Both ends have the same id.
typedef struct visit_flow {
    uint64_t id;
    bool is_at_end;  // of the slice, else at its begin
    bool is_target;
} visit_flow;

enum { VISIT_ARGUMENTS = 6 };

typedef struct visit_event {
    uint32_t track, name;
    uint8_t kind;  // the trace_kind of the begin, or of the instant; 0: about the records
    bool has_begin, has_end;
    int64_t begin_ns, end_ns;
    int argument_count;
    visit_argument arguments[VISIT_ARGUMENTS];
    int flow_count;
    const visit_flow *flows;
    // for the report
    int image;
    uint64_t id;
    uint32_t group;  // the name of that of a collective; 0: not known
    bool has_failed;
} visit_event;

typedef struct visitor {
    void *state;
    // First: the same moment on the clock of the timeline and in UTC.
    void (*start)(void *state, int64_t at_ns, int64_t wall_ns);
    void (*name)(void *state, uint32_t number, const char *text);  // from 1
    void (*track)(void *state, const visit_track *track);
    void (*slice)(void *state, const visit_event *x);
    void (*instant)(void *state, const visit_event *x);
    // |note|: NULL, or why the number cannot be drawn, "nan".
    void (*counter)(void *state, uint32_t track, int64_t at_ns, double value, const char *note);
} visitor;

// One that ignores all; for those that need a part.
visitor visitor_ignoring(void *state);

#endif
