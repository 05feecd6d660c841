// The checked mode, GW_CHECK=1: mistakes of a program that are silent otherwise end it with a
// message. See gradwire/log.h.
//
// Note [What the checked mode detects]
//
// Released objects are kept for a while, with a mark in their first word, so that a later use of a scope, or of a
// tensor as an operand, is detected. A scope records which thread is inside one of its operations. And the bytes of a
// block that gw_data_for_write has returned are hashed while other objects depend on them: a write through a kept
// pointer changes the hash.
#ifndef BASE_CHECK_H
#define BASE_CHECK_H

#include <gradwire/status.h>

extern bool check_enabled;  // set before main

_Noreturn void check_die(const char *format, ...) GW_PRINTF(1, 2);

// Keeps the memory of a released object; |release| is called with it later.
void check_lay_aside(void *object, void (*release)(void *object));

// Whether |object|, which begins with a pointer, is kept by check_lay_aside.
bool check_is_aside(const void *object);

#endif
