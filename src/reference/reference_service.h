// The service of references.
#ifndef REFERENCE_REFERENCE_SERVICE_H
#define REFERENCE_REFERENCE_SERVICE_H

#include "agent/service.h"

extern const service reference_service;

#endif
