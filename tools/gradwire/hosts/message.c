#include "hosts/message.h"

#include <stdio.h>

link_message message_of(link_kind kind, int number, const char *text) {
    link_message m = { .kind = kind, .number = number, .rank = NO_RANK };
    snprintf(m.text, sizeof m.text, "%s", text);
    return m;
}
