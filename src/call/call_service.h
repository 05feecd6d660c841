// The service of calls.
#ifndef CALL_CALL_SERVICE_H
#define CALL_CALL_SERVICE_H

#include "agent/service.h"

extern const service call_service;

#endif
