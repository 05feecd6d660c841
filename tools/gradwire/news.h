// What the workers of the job report to the launcher of joining and of each other, as far as they
// use gradwire: docs/protocol/launcher.md. The launcher works without it.
#ifndef GRADWIRE_NEWS_H
#define GRADWIRE_NEWS_H

#include "channels.h"

enum { NEWS_TEXT_SIZE = 512 };

typedef enum news_kind {
    NEWS_JOINS,    // the sender wants to become a member, or
    NEWS_JOINED,   // is one, or
    NEWS_REFUSED,  // did not become one
    NEWS_DEAD,     // the sender has declared that member dead, since it was silent
    NEWS_LOST,     // the sender has lost that member: it has ended, or was declared dead
} news_kind;

typedef struct news {
    news_kind kind;
    uint64_t incarnation;  // whom it is about
    const channel *from;
    char why[NEWS_TEXT_SIZE];
} news;

bool news_take(channels *c, news *out);  // false: there is none now

#endif
