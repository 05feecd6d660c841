// What the workers of the job tell the launcher of joining and of each other, as far as they use
// gradwire: docs/protocol/launcher.md. The launcher works without it.
#ifndef GRADWIRE_NEWS_H
#define GRADWIRE_NEWS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { NEWS_TEXT_SIZE = 512 };

typedef enum news_kind {
    NEWS_JOINS,    // the sender wants to become a member, or
    NEWS_JOINED,   // is one, or
    NEWS_REFUSED,  // did not become one
    NEWS_DEAD,     // the sender has declared that member dead, since it was silent
} news_kind;

typedef struct news {
    news_kind kind;
    uint64_t incarnation;
    pid_t from;  // as the kernel says
    char why[NEWS_TEXT_SIZE];
} news;

int news_open(const char *job_id);  // a descriptor to wait for; -1: there will be none
bool news_take(int fd, news *out);  // false: there is none now

#endif
