// The members of the job, as far as they tell of themselves, and which process each of them is.
#ifndef GRADWIRE_MEMBERS_H
#define GRADWIRE_MEMBERS_H

#include "job.h"
#include "news.h"

// Takes what has come: ends who was declared dead, and notes who joins.
void members_take_news(job *j);

// Ends the process of a member that the others have declared dead, if it runs here: its incarnation
// and why, as the launcher of the host that was told has it.
void members_end(job *j, const char *text);

// Says which ranks have ended well without joining while others wait for all to join. Once each.
void members_name_absent(job *j);

#endif
