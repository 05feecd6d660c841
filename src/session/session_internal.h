// Internals shared by the two halves of a session.
#ifndef SESSION_SESSION_INTERNAL_H
#define SESSION_SESSION_INTERNAL_H

#include "session/session.h"

void session_init_sending(session *s);
gw_status session_take_ack(session *s, uint64_t ack, gw_error *error);
void session_detach_sending(session *s);
void session_give_back_sending(session *s);

#endif
