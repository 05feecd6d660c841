// The service of names: values of this worker that others find by a name.
#ifndef REFERENCE_NAMES_H
#define REFERENCE_NAMES_H

#include "agent/service.h"

extern const service name_service;

#endif
