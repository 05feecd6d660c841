// The service of messages from one member of a group to another.
#ifndef COLLECTIVE_POINT_TO_POINT_H
#define COLLECTIVE_POINT_TO_POINT_H

#include "agent/service.h"

extern const service point_to_point_service;

#endif
