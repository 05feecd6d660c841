#include "watch/events.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool parse(const char *text, worker_event *out) {
    static const char *const words[] = { "joins", "joined",   "refused",   "dead",
                                         "lost",  "failed",   "continues", "elastic",
                                         "left",  "finished", "stop" };
    char word[16];
    int at = 0;
    if (sscanf(text, "%15s %16" SCNx64 " %n", word, &out->incarnation, &at) != 2) return false;
    for (int i = 0; i < (int)(sizeof words / sizeof words[0]); i++) {
        if (strcmp(word, words[i]) != 0) continue;
        out->kind = (event_kind)i;
        snprintf(out->why, sizeof out->why, "%s", at ? text + at : "");
        return true;
    }
    return false;
}

bool events_take(channels *c, worker_event *out) {
    channel *from;
    for (const char *line; (line = channels_take(c, &from));) {
        if (!parse(line, out)) continue;
        if (out->kind == EVENT_JOINS) from->incarnation = out->incarnation;
        out->from = from;
        return true;
    }
    return false;
}
