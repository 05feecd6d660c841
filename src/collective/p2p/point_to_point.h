// The service of messages from one member of a group to another.
#ifndef COLLECTIVE_P2P_POINT_TO_POINT_H
#define COLLECTIVE_P2P_POINT_TO_POINT_H

#include "agent/service.h"

extern const service point_to_point_service;

#endif
