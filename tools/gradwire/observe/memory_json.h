// The memory of a process by kind, as JSON: {"tensors": 4096, ...}.
#ifndef GRADWIRE_MEMORY_JSON_H
#define GRADWIRE_MEMORY_JSON_H

#include <jansson.h>

#include "base/memory_kinds.h"

const char *memory_json_name(memory_kind kind);  // "tensors"

json_t *memory_json(const uint64_t bytes[MEMORY_KINDS]);

#endif
