// The form in which links send messages: a map of their fields.
#ifndef GRADWIRE_LINK_WIRE_H
#define GRADWIRE_LINK_WIRE_H

#include <gradwire.h>

#include "hosts/message.h"

gw_map *link_wire_encode(gw_scope *s, const link_message *m);

// Fails if a field is missing.
void link_wire_decode(gw_scope *s, const gw_map *from, link_message *out);

#endif
