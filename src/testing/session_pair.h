// Two sessions in a test, and a wire between them that the test moves byte by byte, cuts and joins.
#ifndef TESTING_SESSION_PAIR_H
#define TESTING_SESSION_PAIR_H

#include "session/session.h"

enum { SESSION_INBOX_MAX = 2048 };

typedef struct session_end {
    session session;
    message *inbox[SESSION_INBOX_MAX];  // in the order of their first bytes
    int inbox_count;
    int whole[SESSION_INBOX_MAX];  // indexes of the inbox, in the order in which they became whole
    int whole_count;
    bool drops;  // received messages are released at once
} session_end;

typedef struct session_pair {
    session_end a, b;
} session_pair;

void session_pair_init(session_pair *p, bool checks_bodies);  // not joined
void session_pair_open(session_pair *p, bool checks_bodies);
void session_pair_close(session_pair *p);
gw_status session_pair_join(session_pair *p);
void session_pair_part(session_pair *p);

// Moves at most |most| bytes from one end to the other, in pieces as the receiver wishes, but at most |piece|. Returns
// how many. |status|: the result of the receiver; NULL: the test fails if that is an error.
size_t session_end_move(session_end *from, session_end *to, size_t most, size_t piece,
                        gw_status *status);

// Both ways until nothing moves; owed acknowledgements are sent.
void session_pair_flush(session_pair *p, size_t piece);

#endif
