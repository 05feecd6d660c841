// The arguments of events.
#ifndef GRADWIRE_ARGUMENTS_H
#define GRADWIRE_ARGUMENTS_H

#include "observe/image.h"
#include "timeline/visit.h"

// What there is no room for is left out.
void arguments_add_number(visit_event *e, visit_argument_name name, uint64_t number);
void arguments_add_text(visit_event *e, visit_argument_name name, const char *text);

// The worker that a fetch or a full queue is about.
void arguments_add_begin(visit_event *e, const image_record *begin);

// The status that the end of a slice has, unless it is OK; what an operator has made.
void arguments_add_end(visit_event *e, const image_record *end);

// What the value of an instant means.
void arguments_add_instant(visit_event *e, const image_record *r);

#endif
