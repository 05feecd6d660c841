// The checked mode, GW_CHECK=1: mistakes of a program that are silent otherwise end it with one
// sentence. See gradwire/log.h.
//
// Note [What the checked mode sees]
//
// Objects that are given back lie aside for a while, with a mark in front, so that their use is
// seen: a scope's, and a tensor's as an operand. A scope says which thread is inside one of its
// operations. And the bytes of a block that gw_data_for_write has handed out are hashed while others
// rely on them: who writes through a kept pointer changes the hash.
#ifndef BASE_CHECK_H
#define BASE_CHECK_H

#include <gradwire/status.h>

extern bool check_enabled;  // set before main

_Noreturn void check_die(const char *format, ...) GW_PRINTF(1, 2);

// Takes the memory of an object that was given back; |release| gets it later.
void check_lay_aside(void *object, void (*release)(void *object));

// Whether |object|, which begins with a pointer, was laid aside.
bool check_is_aside(const void *object);

#endif
