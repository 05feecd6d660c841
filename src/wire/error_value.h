// Values that errors carry (base/error_value.h), in messages: behind their error. docs/protocol/values.md.
#ifndef WIRE_ERROR_VALUE_H
#define WIRE_ERROR_VALUE_H

#include "base/bytes.h"
#include "base/status.h"

// Writes the value of |e|; a size of 0 if it has none.
void encode_value_of_error(bytes *b, const gw_error *e);

// Reads it, and sets |e->value| to its number, with one count for the caller. PROTOCOL for malformed bytes.
gw_status decode_value_of_error(reader *r, gw_error *e, gw_error *error);

#endif
