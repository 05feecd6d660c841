// The service of groups.
#ifndef COLLECTIVE_GROUP_SERVICE_H
#define COLLECTIVE_GROUP_SERVICE_H

#include "agent/service.h"

extern const service group_service;

#endif
